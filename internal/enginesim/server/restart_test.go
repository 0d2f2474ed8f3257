package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// TestRestart restarts engines under a streamed answer, a whole one, one that waits in
// the queue and one that hangs, and looks at what is left.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := server.DefaultConfig()
		cfg.MaxSeqs = 2
		s := inBubble(t, cfg)
		cached := func() any {
			resp := s.ok("/v1/chat/completions", chat(manual, nil))
			return at(resp, "usage", "prompt_tokens_details", "cached_tokens")
		}
		cached()
		if cached() == 0.0 {
			t.Fatal("no hit before the restart")
		}
		before := s.scrape()

		var clients sync.WaitGroup
		broken := func(name string, body object, headers bool) {
			clients.Go(func() {
				resp, err := s.send(t.Context(), "/v1/chat/completions", body)
				if err == nil {
					defer resp.Body.Close()
					if !headers {
						t.Errorf("%s: status %d, want a broken connection", name, resp.StatusCode)
					}
					_, err = io.Copy(io.Discard, resp.Body)
				}
				if err == nil {
					t.Errorf("%s: the answer came to its end", name)
				}
			})
		}
		broken("streamed", chat(manual, object{"stream": true, "max_tokens": 5000}), true)
		broken("whole", chat(manual, object{"max_tokens": 5000}), false)
		time.Sleep(time.Second)
		broken("queued", chat(manual, object{"max_tokens": 5000}), false)
		time.Sleep(time.Second)
		s.ok("/sim/fault", object{"hang": "headers"})
		broken("hanging", chat(manual, nil), false)
		time.Sleep(time.Second)

		s.ok("/sim/fault", object{"restart": true, "clear": true})
		clients.Wait()
		after := s.scrape()
		for name, f := range after {
			if f.kind == "COUNTER" && f.sum(nil) != 0 {
				t.Errorf("%s is %v after the restart", name, f.sum(nil))
			}
		}
		for _, name := range []string{"vllm:num_requests_running", "vllm:num_requests_waiting"} {
			if got := after[name].sum(nil); got != 0 {
				t.Errorf("%s is %v after the restart", name, got)
			}
		}
		const start = "process_start_time_seconds"
		if got := after[start].sum(nil) - before[start].sum(nil); got < 3 || got > 10 {
			t.Errorf("the process started %v s later", got)
		}
		if got := s.state("requests") + s.state("aborted") + s.state("engines", 0, "cached_blocks"); got != 0 {
			t.Errorf("requests, aborted ones and cached blocks are %v together", got)
		}
		if got := cached(); got != 0.0 {
			t.Errorf("cached %v after the restart, want 0", got)
		}
		if cached() == 0.0 {
			t.Error("the new engine caches nothing")
		}
	})
}

// TestRestartWakes checks that the engines' own faults end with the process and those
// of its surroundings do not.
func TestRestartWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := server.DefaultConfig()
		cfg.Engines = 2
		s := inBubble(t, cfg)
		s.ok("/sim/fault", object{"sleep": true, "slow": 100, "unhealthy": true})
		asleep := s.scrape()["vllm:engine_sleep_state"]
		if awake, off := asleep.sum(map[string]string{"sleep_state": "awake"}), asleep.sum(map[string]string{"sleep_state": "weights_offloaded"}); awake != 0 || off != 2 {
			t.Errorf("awake %v, weights_offloaded %v of 2 sleeping engines", awake, off)
		}
		s.ok("/sim/fault", object{"restart": true})
		if awake := s.scrape()["vllm:engine_sleep_state"].sum(map[string]string{"sleep_state": "awake"}); awake != 2 {
			t.Errorf("%v of 2 engines are awake after the restart", awake)
		}
		begin := time.Now()
		s.ok("/v1/chat/completions", chat("hi", nil))
		if took := time.Since(begin); took > time.Second {
			t.Errorf("an answer took %v", took)
		}
		if status, _ := s.get("/health"); status != http.StatusServiceUnavailable {
			t.Errorf("health %d, want 503 until the fault is cleared", status)
		}
	})
}

// TestPreemption overcommits the KV cache until sequences lose their blocks, and checks
// that this shows and that every answer is whole all the same.
func TestPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := server.DefaultConfig()
		cfg.KVTokens = 4096
		s := inBubble(t, cfg)
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				resp := s.ok("/v1/chat/completions", chat(strings.Repeat("a word ", 50), object{"max_tokens": 2000}))
				if got := at(resp, "usage", "completion_tokens"); got != 2000.0 {
					t.Errorf("%v completion tokens, want 2000", got)
				}
			})
		}
		clients.Wait()
		if got := s.scrape()["vllm:num_preemptions_total"].sum(nil); got == 0 || got != s.state("engines", 0, "preemptions") {
			t.Errorf("%v preemptions", got)
		}
	})
}

// TestOvercount fills the KV cache so that a request waits for memory, with and without
// the over-count of older releases.
func TestOvercount(t *testing.T) {
	for _, over := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := server.DefaultConfig()
			cfg.KVTokens, cfg.Overcount = 4000, over
			s := inBubble(t, cfg)
			var clients sync.WaitGroup
			for _, head := range []string{"one ", "two "} {
				clients.Go(func() { s.ok("/v1/completions", object{"prompt": head + manual + manual, "max_tokens": 100}) })
				time.Sleep(10 * time.Millisecond)
			}
			clients.Wait()
			m := s.scrape()
			queries, prompt := m["vllm:prefix_cache_queries_total"].sum(nil), m["vllm:prompt_tokens_total"].sum(nil)
			if over && queries < 3*prompt || !over && queries != prompt {
				t.Errorf("over-count %v: %v tokens looked up for prompts of %v", over, queries, prompt)
			}
			if hits, cached := m["vllm:prefix_cache_hits_total"].sum(nil), m["vllm:prompt_tokens_cached_total"].sum(nil); !over && hits != cached {
				t.Errorf("%v tokens found, %v cached", hits, cached)
			}
		})
	}
}

// TestTrafficFromElsewhere checks that engines do not care who asks: what one client
// computed, another one finds.
func TestTrafficFromElsewhere(t *testing.T) {
	s := listen(t, fastConfig())
	stranger := &sim{t: t, url: s.url, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(stranger.client.CloseIdleConnections)
	stranger.ok("/v1/chat/completions", chat(manual, nil))
	resp := s.ok("/v1/chat/completions", chat(manual, nil))
	if at(resp, "usage", "prompt_tokens_details", "cached_tokens") == 0.0 {
		t.Error("nothing found of what the stranger computed")
	}
}

// TestRestartOnSockets checks that over real sockets the client sees a broken
// connection, and that the server goes on at the same address.
func TestRestartOnSockets(t *testing.T) {
	cfg := fastConfig()
	cfg.Speed = 1
	s := listen(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	resp, err := s.send(ctx, "/v1/chat/completions", chat("hi", object{"stream": true, "max_tokens": 100_000}))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.ok("/sim/fault", object{"restart": true})
	if _, err := io.Copy(io.Discard, resp.Body); err == nil || ctx.Err() != nil {
		t.Errorf("the stream ended with %v, want a broken connection", err)
	}
	s.ok("/v1/chat/completions", chat("hi", nil))
}
