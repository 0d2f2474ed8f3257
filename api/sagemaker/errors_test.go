package sagemaker_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

func TestModelError(t *testing.T) {
	const said = `{"error":{"message":"This model's maximum context length is 8 tokens.","code":400}}`
	status := http.StatusBadRequest
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "7")
		w.Header().Set("X-Amzn-SageMaker-Custom-Attributes", "why")
		w.WriteHeader(status)
		w.Write([]byte(said))
	})
	f := start(t, []string{e.url})
	n := 0
	for _, path := range []string{invoke, stream} {
		for _, test := range []struct {
			status int
			result feedback.Result
		}{
			{400, feedback.Rejected},
			{404, feedback.NotFound},
			{429, feedback.Saturated},
			{500, feedback.EngineError},
			{503, feedback.Saturated},
			{307, feedback.Success},
		} {
			status = test.status
			got := f.send(path, chat("hello"))
			p := got.problem(t, http.StatusFailedDependency, "ModelError")
			if p.OriginalStatusCode != status || p.OriginalMessage != said || !strings.Contains(p.Message, "maximum context length") {
				t.Errorf("%d: %+v", status, p)
			}
			if got.Header.Get("Retry-After") != "7" || got.Header.Get("X-Amzn-SageMaker-Custom-Attributes") != "why" || got.Header.Get("X-Warmroute-Backend") == "" {
				t.Errorf("%d: %v", status, got.Header)
			}
			n++
			r := f.record(n)
			if r.Result != test.result || r.Status != http.StatusFailedDependency || strings.Contains(r.Err, "maximum") {
				t.Errorf("%d: recorded as %v %d %q", status, r.Result, r.Status, r.Err)
			}
		}
	}
	f.idle()
}

// A refusal of any size and speed is cut to what a client can use.
func TestLongAndSlowRefusals(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		if r.Header.Get("X-How") == "long" {
			w.Write([]byte(strings.Repeat("é", 100_000)))
			return
		}
		w.Write([]byte("not\xffUTF-8"))
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	f := start(t, []string{e.url})
	p := f.send(invoke, chat("x"), "X-How", "long").problem(t, http.StatusFailedDependency, "ModelError")
	if len(p.OriginalMessage) != 64<<10 || len(p.Message) > 1200 || !strings.HasSuffix(p.Message, "é") {
		t.Errorf("%d bytes of message, %d of the original", len(p.Message), len(p.OriginalMessage))
	}
	p = f.send(invoke, chat("x")).problem(t, http.StatusFailedDependency, "ModelError")
	if p.OriginalMessage != "not\uFFFDUTF-8" || p.OriginalStatusCode != 500 {
		t.Errorf("got %+v", p)
	}
}

// Clients send again what got 503 at once, and not what got 424 or 429: so nothing that
// an engine may have begun, or that was shed, is 503.
func TestErrorsOfTheRouter(t *testing.T) {
	works := newEngine(t, nil)
	hangs := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { hangUp(w) })
	busy := newEngine(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	rejecting := func(s *setup) {
		s.pools[0].Config.OnSaturation, s.pools[0].Config.ConcurrencyThreshold = router.Reject, 1
	}
	for _, test := range []struct {
		name   string
		urls   []string
		change func(*setup)
		before func(f *fleet)
		status int
		kind   string
		after  bool // says when to try again
	}{
		{"nobody is there", []string{deadURL(t)}, nil, nil, http.StatusServiceUnavailable, "ServiceUnavailable", false},
		{"no backend", nil, nil, nil, http.StatusServiceUnavailable, "ServiceUnavailable", true},
		{"nothing is learned yet", []string{works.url}, func(s *setup) { s.pools[0].Models = nil }, nil, http.StatusTooManyRequests, "ModelNotReadyException", true},
		{"dies before its answer", []string{hangs.url}, nil, nil, http.StatusFailedDependency, "ModelError", false},
		{"gives no answer in time", []string{busy.url}, func(s *setup) { s.transport.FirstByte = 20 * time.Millisecond }, nil, http.StatusFailedDependency, "ModelError", false},
		{"saturated", []string{works.url}, rejecting, func(f *fleet) {
			f.router.Pools()[0].Backends()[0].SetPeersInFlight(1)
			t.Cleanup(func() { f.router.Pools()[0].Backends()[0].SetPeersInFlight(0) })
		}, http.StatusTooManyRequests, "ModelNotReadyException", true},
		{"no room for the body", []string{works.url}, func(s *setup) {
			s.options.Limits = proxy.Limits{BodyBytes: 16, BodiesInFlightBytes: 16}
		}, nil, http.StatusTooManyRequests, "ModelNotReadyException", true},
	} {
		var change []func(*setup)
		if test.change != nil {
			change = append(change, test.change)
		}
		f := start(t, test.urls, change...)
		if test.before != nil {
			test.before(f)
		}
		for _, path := range []string{invoke, stream} {
			got := f.send(path, chat("hello"))
			p := got.problem(t, test.status, test.kind)
			if test.kind == "ModelError" && (p.OriginalStatusCode < 500 || p.OriginalMessage == "") {
				t.Errorf("%s: %+v", test.name, p)
			}
			if given := got.Header.Get("Retry-After") != ""; given != test.after {
				t.Errorf("%s: Retry-After %q", test.name, got.Header.Get("Retry-After"))
			}
			if t.Failed() {
				t.Fatal(test.name)
			}
		}
	}
}

// When every engine is overloaded the client hears the last of them.
func TestEveryEngineIsOverloaded(t *testing.T) {
	overloaded := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		http.Error(w, "queue is full", http.StatusTooManyRequests)
	}
	f := start(t, []string{newEngine(t, overloaded).url, newEngine(t, overloaded).url})
	got := f.send(invoke, chat("hello"))
	p := got.problem(t, http.StatusFailedDependency, "ModelError")
	if p.OriginalStatusCode != http.StatusTooManyRequests || p.OriginalMessage != "queue is full\n" || got.Header.Get("Retry-After") != "3" {
		t.Errorf("got %+v %v", p, got.Header)
	}
	if r := f.record(1); r.Attempts != 2 || r.Result != feedback.Saturated {
		t.Errorf("recorded as %v after %d attempts", r.Result, r.Attempts)
	}
	f.idle()
}

// A panic is an error in AWS's shape too.
func TestPanic(t *testing.T) {
	f := start(t, []string{newEngine(t, nil).url}, func(s *setup) {
		calls := 0
		s.options.Random = func() uint64 {
			if calls++; calls > 2 { // the first two make the request's id
				panic("no more numbers")
			}
			return 1
		}
	})
	f.send(invoke, chat("hello")).problem(t, http.StatusInternalServerError, "InternalFailure")
}

// The body that clients of both APIs read.
func TestCompatibleErrors(t *testing.T) {
	f := start(t, nil)
	got := f.send(compat, chat("hello"))
	p := got.problem(t, http.StatusServiceUnavailable, "ServiceUnavailable")
	if p.Error.Message != p.Message || p.Error.Code != "no_backend" {
		t.Errorf("got %+v", p)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(got.body), &fields); err != nil || len(fields) != 3 {
		t.Errorf("got %s", got.body)
	}
}
