package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim/server"
)

func TestErrors(t *testing.T) {
	cfg := fastConfig()
	cfg.MaxModelLen = 1000
	s := listen(t, cfg)
	for _, test := range []struct {
		name, path string
		body       any
		headers    []string
		status     int
		message    string // part of it
	}{
		{"unknown model", "/v1/chat/completions", chat("hi", object{"model": "x"}), nil, 404, "The model `x` does not exist."},
		{"bad json", "/v1/chat/completions", `{"model":`, nil, 400, "JSON decode error"},
		{"wrong type", "/v1/chat/completions", `{"messages":3}`, nil, 400, "JSON decode error"},
		{"no messages", "/v1/chat/completions", `{}`, nil, 400, "messages"},
		{"bad content", "/v1/chat/completions", `{"messages":[{"role":"user","content":3}]}`, nil, 400, "content"},
		{
			"not json", "/v1/chat/completions", chat("hi", nil),
			[]string{"Content-Type", "application/x-www-form-urlencoded"},
			400, "Unsupported Media Type",
		},
		{
			"charset is fine, limit is not", "/v1/chat/completions", chat("hi", object{"max_tokens": 0}),
			[]string{"Content-Type", "application/json; charset=utf-8"},
			400, "max_tokens must be at least 1",
		},
		{
			"stream options without stream", "/v1/chat/completions",
			chat("hi", object{"stream_options": object{"include_usage": true}}), nil, 400, "`stream=True`",
		},
		{"n", "/v1/chat/completions", chat("hi", object{"n": 0}), nil, 400, "n must be"},
		{"salt", "/v1/chat/completions", chat("hi", object{"cache_salt": ""}), nil, 400, "cache_salt"},
		{
			"prompt too long", "/v1/chat/completions", chat(manual, nil), nil, 400,
			"This model's maximum context length is 1000 tokens. However, you requested 4 output tokens",
		},
		{
			"answer too long", "/v1/completions",
			object{"prompt": "hi", "max_tokens": 1000},
			nil, 400,
			"for a total of at least 1002 tokens",
		},
		{"no prompt", "/v1/completions", object{"prompt": nil}, nil, 400, "prompt must be"},
		{"empty prompt", "/v1/completions", object{"prompt": []int{}}, nil, 400, "prompt must be"},
		{"suffix", "/v1/completions", object{"prompt": "a", "suffix": "b"}, nil, 400, "suffix"},
		{"no input", "/v1/responses", object{}, nil, 400, "input"},
		{
			"no stored responses", "/v1/responses", object{"input": "a", "previous_response_id": "r"}, nil, 404, "not found",
		},
		{"rank", "/v1/chat/completions", chat("hi", nil), []string{"X-data-parallel-rank", "1"}, 400, "out of range"},
		{"dimensions", "/v1/embeddings", object{"input": "a", "dimensions": -1}, nil, 400, "dimensions"},
		{"encoding", "/v1/embeddings", object{"input": "a", "encoding_format": "hex"}, nil, 400, "encoding_format"},
		{"tokenize", "/tokenize", object{"model": "x", "prompt": "a"}, nil, 404, "does not exist"},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, body := s.post(test.path, test.body, test.headers...)
			message, _ := at(body, "error", "message").(string)
			if status != test.status || !strings.Contains(message, test.message) {
				t.Errorf("status %d, message %q, want %d and %q", status, message, test.status, test.message)
			}
			if code := at(body, "error", "code"); code != float64(test.status) {
				t.Errorf("code %v, want %d", code, test.status)
			}
		})
	}
}

func TestAnthropicErrors(t *testing.T) {
	s := listen(t, fastConfig())
	for _, test := range []struct {
		body   any
		status int
		kind   string
	}{
		{chat("hi", object{"model": "x"}), 404, "not_found_error"},
		{`{`, 400, "invalid_request_error"},
		{object{"messages": []object{}}, 400, "invalid_request_error"},
	} {
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			status, body := s.post(path, test.body)
			if status != test.status || body["type"] != "error" || at(body, "error", "type") != test.kind {
				t.Errorf("%s: status %d, body %v, want %d and %s", path, status, body, test.status, test.kind)
			}
		}
	}
	s.ok("/sim/fault", object{"status": 503})
	if status, body := s.post("/v1/messages", chat("hi", nil)); status != 503 || at(body, "error", "type") != "overloaded_error" {
		t.Errorf("fault: status %d, body %v", status, body)
	}
}

func TestUnknownRoutes(t *testing.T) {
	s := listen(t, fastConfig())
	if status, body := s.get("/v2/nothing"); status != http.StatusNotFound || body["detail"] != "Not Found" {
		t.Errorf("unknown path: status %d, body %v", status, body)
	}
}

