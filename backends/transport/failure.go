package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// Kind is what kind of failure kept a request from its answer.
type Kind uint8

// The kinds.
const (
	// Other: none of those below; the request itself may be at fault.
	Other Kind = iota
	// Dial: no connection came about, a failed name lookup and timeouts.connect
	// included. The engine has not seen the request.
	Dial
	// TLS: the connection came about, its TLS did not: an unknown authority, a wrong
	// name, a refused client certificate. The engine has not seen the request.
	TLS
	// StaleConn: a reused connection ended before any byte of an answer, as happens
	// when the engine closes it at the end of its keep-alive.
	StaleConn
	// BrokenConn: a fresh connection ended before any byte of an answer, or any
	// connection did after the first byte. The engine may have done the work.
	BrokenConn
	// FirstByteTimeout: no answer within timeouts.first_byte.
	FirstByteTimeout
	// IdleTimeout: the answer paused for longer than timeouts.idle.
	IdleTimeout
	// ClientGone: the caller's context ended. It says nothing about the backend.
	ClientGone
	// Malformed: what came back is not HTTP, or not HTTP any more.
	Malformed
)

var kindNames = [...]string{
	Other:            "other",
	Dial:             "dial",
	TLS:              "tls",
	StaleConn:        "stale_connection",
	BrokenConn:       "broken_connection",
	FirstByteTimeout: "first_byte_timeout",
	IdleTimeout:      "idle_timeout",
	ClientGone:       "client_gone",
	Malformed:        "malformed",
}

// String returns the kind's name as a metric label.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Retryable reports whether the request may be sent again, to this backend or
// another, without the risk that an engine does the work twice. For StaleConn that
// risk is small rather than none, so a caller does it once.
func (k Kind) Retryable() bool { return k == Dial || k == TLS || k == StaleConn }

// Failure is why a request got no answer, or why an answer broke off. As an error
// of a body it is found with [FailureOf].
type Failure struct {
	// Kind is what kind of failure it is.
	Kind Kind
	// Err says what happened, naming the backend and the setting that has a part in
	// it. It wraps what the network said.
	Err error
	// Reused says whether the connection had been kept unused before, as those that
	// carried another request were.
	Reused bool
}

// Error returns the text of Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// FailureOf classifies an error that reading the body of an answer returned. It
// returns nil for nil and for io.EOF, which is how a whole answer ends.
func FailureOf(err error) *Failure {
	if err == nil || err == io.EOF { //nolint:errorlint // a wrapped EOF is a failure
		return nil
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Failure{Kind: ClientGone, Err: err}
	case connectionEnded(err):
		return &Failure{Kind: BrokenConn, Err: err}
	}
	return &Failure{Kind: Other, Err: err}
}

// phaseError marks an error of making a connection with the phase that failed.
type phaseError struct {
	kind Kind // Dial or TLS
	err  error
}

func (e *phaseError) Error() string { return e.err.Error() }
func (e *phaseError) Unwrap() error { return e.err }

// connectionEnded reports whether an error says that the connection is no more, as
// opposed to something on it that could not be understood.
func connectionEnded(err error) bool {
	for _, end := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
		syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT, syscall.ENOTCONN,
	} {
		if errors.Is(err, end) {
			return true
		}
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	// net/http keeps these to itself.
	text := err.Error()
	for _, part := range []string{
		"server closed idle connection", "readLoopPeekFailLocked", "http: idle connection timeout", "CloseIdleConnections",
		"http2: server sent GOAWAY", "http2: client conn", "REFUSED_STREAM",
	} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// refusedByTLS recognises a certificate that the other side turned down only after
// our half of a TLS 1.3 handshake was done, if its alert came before our own write
// failed.
func refusedByTLS(err error) bool { return strings.Contains(err.Error(), "remote error: tls:") }

// streamReset recognises an HTTP/2 stream that the server ended on purpose.
func streamReset(err error) bool { return strings.HasPrefix(err.Error(), "stream error:") }

// unquoted is what may be told of an error about an answer that is not HTTP: net/http
// quotes the answer in most, which may be text of a prompt or of what came of it.
func unquoted(err error) string {
	text := err.Error()
	for _, known := range []string{
		"malformed HTTP response", "malformed HTTP version", "malformed HTTP status code", "malformed MIME header",
		"bad Content-Length", "response headers exceeded", "invalid byte in chunk length", "malformed chunked encoding",
	} {
		if strings.Contains(text, known) {
			return ": " + known
		}
	}
	return ""
}
