package transport

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Closing a body before its end costs the connection, except where the rest is
// known to be short and comes at once.
const (
	drainBytes = 32 << 10
	drainTime  = 10 * time.Millisecond
)

// body is an answer's body as the caller reads it. Each Read is bounded by
// timeouts.idle; the time a slow client takes between two reads does not count.
type body struct {
	from io.ReadCloser
	x    *exchange
	sent *sentBody // nil when the request had none

	rest    int64       // bytes to come, -1 when not known
	pause   *time.Timer // nil before the first Read
	failure *Failure    // of an earlier Read
	ended   atomic.Bool // read to the end, or failed
	closed  atomic.Bool
	reading atomic.Bool
}

func newBody(x *exchange, resp *http.Response, sent *sentBody) *body {
	return &body{from: resp.Body, x: x, sent: sent, rest: resp.ContentLength}
}

// Read reads the next piece. Its errors are io.EOF or a [Failure].
func (b *body) Read(p []byte) (int, error) {
	if b.failure != nil {
		return 0, b.failure
	}
	b.reading.Store(true)
	if b.pause == nil {
		b.pause = time.AfterFunc(b.x.config.Idle, func() { b.x.cancel(errIdle) })
	} else {
		b.pause.Reset(b.x.config.Idle)
	}
	n, err := b.from.Read(p)
	b.pause.Stop()
	b.reading.Store(false)
	if b.rest > 0 {
		b.rest -= int64(n)
	}
	switch {
	case err == io.EOF: //nolint:errorlint // a wrapped EOF is a failure
		b.ended.Store(true)
	case err != nil:
		b.ended.Store(true)
		b.failure = b.x.classify(err)
		err = b.failure
	}
	return n, err
}

// Close gives the connection back if the answer was read to its end, or if its rest
// is short and there already. Else it ends the exchange, upstream too. It may be
// called again, and while Read runs.
func (b *body) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	if !b.ended.Load() && !b.reading.Load() {
		b.drain()
	}
	b.sent.Close()
	b.x.cancel(errDone)
	return b.from.Close()
}

func (b *body) drain() {
	if b.rest < 0 || b.rest > drainBytes || b.x.caller.Err() != nil {
		return
	}
	timer := time.AfterFunc(drainTime, func() { b.x.cancel(errDone) })
	defer timer.Stop()
	_, _ = io.Copy(io.Discard, b.from) // a failure costs only the connection
}
