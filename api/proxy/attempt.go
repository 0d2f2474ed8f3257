package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/usage"
	"github.com/warmroute/warmroute/router"
)

const (
	// keepAnswer bounds what is kept of an answer that says that an engine is
	// overloaded, and keepRefusal what is looked at of a refusal that may be about
	// usage; keepTime is how long either is waited for.
	keepAnswer  = 256 << 10
	keepRefusal = 64 << 10
	keepTime    = time.Second
)

// attempt is one decision and what comes of it.
type attempt struct {
	x        *exchange
	d        *router.Decision
	ctx      context.Context //nolint:containedctx // lives as long as the attempt
	injected bool            // the engine was asked for usage on its client's behalf
	outcome  feedback.Outcome
}

// attempt sends the request to the chosen backend. again says that the next one is
// to be tried; an error, that none is and that the client has got no answer yet.
func (x *exchange) attempt(d *router.Decision) (again bool, err *Error) {
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	a := &attempt{x: x, d: d, ctx: ctx, outcome: feedback.Outcome{Result: feedback.RouterError}}
	defer a.complete()
	x.note(d)
	resp, failure := a.send()
	if failure != nil {
		return a.failed(failure)
	}
	defer resp.Body.Close()
	switch {
	case intake.Overloaded(resp.StatusCode) && x.mayRetry(d.Backend):
		a.keep(resp)
		return true, nil
	case x.call.WrapRefusals && !succeeded(resp.StatusCode):
		a.refused(resp)
	default:
		a.relay(resp)
	}
	return false, nil
}

// complete tells the router what came of the decision. It runs exactly once, after
// a panic too.
func (a *attempt) complete() {
	a.outcome.Now = a.x.p.options.Now()
	a.x.p.options.Router.Complete(a.d, a.outcome)
	a.x.record.Result, a.x.record.Usage = a.outcome.Result, a.outcome.Usage
}

// note records the decision.
func (x *exchange) note(d *router.Decision) {
	r := x.record
	r.Attempts++
	d.Record(r)
	r.TTFT = 0
}

// send sends the request. A backend that does not know how to report usage on
// streams gets it again without the wish, and is not asked for usage any more.
func (a *attempt) send() (*http.Response, *transport.Failure) {
	x, b := a.x, a.d.Backend
	known := x.p.asked.Of(b)
	if x.injected == nil || known == usage.Refused {
		return a.do(x.body)
	}
	a.injected = true
	resp, failure := a.do(x.injected)
	if failure != nil {
		return nil, failure
	}
	switch resp.StatusCode {
	case http.StatusOK:
		x.p.asked.Learn(b, usage.Given)
		return resp, nil
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
	default:
		return resp, nil
	}
	refusal, err := readUpTo(resp.Body, keepRefusal)
	if !known.Blamed(resp.StatusCode, refusal) {
		resp.Body = refusalBody(refusal, err, resp.Body)
		return resp, nil
	}
	resp.Body.Close()
	a.injected = false
	resp, failure = a.do(x.body)
	if failure == nil && resp.StatusCode == http.StatusOK {
		x.p.asked.Learn(b, usage.Refused)
	}
	return resp, failure
}

func (a *attempt) do(body []byte) (*http.Response, *transport.Failure) {
	r := a.x.r
	path, query := r.URL.EscapedPath(), r.URL.RawQuery
	if a.x.call.Path != "" {
		path, query = a.x.call.Path, ""
	}
	return a.x.p.options.Transport.Do(a.ctx, a.d.Backend, transport.Request{
		Method: r.Method, Path: path, RawQuery: query, Header: a.x.header, Body: body,
	})
}

// errLong and errLate say why readUpTo did not read an answer whole.
var (
	errLong = errors.New("there is more of the answer")
	errLate = &transport.Failure{Kind: transport.IdleTimeout, Err: fmt.Errorf("the answer did not end within %v", keepTime)}
)

// readUpTo reads limit bytes of an answer and a little more, and closes it where that
// takes longer than keepTime. Without an error it was the whole answer.
func readUpTo(body io.ReadCloser, limit int64) ([]byte, error) {
	timer := time.AfterFunc(keepTime, func() { body.Close() })
	text, err := io.ReadAll(io.LimitReader(body, limit+1))
	late := !timer.Stop()
	switch {
	case err == nil && int64(len(text)) <= limit:
		return text, nil
	case late:
		return text, errLate
	case err == nil:
		return text, errLong
	}
	return text, err
}

