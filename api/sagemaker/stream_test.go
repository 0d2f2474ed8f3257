package sagemaker_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/api/sagemaker"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/memhttp"
)

// parts takes an event stream apart: the payloads of its parts, and the exception that
// ended it, if one did.
func parts(t testing.TB, body string) (all []string, exception, code string) {
	t.Helper()
	for rest := []byte(body); len(rest) > 0; {
		headers, payload, next, err := sagemaker.ReadFrame(rest)
		if err != nil || exception != "" {
			t.Fatalf("not a frame, or one behind the last: %v: %q", err, rest)
		}
		rest = next
		if headers[":message-type"] == "event" {
			all = append(all, payload)
			continue
		}
		var said struct{ Message, ErrorCode string }
		if err := json.Unmarshal([]byte(payload), &said); err != nil || said.Message == "" {
			t.Errorf("the exception says %q", payload)
		}
		exception, code = headers[":exception-type"], said.ErrorCode
	}
	return all, exception, code
}

// RP-18: tokens arrive one by one, each in a frame, also where the body does not ask for
// a stream; a client that leaves frees the slot.
func TestRP18ResponseStream(t *testing.T) {
	next := make(chan string)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		startEvents(w)
		for {
			select {
			case text := <-next:
				if text == "" {
					return
				}
				events(w, text)
			case <-r.Context().Done():
				return
			}
		}
	})
	f := start(t, []string{e.url})
	for _, leaves := range []bool{false, true} {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go func() { next <- delta }() // the headers come with it
		resp, err := f.client.Do(f.request(ctx, http.MethodPost, stream, strings.NewReader(chat("hello")), "X-Amzn-SageMaker-Accept", "text/x", "Accept", "application/vnd.amazon.eventstream"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		for name, want := range map[string]string{
			"Content-Type": "application/vnd.amazon.eventstream", "X-Amzn-SageMaker-Content-Type": "text/event-stream; charset=utf-8",
			"X-Amzn-Invoked-Production-Variant": "blue", "Content-Length": "",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		for i := range 3 { // each arrives before the engine sends the next
			if i > 0 {
				next <- delta
			}
			buf := make([]byte, 105+len(delta))
			if _, err := io.ReadFull(resp.Body, buf); err != nil {
				t.Fatal(err)
			}
			if got, _, _ := parts(t, string(buf)); len(got) != 1 || got[0] != delta {
				t.Errorf("got %q", got)
			}
		}
		if leaves {
			leave()
		} else {
			next <- usageChunk // which the client did not ask for
			next <- done
			next <- ""
			rest, err := io.ReadAll(resp.Body)
			if got, _, _ := parts(t, string(rest)); err != nil || strings.Join(got, "") != done {
				t.Errorf("got %q, %v", got, err)
			}
		}
	}
	s := e.last(t)
	if want := chat("hello", `,"stream":true,"stream_options":{"include_usage":true}`); s.uri != "/invocations" || s.body != want || s.header.Get("Accept") != "text/x" {
		t.Errorf("the engine got %s %s %v", s.uri, s.body, s.header)
	}
	if r := f.record(1); r.Result != feedback.Success || !r.Streamed || r.TTFT <= 0 || r.Usage.Cached != 64 {
		t.Errorf("recorded as %+v", r)
	}
	if r := f.record(2); r.Result != feedback.ClientClosed {
		t.Errorf("recorded as %+v", r)
	}
	f.idle()
}

// What says that it does not want a stream gets the answer in one piece, in a frame.
func TestStreamOfAWholeAnswer(t *testing.T) {
	e := newEngine(t, nil)
	f := start(t, []string{e.url})
	for body, sent := range map[string]string{
		chat("x", `,"stream":false`):   chat("x", `,"stream":false`),
		chat("x", `,"stream":null`):    chat("x", `,"stream":true,"stream_options":{"include_usage":true}`),
		`{"instances":[1]}`:            `{"instances":[1]}`,
		"1,2":                          "1,2",
		`{"input":"embed me"}`:         `{"input":"embed me"}`,
		`{"inputs":"x","stream":true}`: `{"inputs":"x","stream":true,"stream_options":{"include_usage":true}}`,
	} {
		got := f.send(stream, body)
		all, exception, _ := parts(t, got.body)
		if got.err != nil || strings.Join(all, "") != whole || exception != "" || got.Header.Get("X-Amzn-SageMaker-Content-Type") != "application/json" {
			t.Errorf("%s: got %q %s %v", body, all, exception, got.Header)
		}
		if e.last(t).body != sent {
			t.Errorf("%s: the engine got %s", body, e.last(t).body)
		}
	}
}

// An engine that dies is never the end of a stream. The connection ends in good order
// behind the exception, or clients for Node would lose it.
func TestStreamBroken(t *testing.T) {
	for name, sends := range map[string][]string{
		"between events": {delta, delta},
		"in an event":    {delta, delta[:20]},
		"at once":        {},
	} {
		e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
			startEvents(w)
			events(w, sends...)
			hangUp(w)
		})
		f := start(t, []string{e.url})
		got := f.send(stream, chat("hello", `,"stream":true,"stream_options":{"include_usage":true}`))
		all, exception, code := parts(t, got.body)
		if got.err != nil || strings.Join(all, "") != strings.Join(sends, "") || exception != "ModelStreamError" || code != "StreamBroken" {
			t.Errorf("%s: %q, then %s %s, %v", name, all, exception, code, got.err)
		}
		if r := f.record(1); r.Result != feedback.UpstreamAborted {
			t.Errorf("%s: recorded as %v", name, r.Result)
		}
		f.idle()
	}
}

