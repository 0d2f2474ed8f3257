package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/router"
)

// maxAttempts is how many backends are tried for one request.
const maxAttempts = 3

// walk tries backends until one attempt settles the request.
func (x *exchange) walk() {
	x.p.retries.request(x.record.Start)
	x.header = x.outgoing()
	for {
		d, err := x.decide()
		if err != nil {
			x.giveUp(err)
			return
		}
		again, err := x.attempt(d)
		if err != nil {
			x.giveUp(err)
			return
		}
		if !again {
			return
		}
	}
}

// decide asks the router for the next backend and waits for a slot where the pool
// wants that.
func (x *exchange) decide() (*router.Decision, *Error) {
	d, err := x.ask()
	if saturated, ok := errors.AsType[*router.SaturatedError](err); ok && saturated.Wait {
		d, err = x.queue()
	}
	if err == nil {
		return d, nil
	}
	if x.record.Attempts > 0 {
		x.p.retries.giveBack(x.p.options.Now())
	}
	if e := x.routeError(err); len(x.tries) == 0 || e.ended() {
		return nil, e
	}
	return nil, x.unavailable(http.StatusBadGateway, CodeUnavailable)
}

// ask makes one decision. A backend whose kept connection was closed comes last, but
// nothing is wrong with it: where nobody else can take the request, it may.
func (x *exchange) ask() (*router.Decision, error) {
	x.request.Now, x.request.Random = x.p.options.Now(), x.p.options.Random()
	d, err := x.p.options.Router.Route(&x.request)
	if x.forgiven > 0 && err != nil {
		x.request.Tried = slices.Delete(x.request.Tried, x.forgiven-1, x.forgiven)
		d, err = x.p.options.Router.Route(&x.request)
	}
	x.forgiven = 0
	return d, err
}

// queue waits for a slot.
func (x *exchange) queue() (*router.Decision, error) {
	if x.queued.IsZero() {
		x.queued = time.Now().Add(x.p.options.QueueWait)
	}
	x.request.Waited = true
	defer func() { x.request.Waited = false }()
	return intake.Wait(x.r.Context(), x.target.Pool, x.p.line, x.visitor.Owner(), x.queued, x.ask)
}

// routeError says what it means to the client that no backend takes the request.
func (x *exchange) routeError(err error) *Error {
	saturated := func(after time.Duration, format string, args ...any) *Error {
		return &Error{
			Status: http.StatusTooManyRequests, Code: CodeSaturated, RetryAfter: after,
			Message: fmt.Sprintf(format, args...),
		}
	}
	if errors.Is(err, intake.ErrLineLeft) {
		return x.gone()
	}
	if message, refused := x.p.line.Refused(err, x.target.Pool.Name()); refused {
		return saturated(time.Second, "%s", message)
	}
	if e, ok := errors.AsType[*router.SaturatedError](err); ok {
		return saturated(e.RetryAfter, "%s", e.Error())
	}
	none := &Error{Status: http.StatusServiceUnavailable, Code: CodeNoBackend, Message: err.Error()}
	if e, ok := errors.AsType[*router.NoBackendError](err); ok {
		none.RetryAfter = e.RetryAfter
		if e.Pin != "" {
			none.Message = fmt.Sprintf("backend %q of pool %q cannot take the request", printed(e.Pin), e.Pool)
		}
	}
	return none
}

// giveUp ends a request that nobody takes: with what an engine said, if one said
// anything, else with the error.
func (x *exchange) giveUp(err *Error) {
	if x.kept != nil && !err.ended() {
		x.replay()
		return
	}
	x.refuse(err)
}

// unavailable is the error that tells of all attempts.
func (x *exchange) unavailable(status int, code Code) *Error {
	return &Error{Status: status, Code: code, Message: "no backend gave an answer: " + strings.Join(x.tries, "; ")}
}

// mayRetry reports whether another backend may be tried after b, and takes the retry
// out of the budget.
func (x *exchange) mayRetry(b *backends.Backend) bool {
	return x.record.Attempts < maxAttempts && x.others(b) && x.p.retries.take(x.p.options.Now())
}

// others reports whether there is anybody else to try, as far as one can tell
// without a decision.
func (x *exchange) others(b *backends.Backend) bool {
	if x.request.PinRequired {
		return false
	}
	now := x.p.options.Now()
	for _, other := range x.target.Pool.Backends() {
		if other == b || slices.Contains(x.request.Tried, other) || !other.Serves(x.request.Model) {
			continue
		}
		switch other.State(now) {
		case backends.Up, backends.Cooling, backends.Ejected:
			return true
		case backends.Draining, backends.Asleep, backends.Unreachable:
		}
	}
	return false
}
