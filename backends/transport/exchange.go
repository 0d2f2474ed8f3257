package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/warmroute/warmroute/backends"
)

// What ends an exchange from our side, as causes of its context.
var (
	errFirstByte = errors.New("no answer in time")
	errIdle      = errors.New("the answer paused for too long")
	errDone      = errors.New("the answer was closed")
)

// exchange is one request and its answer.
type exchange struct {
	config  *Config
	backend *backends.Backend
	caller  context.Context //nolint:containedctx // tells the caller's end from ours
	ctx     context.Context //nolint:containedctx // of the exchange, ended by cancel
	cancel  context.CancelCauseFunc

	mu        sync.Mutex
	waiting   *time.Timer // for the first byte; nil before there is a connection
	answered  bool        // RoundTrip returned
	reused    bool        // the connection had been kept, mostly after another request
	firstByte bool        // a byte of an answer arrived
}

func newExchange(caller context.Context, c *Config, b *backends.Backend) *exchange {
	x := &exchange{config: c, backend: b, caller: caller}
	ctx, cancel := context.WithCancelCause(caller)
	x.cancel = cancel
	x.ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(info httptrace.GotConnInfo) { x.connected(info.Reused || info.WasIdle) },
		WroteRequest:         func(info httptrace.WroteRequestInfo) { x.wrote(info.Err) },
		GotFirstResponseByte: x.gotFirstByte,
	})
	return x
}

// connected starts the wait for the answer, so that an upload that does not get on
// is bounded as well.
func (x *exchange) connected(reused bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reused, x.firstByte = reused, false
	x.await()
}

// wrote starts the wait anew: the engine has the whole request now.
func (x *exchange) wrote(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil {
		x.await()
	}
}

// await sets the timer for the first byte. x.mu is held.
func (x *exchange) await() {
	switch {
	case x.answered:
	case x.waiting == nil:
		x.waiting = time.AfterFunc(x.config.FirstByte, x.giveUp)
	default:
		x.waiting.Reset(x.config.FirstByte)
	}
}

func (x *exchange) giveUp() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.answered {
		x.cancel(errFirstByte)
	}
}

func (x *exchange) gotFirstByte() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.firstByte = true
}

// answer ends the wait for the first byte.
func (x *exchange) answer() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
	if x.waiting != nil {
		x.waiting.Stop()
	}
}

// abandon ends an exchange that got no answer and says why.
func (x *exchange) abandon(err error) *Failure {
	f := x.classify(err)
	x.cancel(errDone)
	return f
}

// refuse ends an exchange whose answer cannot be used.
func (x *exchange) refuse(kind Kind, reason string) *Failure {
	x.cancel(errDone)
	x.mu.Lock()
	defer x.mu.Unlock()
	return &Failure{Kind: kind, Err: fmt.Errorf("backend %s: %s", x.backend.ID, reason), Reused: x.reused}
}

// classify says what an error of this exchange means.
func (x *exchange) classify(err error) *Failure {
	x.mu.Lock()
	defer x.mu.Unlock()
	kind, reason := x.kind(err)
	switch {
	case kind == Malformed:
		err = fmt.Errorf("backend %s: %s%s", x.backend.ID, reason, unquoted(err))
	case reason == "":
		err = fmt.Errorf("backend %s: %w", x.backend.ID, err)
	default:
		err = fmt.Errorf("backend %s: %s: %w", x.backend.ID, reason, err)
	}
	return &Failure{Kind: kind, Err: err, Reused: x.reused}
}

// kind decides by who ended the exchange first, then by how far it had come. x.mu
// is held.
func (x *exchange) kind(err error) (Kind, string) {
	switch cause := context.Cause(x.ctx); {
	case cause == nil:
	case errors.Is(cause, errFirstByte):
		return FirstByteTimeout, fmt.Sprintf("no answer within %v (%s)", x.config.FirstByte, settingFirstByte)
	case errors.Is(cause, errIdle):
		return IdleTimeout, fmt.Sprintf("nothing more of the answer within %v (%s)", x.config.Idle, settingIdle)
	case x.caller.Err() != nil, errors.Is(cause, errDone):
		return ClientGone, "the caller gave up"
	}
	if phase, ok := errors.AsType[*phaseError](err); ok {
		return phase.kind, ""
	}
	switch {
	case !x.firstByte && refusedByTLS(err):
		return TLS, "TLS refused"
	case connectionEnded(err) && x.reused && !x.firstByte:
		return StaleConn, "the kept connection was closed"
	case connectionEnded(err) && !x.firstByte:
		return BrokenConn, "the connection broke before the answer"
	case connectionEnded(err), streamReset(err):
		return BrokenConn, "the answer broke off"
	case x.firstByte:
		return Malformed, "the answer is not HTTP"
	case x.reused:
		// net/http may hand a connection on just before it closes it because the request
		// before was given up, and then fails this one with the reason of that one.
		return StaleConn, "the kept connection was closed"
	}
	return Other, ""
}