// An invocation that is streamed without frames breaks off as on /v1.
func TestInvokeBroken(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		startEvents(w)
		events(w, delta)
		hangUp(w)
	})
	f := start(t, []string{e.url})
	for _, path := range []string{invoke, compat, "/invocations"} {
		got := f.send(path, chat("hello", `,"stream":true`))
		if rest, ok := strings.CutPrefix(got.body, delta); got.err == nil || !ok || !strings.Contains(rest, `"error"`) {
			t.Errorf("%s: got %q, %v", path, got.body, got.err)
		}
	}
}

// virtual runs a test in virtual time, with one engine.
func virtual(t *testing.T, h http.HandlerFunc, change func(*setup), test func(t *testing.T, f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := memhttp.NewNetwork()
		serve := func(addr string, h http.Handler) string {
			s, err := network.Serve(addr, h)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s.URL()
		}
		engine := serve("b1:8000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // net/http sees a client leave only once the body was read
			h(w, r)
		}))
		f := prepare(t, []string{engine}, func(s *setup) {
			s.transport.DialContext = network.DialContext
			if change != nil {
				change(s)
			}
		})
		f.url, f.client = serve("router:80", f.handler), network.Client()
		test(t, f)
	})
}

func TestSixMinuteStream(t *testing.T) {
	const tokens = 360
	virtual(t, func(w http.ResponseWriter, _ *http.Request) {
		startEvents(w)
		for range tokens {
			time.Sleep(time.Second)
			events(w, delta)
		}
		events(w, done)
	}, nil, func(t *testing.T, f *fleet) {
		begin := time.Now()
		got := f.send(stream, chat("hello"))
		all, exception, _ := parts(t, got.body)
		if got.err != nil || len(all) != tokens+1 || exception != "" || time.Since(begin) != tokens*time.Second {
			t.Errorf("%d parts, then %q, %v after %v", len(all), exception, got.err, time.Since(begin))
		}
	})
}

func TestStreamThatPauses(t *testing.T) {
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		startEvents(w)
		events(w, delta)
		<-r.Context().Done()
	}, func(s *setup) { s.transport.Idle = 10 * time.Second }, func(t *testing.T, f *fleet) {
		begin := time.Now()
		got := f.send(stream, chat("hello", `,"stream":true`))
		all, exception, code := parts(t, got.body)
		if got.err != nil || len(all) != 1 || exception != "ModelStreamError" || code != "ModelInvocationTimeExceeded" || time.Since(begin) != 10*time.Second {
			t.Errorf("%q, then %s %s, %v after %v", all, exception, code, got.err, time.Since(begin))
		}
	})
}

// A router that stops says that it was not the model.
func TestStreamCutByTheShutdown(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		startEvents(w)
		events(w, delta)
		<-r.Context().Done()
	})
	f := prepare(t, []string{e.url})
	requests, cut := context.WithCancelCause(t.Context())
	r := newServer(t, f, requests)
	defer r.Body.Close()
	first := make([]byte, 105+len(delta))
	if _, err := io.ReadFull(r.Body, first); err != nil {
		t.Fatal(err)
	}
	cut(proxy.ErrStopping)
	rest, err := io.ReadAll(r.Body)
	if _, exception, code := parts(t, string(rest)); err != nil || exception != "InternalStreamFailure" || code != "" {
		t.Errorf("%s %s, %v", exception, code, err)
	}
	if r := f.record(1); r.Result != feedback.RouterError {
		t.Errorf("recorded as %v", r.Result)
	}
}