// failed takes in an attempt without an answer.
func (a *attempt) failed(f *transport.Failure) (again bool, err *Error) {
	x, b := a.x, a.d.Backend
	if f.Kind == transport.ClientGone {
		err = x.gone()
		a.outcome.Result = err.result()
		return false, err
	}
	a.outcome.Result, a.outcome.Blame = feedback.Unavailable, feedback.Strike
	x.tries = append(x.tries, b.ID+": "+explain(f.Kind))
	code, status := CodeUnavailable, http.StatusBadGateway
	switch {
	case f.Kind == transport.StaleConn:
		// Engines close connections that idle; that alone is no fault. The others
		// that were kept have idled as long.
		a.outcome.Blame = feedback.Neutral
		x.p.options.Transport.Forget(b)
		if !slices.Contains(x.stale, b) && x.record.Attempts < maxAttempts && x.p.retries.take(x.p.options.Now()) {
			x.stale = append(x.stale, b)
			x.request.Tried = append(x.request.Tried, b)
			x.forgiven = len(x.request.Tried)
			return true, nil
		}
	case f.Kind.Retryable() && x.mayRetry(b):
		x.request.Tried = append(x.request.Tried, b)
		return true, nil
	case f.Kind == transport.FirstByteTimeout:
		a.outcome.Result = feedback.Timeout
		code, status = CodeTimeout, http.StatusGatewayTimeout
	}
	err = x.unavailable(status, code)
	err.detail = f.Error()
	err.Begun = !f.Kind.Retryable()
	return false, err
}

// explain says what a kind of failure is, without the addresses that errors of the
// network name.
func explain(k transport.Kind) string {
	switch k {
	case transport.Dial:
		return "no connection"
	case transport.TLS:
		return "TLS failed"
	case transport.StaleConn, transport.BrokenConn:
		return "the connection broke before the answer"
	case transport.FirstByteTimeout:
		return "no answer in time (timeouts.first_byte)"
	case transport.IdleTimeout:
		return "the answer paused for too long (timeouts.idle)"
	case transport.Malformed:
		return "the answer is not HTTP"
	case transport.ClientGone:
		return "the client left"
	case transport.Other:
	}
	return "the request could not be sent"
}

// keptAnswer is the answer of an overloaded engine, kept in case nobody else takes
// the request.
type keptAnswer struct {
	status     int
	header     http.Header
	body       []byte
	whole      bool
	retryAfter time.Duration
	backend    string
}

// keep reads the answer of an overloaded engine, so that its connection can be used
// again, and lets the engine be.
func (a *attempt) keep(resp *http.Response) {
	x := a.x
	body, err := readUpTo(resp.Body, keepAnswer)
	after := retryAfter(resp.Header, x.p.options.Now())
	x.kept = &keptAnswer{
		status: resp.StatusCode, header: resp.Header, body: body, whole: err == nil,
		retryAfter: after, backend: a.d.Backend.ID,
	}
	a.outcome.Status = resp.StatusCode
	a.outcome.Result, a.outcome.Blame, a.outcome.RetryAfter = feedback.Saturated, feedback.Overloaded, after
	x.tries = append(x.tries, a.d.Backend.ID+": "+strconv.Itoa(resp.StatusCode))
	x.request.Tried = append(x.request.Tried, a.d.Backend)
}

// replay answers with the last answer that was kept. One that was too long to keep
// is told in the dialect, with the same status.
func (x *exchange) replay() {
	k := x.kept
	switch {
	case x.call.WrapRefusals:
		x.refuse(refusedBy(k.backend, &Refusal{Status: k.status, Header: k.header, Body: k.body}))
		x.record.Result = feedback.Saturated
		return
	case !k.whole:
		x.refuse(&Error{Status: k.status, Code: CodeSaturated, RetryAfter: k.retryAfter, Message: "backend " + k.backend + " is overloaded"})
		return
	}
	x.record.Result = feedback.Saturated
	x.record.Err = fmt.Sprintf("backend %s answered %d", k.backend, k.status)
	h := x.w.Header()
	incoming(h, &http.Response{Header: k.header})
	x.attemptHeader(h)
	h["Content-Length"] = []string{strconv.Itoa(len(k.body))}
	x.w.WriteHeader(k.status)
	_, _ = x.w.Write(k.body) // a client that left needs no answer
}

// retryAfter reads a Retry-After header, in seconds or as a date; 0 means none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if !(seconds > 0) {
			return 0
		}
		return time.Duration(min(seconds, 86400) * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// refusalBody puts what was read of a refusal in front of the rest of it; err is why
// there is one.
func refusalBody(read []byte, err error, body io.ReadCloser) io.ReadCloser {
	var rest io.Reader = body
	switch {
	case err == nil:
		rest = http.NoBody
	case !errors.Is(err, errLong):
		rest = failing{err}
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(read), rest), body}
}

// failing is the rest of an answer that cannot be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