func TestInfoRoutes(t *testing.T) {
	s := listen(t, fastConfig())
	for _, path := range []string{"/health", "/ping"} {
		if status, body := s.get(path); status != http.StatusOK || body != nil {
			t.Errorf("GET %s: status %d, body %v, want 200 and none", path, status, body)
		}
	}
	if status, _ := s.post("/ping", ""); status != http.StatusOK {
		t.Errorf("POST /ping: status %d", status)
	}
	if _, body := s.get("/load"); body["server_load"] != 0.0 {
		t.Errorf("load %v of an idle server", body)
	}
	if _, body := s.get("/version"); body["version"] == "" {
		t.Errorf("version %v", body)
	}
	s.ok("/sim/fault", object{"unhealthy": true})
	if status, _ := s.get("/health"); status != http.StatusServiceUnavailable {
		t.Errorf("health %d while unhealthy, want 503", status)
	}
}

func TestStatusFault(t *testing.T) {
	s := listen(t, fastConfig())
	status := func() int {
		resp, err := s.send(t.Context(), "/v1/chat/completions", chat("hi", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "7" {
			t.Errorf("Retry-After %q, want 7", resp.Header.Get("Retry-After"))
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	s.ok("/sim/fault", object{"status": 429, "count": 2, "retry_after": 7})
	if got := [3]int{status(), status(), status()}; got != [3]int{429, 429, 200} {
		t.Errorf("statuses %v, want two 429 and 200", got)
	}
	s.ok("/sim/fault", object{"status": 500, "count": -1})
	if got := [3]int{status(), status(), status()}; got != [3]int{500, 500, 500} {
		t.Errorf("statuses %v, want 500 without end", got)
	}
	if code, _ := s.get("/health"); code != http.StatusOK {
		t.Errorf("health %d: the fault is for generation only", code)
	}
	s.ok("/sim/fault", object{"clear": true})
	if got := status(); got != http.StatusOK {
		t.Errorf("status %d after the fault was cleared", got)
	}
}

func TestDyingStreams(t *testing.T) {
	cfg := fastConfig()
	cfg.Speed = 5 // a chunk a token, or nearly
	s := listen(t, cfg)
	for _, n := range []int{0, 1, 3} {
		s.ok("/sim/fault", object{"die_after_events": n})
		resp, err := s.send(t.Context(), "/v1/chat/completions", chat("hi", object{"stream": true, "max_tokens": 1000}))
		if err != nil {
			t.Fatalf("n = %d: %v", n, err)
		}
		events, err := readEvents(t, resp.Body)
		resp.Body.Close()
		if len(events) != n {
			t.Errorf("%d events before the reset, want %d", len(events), n)
		}
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("n = %d: error %v, want a reset", n, err)
		}
	}
	// The client may see the reset before the server has dealt with it.
	deadline := time.Now().Add(10 * time.Second)
	for s.state("aborted") != 3 {
		if time.Now().After(deadline) {
			t.Fatalf("%v aborted, want 3", s.state("aborted"))
		}
	}
	s.ok("/sim/fault", object{"clear": true})
	if got := shapes(s.stream("/v1/chat/completions", chat("hi", object{"stream": true}))); got[len(got)-1] != "[DONE]" {
		t.Errorf("events %v after the fault was cleared", got)
	}
}

func TestErrorsInStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, server.DefaultConfig())
		s.ok("/sim/fault", object{"error_after_events": 2})
		for _, d := range []struct {
			path string
			body object
			last string // what the event with the error says
		}{
			{"/v1/chat/completions", chat("hi", object{"stream": true, "max_tokens": 500}), `"code":500`},
			{"/v1/completions", object{"prompt": "hi", "stream": true, "max_tokens": 500}, `"code":500`},
			{"/v1/responses", object{"input": "hi", "stream": true}, `"type":"response.failed"`},
			{"/v1/messages", chat("hi", object{"stream": true, "max_tokens": 500}), `"type":"error"`},
		} {
			events := s.stream(d.path, d.body)
			if len(events) < 3 || !strings.Contains(events[2].raw, d.last) {
				t.Errorf("%s: events %v, want the third to contain %s", d.path, events, d.last)
			}
		}
		if got := s.state("aborted"); got != 4 {
			t.Errorf("%v aborted, want 4", got)
		}
	})
}

