package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/feedback/usage"
)

const (
	// maxAttempts is how many backends are tried for one request.
	maxAttempts = 3
	// maxBody bounds a request's body, in bytes.
	maxBody = 64 << 20
)

// The headers that say something about the request to the router.
const (
	headerTenant    = "X-Amzn-Sagemaker-Prefix-Aware-Id"
	headerRequestID = "X-Request-Id"
	headerBackend   = "X-Warmroute-Backend"
	headerReason    = "X-Warmroute-Reason"
	headerDecision  = "X-Warmroute-Decision-Id"
)

// Transport returns a transport that asks the router before each POST and sends it
// straight to the backend that it names, by base (nil means [http.DefaultTransport]). It
// reads the usage that goes by and reports what came of the request, at the latest when
// the answer's body is closed. Where no connection comes about, or the backend answers
// 429, 503 or 529, the next one is asked for, up to three. Everything but POST goes to the
// router itself. The host of a request's URL does not matter.
//
// A stream reports usage only where its request asks for it ("stream_options":
// {"include_usage": true}). Where a request does not say, the transport asks, unless the
// router is configured not to (inject_usage), and takes the chunk out again that comes of
// it; a backend that refuses is not asked again. Everything else that the engine sends
// arrives as it is.
func (c *Client) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{c, base}
}

type transport struct {
	client *Client
	base   http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPost {
		return t.send(req, Target{URL: t.client.base}, req.Body, req.ContentLength)
	}
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	ask := Request{
		Path: req.URL.Path, Body: body, ContentType: req.Header.Get("Content-Type"),
		TenantID: req.Header.Get(headerTenant), ID: req.Header.Get(headerRequestID),
	}
	for attempt := 1; ; attempt++ {
		d, err := t.client.Route(req.Context(), ask)
		if err != nil {
			return nil, err
		}
		resp, again, err := t.attempt(req, d, body)
		if !again || attempt == maxAttempts {
			return resp, err
		}
		if resp != nil {
			resp.Body.Close()
		}
		ask.Tried = append(ask.Tried, d.Target.Backend)
	}
}

// attempt sends the request to one backend. again says that another may be asked for.
func (t *transport) attempt(req *http.Request, d *Decision, body []byte) (resp *http.Response, again bool, err error) {
	if d.RewriteModel {
		if body, err = prompt.SetModel(body, d.Model); err != nil {
			_ = d.Done(Outcome{Ending: Canceled}) // the lease ends it otherwise
			return nil, false, fmt.Errorf("name the model %q in the body: %w", d.Model, err)
		}
	}
	resp, injected, err := t.exchange(req, d, body)
	if err != nil {
		ending := endingOf(req.Context(), err)
		t.client.later(func() { _ = d.Done(Outcome{Ending: ending}) })
		var dial *net.OpError
		return nil, ending == Unreachable && errors.As(err, &dial) && dial.Op == "dial", err
	}
	resp.Header.Set(headerBackend, d.Target.Backend)
	resp.Header.Set(headerReason, d.Reason)
	resp.Header.Set(headerDecision, d.ID)
	t.client.watch(req, d, resp, injected)
	return resp, overloaded(resp.StatusCode), nil
}

// exchange sends the request and returns what the engine says. injected says that it was
// asked for usage on its caller's behalf. One that refuses that gets the request again
// without the wish.
func (t *transport) exchange(req *http.Request, d *Decision, body []byte) (resp *http.Response, injected bool, err error) {
	known := t.client.asked.Of(d.Target.Backend)
	asking := body
	if d.AskForUsage && known != usage.Refused && req.Header.Get("Accept-Encoding") == "" { // what is compressed cannot be read
		if edited, err := prompt.SetIncludeUsage(body); err == nil {
			asking, injected = edited, true
		}
	}
	resp, err = t.post(req, d, asking)
	if err != nil || !injected {
		return resp, injected, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		t.client.asked.Learn(d.Target.Backend, usage.Given)
		return resp, true, nil
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
	default:
		return resp, true, nil
	}
	refusal, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil || !known.Blamed(resp.StatusCode, refusal) {
		resp.Body = &rest{io.MultiReader(bytes.NewReader(refusal), resp.Body), resp.Body}
		return resp, true, nil
	}
	resp.Body.Close()
	if resp, err = t.post(req, d, body); err == nil && resp.StatusCode == http.StatusOK {
		t.client.asked.Learn(d.Target.Backend, usage.Refused)
	}
	return resp, false, err
}

// maxRefusal is how much is looked at of a refusal that may be about usage, in bytes.
const maxRefusal = 64 << 10

// rest is an answer of which a part was read already.
type rest struct {
	io.Reader
	io.Closer
}

func (t *transport) post(req *http.Request, d *Decision, body []byte) (*http.Response, error) {
	return t.send(req, d.Target, io.NopCloser(bytes.NewReader(body)), int64(len(body)))
}

// send sends a request elsewhere.
func (t *transport) send(req *http.Request, to Target, body io.ReadCloser, length int64) (*http.Response, error) {
	at, err := url.Parse(to.URL)
	if err != nil {
		return nil, fmt.Errorf("the router named %q: %w", to.URL, err)
	}
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host, out.Host = at.Scheme, at.Host, ""
	out.URL.Path, out.URL.RawPath = at.Path+out.URL.Path, ""
	for name, value := range to.Headers {
		out.Header.Set(name, value)
	}
	out.Body, out.ContentLength, out.GetBody = body, length, nil
	return t.base.RoundTrip(out)
}

func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer req.Body.Close()
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("request body is larger than %d bytes", maxBody)
	}
	return body, err
}

// endingOf says what it means that no answer began.
func endingOf(ctx context.Context, err error) Ending {
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return Canceled
	case errors.As(err, &timeout) && timeout.Timeout():
		return TimedOut
	}
	return Unreachable
}

func overloaded(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == 529
}

// retryAfter reads a Retry-After in seconds, 0 for none.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After")), 64)
	if err != nil || !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, 86400) * float64(time.Second))
}

// later does something in the background that [Client.Close] waits for.
func (c *Client) later(f func()) { c.reports.Go(f) }
