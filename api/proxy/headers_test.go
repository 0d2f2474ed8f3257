package proxy_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

func TestRequestHeaders(t *testing.T) {
	urls, got := echoes(t, 1)
	f := start(t, urls)
	req := f.request(t.Context(), "POST", chatPath, strings.NewReader(chat("x")))
	req.Host = "public.example:443"
	for name, value := range map[string]string{
		"Connection": "keep-alive, X-Hop", "X-Hop": "1", "Keep-Alive": "1", "Proxy-Connection": "keep-alive", "Proxy-Authorization": "p",
		"Te": "trailers, deflate", "Upgrade": "h2c", "Http2-Settings": "x",
		"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "edge.example",
		"X-Amz-Date": "20260101T000000Z", "X-Amz-Security-Token": "t", "X-Amzn-Sagemaker-Prefix-Aware-Id": "tenant",
		"Authorization": "Bearer key", "X-Api-Key": "key", "Cookie": "a=b", "X-Custom": "kept", "User-Agent": "client/1",
		"Accept-Encoding": "gzip", "X-Warmroute-Other": "x",
	} {
		req.Header.Set(name, value)
	}
	wantOK(t, f.do(req))
	r := got.last()
	for name, want := range map[string]string{
		"X-Hop": "", "Keep-Alive": "", "Proxy-Connection": "", "Proxy-Authorization": "", "Upgrade": "", "Http2-Settings": "",
		"Te": "trailers", "X-Forwarded-For": "1.2.3.4, 127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "edge.example",
		"X-Amz-Date": "", "X-Amz-Security-Token": "", "X-Amzn-Sagemaker-Prefix-Aware-Id": "",
		"Authorization": "Bearer key", "X-Api-Key": "key", "Cookie": "a=b", "X-Custom": "kept", "User-Agent": "client/1",
		"Accept-Encoding": "identity", "X-Warmroute-Other": "", "Content-Type": "application/json",
	} {
		if value := strings.Join(r.header.Values(name), "|"); value != want {
			t.Errorf("%s: %q, want %q", name, value, want)
		}
	}
	if want := strings.TrimPrefix(urls[0], "http://"); r.host != want {
		t.Errorf("Host: %q, want %q (DI-09)", r.host, want)
	}
}

func TestForwardedHeadersOfAPlainClient(t *testing.T) {
	urls, got := echoes(t, 1)
	f := start(t, urls)
	req := f.request(t.Context(), "POST", chatPath, strings.NewReader(chat("x")))
	req.Header["User-Agent"] = nil
	wantOK(t, f.do(req))
	h := got.last().header
	if h.Get("X-Forwarded-For") != "127.0.0.1" || h.Get("X-Forwarded-Proto") != "http" || h.Get("X-Forwarded-Host") != strings.TrimPrefix(f.url, "http://") {
		t.Errorf("the engine got %v", h)
	}
	if _, there := h["User-Agent"]; there {
		t.Errorf("the router speaks for the client: %v", h)
	}
}

func TestCredentials(t *testing.T) {
	urls, got := echoes(t, 1)
	const signature = "AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature=y"
	for _, test := range []struct {
		forward     bool
		given, want string
		key         string
	}{
		{true, "Bearer key", "Bearer key", "key"},
		{true, signature, "", "key"},
		{false, "Bearer key", "", ""},
		{false, signature, "", ""},
	} {
		f := start(t, urls, func(s *setup) { s.options.ForwardCredentials = test.forward })
		wantOK(t, f.send("POST", chatPath, chat("x"), "Authorization", test.given, "X-Api-Key", "key"))
		if h := got.last().header; h.Get("Authorization") != test.want || h.Get("X-Api-Key") != test.key {
			t.Errorf("forward %v, %q: the engine got %q, %q", test.forward, test.given, h.Get("Authorization"), h.Get("X-Api-Key"))
		}
	}
}

