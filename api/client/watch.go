package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmroute/warmroute/feedback/usage"
)

// answer is an answer on its way to the caller. It is watched for usage, and reported
// once: when it ends, breaks off or is closed.
type answer struct {
	io.ReadCloser

	client   *Client
	decision *Decision
	ctx      context.Context //nolint:containedctx // lives as long as the answer
	status   int
	header   http.Header
	events   bool
	renewal  *time.Timer

	filter *usage.Filter // nil where nothing is taken out
	raw    []byte        // what the engine sent last, reused
	passed []byte        // what of that may be passed on and has not been
	out    []byte        // where that is, reused
	err    error         // how the engine's answer ended, with a filter

	mu    sync.Mutex // callers may close while they read
	tap   *usage.Tap
	begun bool // something of it has been read
	ended bool
}

// watch puts an answer between the engine's body and the caller. injected says that the
// engine was asked for usage on the caller's behalf.
func (c *Client) watch(req *http.Request, d *Decision, resp *http.Response, injected bool) {
	contentType := resp.Header.Get("Content-Type")
	a := &answer{
		ReadCloser: resp.Body, client: c, decision: d, ctx: req.Context(), status: resp.StatusCode, header: resp.Header,
		tap:    usage.NewTap(formatOf(req.URL.Path), contentType),
		events: strings.HasPrefix(strings.ToLower(contentType), "text/event-stream"),
	}
	if injected && a.events {
		a.filter, a.raw = new(usage.Filter), make([]byte, readSize)
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	}
	a.renewal = time.AfterFunc(c.lease/2, a.renew)
	resp.Body = a
}

// readSize is how much of a stream is read at a time that something is taken out of.
const readSize = 16 << 10

// formatOf is where the answers of an endpoint report usage.
func formatOf(path string) usage.Format {
	switch {
	case strings.HasSuffix(path, "/v1/responses"):
		return usage.Responses
	case strings.HasSuffix(path, "/v1/messages"):
		return usage.Anthropic
	}
	return usage.OpenAI
}

// renew keeps the decision while the answer comes.
func (a *answer) renew() {
	ctx, cancel := context.WithTimeout(a.ctx, reportTime)
	defer cancel()
	if !errors.Is(a.decision.Renew(ctx), ErrNotTaken) { // else it is over
		a.renewal.Reset(a.client.lease / 2)
	}
}

// Read implements [io.Reader].
func (a *answer) Read(p []byte) (int, error) {
	if a.filter == nil {
		n, err := a.ReadCloser.Read(p)
		a.saw(p[:n], err)
		return n, err
	}
	for len(a.passed) == 0 && a.err == nil && len(p) > 0 {
		var n int
		n, a.err = a.ReadCloser.Read(a.raw)
		a.saw(a.raw[:n], a.err)
		a.out = a.filter.Push(a.out[:0], a.raw[:n])
		if a.err == io.EOF { //nolint:errorlint // a wrapped EOF is a failure
			a.out = a.filter.Flush(a.out)
		}
		a.passed = a.out
	}
	n := copy(p, a.passed)
	a.passed = a.passed[n:]
	if len(a.passed) > 0 || n > 0 {
		return n, nil
	}
	return 0, a.err
}

// saw takes in what was read of the engine's answer.
func (a *answer) saw(p []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	a.begun = a.begun || len(p) > 0
	before := a.tap.Started()
	a.tap.Write(p)
	if !before && a.tap.Started() {
		a.firstToken()
	}
	switch {
	case err == nil:
	case err == io.EOF: //nolint:errorlint // a wrapped EOF is a failure
		a.end(a.whole())
	case a.ctx.Err() != nil:
		a.end(Canceled)
	default:
		a.end(BrokenOff)
	}
}

// firstToken notes the first token. Of a stream the router is told at once: there is one
// prompt less to prefill.
func (a *answer) firstToken() {
	a.decision.FirstToken()
	if !a.events {
		return
	}
	a.client.later(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), reportTime)
		defer cancel()
		_ = a.decision.Renew(ctx) // the end is reported in any case
	})
}

// whole says how an answer ended that came to its end. a.mu is held.
func (a *answer) whole() Ending {
	a.tap.Close()
	switch {
	case a.status >= http.StatusBadRequest:
	case a.tap.Err():
		return EngineError
	case a.events && a.tap.Started() && !a.tap.Done():
		return Incomplete
	}
	return Answered
}

// leftover bounds what is read of an answer that its caller closes before its end.
const leftover = 64 << 10

// Close implements [io.Closer]. Whoever closes a stream before its last event does not wait
// for its end; a JSON value is often read without looking for the end behind it.
func (a *answer) Close() error {
	a.mu.Lock()
	read := a.begun && !a.ended && !a.events
	a.mu.Unlock()
	if read {
		_, _ = io.CopyN(io.Discard, struct{ io.Reader }{a}, leftover) // which reports the end, if it is there
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		how := Canceled
		if a.tap.Done() || overloaded(a.status) {
			how = Answered // nothing more was to come
		}
		a.end(how)
	}
	return a.ReadCloser.Close()
}

// end reports how the answer ended. a.mu is held.
func (a *answer) end(how Ending) {
	a.ended = true
	a.renewal.Stop()
	a.tap.Close()
	o := Outcome{Ending: how, Status: a.status, Usage: a.tap.Usage(), ResponseID: a.tap.ResponseID()}
	if overloaded(a.status) {
		o.RetryAfter = retryAfter(a.header)
	}
	a.tap.Release()
	a.client.later(func() { _ = a.decision.Done(o) }) // the lease ends it otherwise
}