// An error that strikes behind the last token is told as well: none of the dialects' streams
// ends in good order without its last event.
func TestErrorsBehindTheLastToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, server.DefaultConfig())
		for _, d := range []struct {
			path   string
			body   object
			events int // of the whole stream
			last   string
		}{
			{"/v1/chat/completions", chat("hi", object{"stream": true, "max_tokens": 1, "stream_options": object{"include_usage": true}}), 4, `"code":500`},
			{"/v1/completions", object{"prompt": "hi", "stream": true, "max_tokens": 1, "stream_options": object{"include_usage": true}}, 3, `"code":500`},
			{"/v1/messages", chat("hi", object{"stream": true, "max_tokens": 1}), 6, `"type":"error"`},
		} {
			s.ok("/sim/fault", object{"clear": true})
			if events := s.stream(d.path, d.body); len(events) != d.events {
				t.Fatalf("%s: events %v, want %d", d.path, events, d.events)
			}
			for n := range d.events {
				s.ok("/sim/fault", object{"error_after_events": n})
				events := s.stream(d.path, d.body)
				if len(events) <= n || !strings.Contains(events[n].raw, d.last) {
					t.Errorf("%s: events %v, want number %d to contain %s", d.path, events, n, d.last)
				}
			}
		}
	})
}

func TestLostCache(t *testing.T) {
	s := listen(t, fastConfig())
	cached := func() any {
		resp := s.ok("/v1/chat/completions", chat(manual, nil))
		return at(resp, "usage", "prompt_tokens_details", "cached_tokens")
	}
	cached()
	if cached() == 0.0 {
		t.Fatal("no hit before the fault")
	}
	s.ok("/sim/fault", object{"lose_cache": true})
	if got := s.state("engines", 0, "cached_blocks"); got != 0 {
		t.Errorf("%v blocks cached after the loss", got)
	}
	if got := cached(); got != 0.0 {
		t.Errorf("cached %v after the loss, want 0", got)
	}
	s.post("/reset_prefix_cache", "")
	if got := cached(); got != 0.0 {
		t.Errorf("cached %v after a reset, want 0", got)
	}
}

func TestBadFaults(t *testing.T) {
	s := listen(t, fastConfig())
	for body, want := range map[string]string{
		`{"lose_cash":true}`:         "lose_cash",
		`{"hang":"body"}`:            "hang",
		`{"status":200}`:             "status",
		`{"count":2}`:                "count",
		`{"slow":0}`:                 "slow",
		`{"die_after_events":-1}`:    "die_after_events",
		`not json`:                   "invalid",
		`{"status":503,"count":"x"}`: "count",
		`{"status":503,"count":0}`:   "count",
		`{"error_after_events":-1}`:  "error_after_events",
	} {
		status, resp := s.post("/sim/fault", body)
		if message, _ := at(resp, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, want) {
			t.Errorf("fault %s: status %d, message %q, want 400 naming %q", body, status, message, want)
		}
	}
}

// TestDataParallel checks ranks: each has its own cache, the header pins one, and
// /v1/responses ignores it.
func TestDataParallel(t *testing.T) {
	cfg := fastConfig()
	cfg.Engines = 3
	s := listen(t, cfg)
	cached := func(headers ...string) float64 {
		resp := s.ok("/v1/chat/completions", chat(manual, nil), headers...)
		return at(resp, "usage", "prompt_tokens_details", "cached_tokens").(float64)
	}
	if got := cached("X-data-parallel-rank", "2"); got != 0 {
		t.Errorf("rank 2, first call: cached %v", got)
	}
	if got := cached("X-data-parallel-rank", "1"); got != 0 {
		t.Errorf("rank 1 shares rank 2's cache: cached %v", got)
	}
	if got := cached("X-data-parallel-rank", "2"); got < 1000 {
		t.Errorf("rank 2, second call: cached %v", got)
	}
	if got := cached("X-data-parallel-rank", "two"); got != 0 {
		t.Errorf("a rank that is no number must be ignored, and rank 0 knows nothing: cached %v", got)
	}
	if status, _ := s.post("/v1/chat/completions", chat("hi", nil), "X-data-parallel-rank", "-1"); status != http.StatusBadRequest {
		t.Errorf("rank -1: status %d, want 400", status)
	}
	s.ok("/v1/responses", object{"input": manual, "max_output_tokens": 1}, "X-data-parallel-rank", "9")
	if got := s.state("engines", 2, "queried_tokens"); got == 0 {
		t.Error("engine 2 has no lookups")
	}
}

// TestDataParallelBalance checks that without a rank the least loaded engine is
// taken, whatever it has cached.
func TestDataParallelBalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := server.DefaultConfig()
		cfg.Engines = 2
		s := inBubble(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				if resp, err := s.send(ctx, "/v1/chat/completions", chat(manual, object{"max_tokens": 5000})); err == nil {
					resp.Body.Close()
				}
			})
		}
		time.Sleep(time.Second)
		if a, b := s.state("engines", 0, "running"), s.state("engines", 1, "running"); a != 2 || b != 2 {
			t.Errorf("%v and %v running, want 2 and 2", a, b)
		}
		cancel()
		clients.Wait()
	})
}