func TestResponseHeaders(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{
			"Connection": "X-Hop", "X-Hop": "1", "Keep-Alive": "timeout=5", "Proxy-Authenticate": "Basic",
			"Server": "uvicorn", "X-Custom": "kept", "X-Request-Id": "the engine's", "X-Warmroute-Backend": "forged",
		} {
			w.Header().Set(name, value)
		}
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
		writeWhole(w)
	}
	for _, show := range []bool{true, false} {
		f := start(t, []string{engine(t, h)}, func(s *setup) { s.options.DecisionHeaders = show })
		got := f.send("POST", chatPath, chat("x"), "X-Request-Id", "mine")
		wantOK(t, got)
		backend, attempts := f.pool.Backends()[0].ID, "1"
		if !show {
			backend, attempts = "", ""
		}
		for name, want := range map[string]string{
			"X-Hop": "", "Keep-Alive": "", "Proxy-Authenticate": "", "Server": "uvicorn", "X-Custom": "kept",
			"X-Request-Id": "mine", "Set-Cookie": "a=1|b=2", "X-Warmroute-Backend": backend, "X-Warmroute-Attempts": attempts,
			"Content-Type": "application/json",
		} {
			if value := strings.Join(got.Header.Values(name), "|"); value != want {
				t.Errorf("%s: %q, want %q", name, value, want)
			}
		}
		r := f.last(1)
		for name, want := range map[string]string{
			"X-Warmroute-Decision-Id": r.DecisionID, "X-Warmroute-Reason": "only_backend", "X-Warmroute-Predicted-Cached-Tokens": "0",
		} {
			if value := got.Header.Get(name); show && value != want || !show && value != "" {
				t.Errorf("%s: %q, want %q", name, value, want)
			}
		}
		if got.ContentLength != int64(len(whole)) {
			t.Errorf("Content-Length %d", got.ContentLength)
		}
	}
}

func TestDI07TrailingSlash(t *testing.T) {
	urls, got := echoes(t, 1)
	for suffix, want := range map[string]string{"": "", "/": "", "/base": "/base", "/base/": "/base"} {
		f := start(t, []string{urls[0] + suffix})
		wantOK(t, f.send("POST", chatPath+"?a=%2F&b", chat("x")))
		if uri := got.last().uri; uri != want+chatPath+"?a=%2F&b" {
			t.Errorf("%q: the engine saw %s", suffix, uri)
		}
	}
}

// A panic inside the router is the router's fault, and nobody else's.
func TestPanics(t *testing.T) {
	urls, _ := echoes(t, 1)
	var where string
	f := start(t, urls, func(s *setup) {
		s.hooks.Completed = func(*router.Decision, feedback.Outcome) {
			if where == "completed" {
				panic(errors.New("a hook fails"))
			}
		}
	})
	where = "completed"
	if got, err := f.client.Do(f.request(t.Context(), "POST", chatPath, strings.NewReader(chat("x")))); err == nil {
		io.Copy(io.Discard, got.Body)
		got.Body.Close()
	}
	if r := f.last(1); r.Result != feedback.RouterError {
		t.Errorf("recorded as %v", r.Result)
	}
	if log := f.log.String(); strings.Count(log, "panic while serving") != 1 {
		t.Errorf("logged: %s", log)
	}
	where = ""
	wantOK(t, f.send("POST", chatPath, chat("x")))
	f.settled(2)
}

// An observer that panics takes nothing else down.
func TestObserverThatPanics(t *testing.T) {
	urls, _ := echoes(t, 1)
	observed := make(chan struct{}, 2)
	f := start(t, urls, func(s *setup) {
		s.options.Observe = func(*feedback.Record) {
			observed <- struct{}{}
			panic("observer")
		}
	})
	for range 2 {
		wantOK(t, f.send("POST", chatPath, chat("x")))
		<-observed
	}
	if held := f.pool.Backends()[0].InFlight(); held != 0 {
		t.Errorf("%d in flight", held)
	}
}
