package proxy

import (
	"net/http"
)

// reply is the answer to a client. It knows what was sent of it.
type reply struct {
	http.ResponseWriter

	status int   // sent, 0 for nothing yet
	bytes  int64 // of the body
	tail   [4]byte
	push   func() error
}

func newReply(w http.ResponseWriter) reply {
	return reply{ResponseWriter: w, push: pusher(w)}
}

// pusher finds what flushes behind layers of middleware.
func pusher(w http.ResponseWriter) func() error {
	for {
		switch v := w.(type) {
		case interface{ FlushError() error }:
			return v.FlushError
		case http.Flusher:
			return func() error {
				v.Flush()
				return nil
			}
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return func() error { return nil }
		}
	}
}

// WriteHeader sends the status.
func (w *reply) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends the next bytes of the body.
func (w *reply) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	if n >= len(w.tail) {
		copy(w.tail[:], p[n-len(w.tail):n])
	} else {
		copy(w.tail[:], w.tail[n:])
		copy(w.tail[len(w.tail)-n:], p[:n])
	}
	return n, err
}

// Flush sends what is buffered.
func (w *reply) Flush() { _ = w.push() }

// Unwrap lets http.ResponseController find the connection.
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// betweenEvents reports whether an event stream could go on with another event.
func (w *reply) betweenEvents() bool {
	tail := string(w.tail[:])
	return w.bytes == 0 || tail[2:] == "\n\n" || tail == "\r\n\r\n" || tail[2:] == "\r\r"
}
