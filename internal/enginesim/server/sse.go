package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// errReset ends a stream whose connection a fault has reset.
var errReset = errors.New("connection reset by fault")

// errInjected ends a stream that a fault breaks off with an error event.
var errInjected = errors.New("error injected by /sim/fault")

// eventStream writes server-sent events, each flushed at once, and carries out
// the faults that strike streams.
type eventStream struct {
	ctx   context.Context
	w     http.ResponseWriter
	rc    *http.ResponseController
	buf   bytes.Buffer
	fault streamFault
	sent  int
}

// openStream sends the headers of a stream.
func (s *Server) openStream(w http.ResponseWriter, r *http.Request) *eventStream {
	stream := &eventStream{
		ctx:   r.Context(),
		w:     w,
		rc:    http.NewResponseController(w),
		fault: s.faults.stream(),
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	_ = stream.rc.Flush()
	return stream
}

// send writes one event. name is empty where the dialect does not name events.
func (e *eventStream) send(name string, payload any) error {
	data, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	return e.raw(name, data)
}

// raw writes one event of finished data.
func (e *eventStream) raw(name string, data []byte) error {
	if err := e.strike(); err != nil {
		return err
	}
	e.buf.Reset()
	if name != "" {
		e.buf.WriteString("event: ")
		e.buf.WriteString(name)
		e.buf.WriteByte('\n')
	}
	e.buf.WriteString("data: ")
	e.buf.Write(data)
	e.buf.WriteString("\n\n")
	if _, err := e.w.Write(e.buf.Bytes()); err != nil {
		return err
	}
	e.sent++
	if err := e.rc.Flush(); err != nil {
		return err
	}
	if e.fault.dieAfter == e.sent {
		return e.strike()
	}
	return nil
}

// done writes the terminator of the OpenAI dialects.
func (e *eventStream) done() error { return e.raw("", []byte("[DONE]")) }

// fail ends a stream of the OpenAI dialects whose generation the server could
// not finish, as vLLM does: an error event, then the terminator.
func (e *eventStream) fail(err error) {
	failure := ended(err)
	if failure.status == statusClientGone {
		return
	}
	failure.status, failure.kind = http.StatusInternalServerError, "InternalServerError"
	if e.send("", failure.body()) == nil {
		_ = e.done() // nobody is left to tell
	}
}

// strike carries out a fault that is due before the next event.
func (e *eventStream) strike() error {
	if e.fault.dieAfter >= 0 && e.sent >= e.fault.dieAfter {
		reset(e.rc)
		return errReset
	}
	if e.fault.errorAfter >= 0 && e.sent >= e.fault.errorAfter {
		e.fault.errorAfter = -1
		return errInjected
	}
	if e.fault.hang != nil && e.sent >= 1 {
		select {
		case <-e.fault.hang:
			e.fault.hang = nil
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
	return nil
}

// reset breaks a connection so that the client sees a reset, not an end.
func reset(rc *http.ResponseController) {
	conn, _, err := rc.Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
