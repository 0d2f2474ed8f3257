package gateway

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/internal/config"
)

// probedEngine is an engine that says whether it can work.
type probedEngine struct {
	engine

	status atomic.Int64 // of /health; 0 is 200
	frozen atomic.Bool  // it begins answers and sends nothing of them
}

func (e *probedEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/health":
		if status := int(e.status.Load()); status != 0 {
			w.WriteHeader(status)
		}
	case e.frozen.Load() && strings.HasSuffix(r.URL.Path, "/completions"):
		e.mu.Lock()
		e.requests++
		e.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		e.engine.ServeHTTP(w, r)
	}
}

func (s *stack) state(id string) backends.State {
	for _, b := range s.Router().Pools()[0].Backends() {
		if b.ID == id {
			return b.State(time.Now())
		}
	}
	s.t.Fatalf("no backend %s", id)
	return 0
}

// FO-06: an engine that says that it is warming up gets nothing, also at the very start; where
// it is the only one, requests are answered at once with 503 and Retry-After. A slow first
// answer does not eject it.
func TestFO06WarmingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		warm := new(probedEngine)
		warm.status.Store(http.StatusServiceUnavailable)
		s := start(t, func(c *config.Config) { c.Pools[0].Models = []config.Model{{Name: "m"}} }, map[string]http.Handler{"b1:8000": warm})
		begun := time.Now()
		for range 20 {
			status, header, _ := s.chat("hi", "")
			if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
				t.Errorf("after %v: %d, Retry-After %q", time.Since(begun), status, header.Get("Retry-After"))
			}
			time.Sleep(3 * time.Second)
		}
		if time.Since(begun) > 61*time.Second {
			t.Errorf("20 requests took %v", time.Since(begun))
		}
		if n, _ := warm.counts(); n > 0 {
			t.Errorf("an engine that warms up got %d requests", n)
		}
		warm.status.Store(0)
		time.Sleep(6 * time.Second)
		if status, _, body := s.chat("hi", `,"stream":true,"max_tokens":60`); status != 200 || !strings.HasSuffix(body, "[DONE]\n\n") {
			t.Errorf("once it can work: %d %s", status, body)
		}
		if got := s.state("b1:8000"); got != backends.Up {
			t.Errorf("after a slow answer it is %v", got)
		}
		s.stop()
	})
}

// DI-01, SD-04: an engine that drains says so at /health and finishes what it has. From the next
// probe on it gets nothing new, its streams run on, and nothing counts as a failure.
func TestSD04DrainingEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engines := map[string]*probedEngine{"b1:8000": new(probedEngine), "b2:8000": new(probedEngine)}
		s := start(t, nil, map[string]http.Handler{"b1:8000": engines["b1:8000"], "b2:8000": engines["b2:8000"]})
		synctest.Wait()
		var streams sync.WaitGroup
		whole := make(chan bool, 1)
		streams.Go(func() {
			_, _, body := s.chat(longPrompt("A"), `,"stream":true,"max_tokens":40`)
			whole <- strings.HasSuffix(body, "[DONE]\n\n")
		})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		at := ""
		for id, e := range engines {
			if n, _ := e.counts(); n == 1 {
				at = id
			}
		}
		leaving := engines[at]
		leaving.status.Store(http.StatusServiceUnavailable)
		time.Sleep(6 * time.Second) // one probe
		for range 10 {
			if status, header, _ := s.chat(longPrompt("A"), ""); status != 200 || header.Get("X-Warmroute-Backend") == at {
				t.Errorf("%d from %s, which drains", status, header.Get("X-Warmroute-Backend"))
			}
		}
		if got := s.state(at); got != backends.Unreachable {
			t.Errorf("it is %v", got)
		}
		if !<-whole {
			t.Error("its stream was cut")
		}
		streams.Wait()
		if n, cancelled := leaving.counts(); n != 1 || cancelled != 0 {
			t.Errorf("it got %d requests, %d were cancelled", n, cancelled)
		}
		leaving.status.Store(0)
		time.Sleep(6 * time.Second)
		if got := s.state(at); got != backends.Up {
			t.Errorf("back, it is %v", got)
		}
		s.stop()
	})
}

// A frozen engine whose /health is green is ejected, and what was sent there in vain ends with
// an error; the others go on.
func TestFrozenEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engines := map[string]*probedEngine{"b1:8000": new(probedEngine), "b2:8000": new(probedEngine), "b3:8000": new(probedEngine)}
		handlers := make(map[string]http.Handler)
		for id, e := range engines {
			handlers[id] = e
		}
		s := start(t, nil, handlers)
		synctest.Wait()
		_, header, _ := s.chat(longPrompt("A"), "")
		home := header.Get("X-Warmroute-Backend")
		engines[home].frozen.Store(true)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, _, body := s.chat(longPrompt("A"), `,"stream":true,"max_tokens":5`); !strings.HasSuffix(body, "BROKEN OFF") {
				t.Errorf("a stream that never came is whole: %s", body)
			}
		})
		time.Sleep(58 * time.Second)
		if got := s.state(home); got != backends.Up {
			t.Errorf("after 58 s: %v", got)
		}
		time.Sleep(5 * time.Second)
		if got := s.state(home); got != backends.Ejected {
			t.Errorf("after a minute without a byte: %v", got)
		}
		if !strings.Contains(s.log.String(), "backend is frozen") {
			t.Error("nothing in the log says why")
		}
		for range 5 {
			if status, header, _ := s.chat(longPrompt("A"), ""); status != 200 || header.Get("X-Warmroute-Backend") == home {
				t.Errorf("%d from %s, which is frozen", status, header.Get("X-Warmroute-Backend"))
			}
		}
		waiting.Wait() // timeouts.idle ends it
		s.stop()
	})
}

// A backend that answers no probe is still tried where nobody else is left.
func TestOutOfTouchIsTriedAtLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(probedEngine)
		s := start(t, func(c *config.Config) { c.Health.Path, c.Health.Timeout = "/never", time.Second }, map[string]http.Handler{
			"b1:8000": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/never" {
					<-r.Context().Done()
					return
				}
				e.ServeHTTP(w, r)
			}),
		})
		time.Sleep(30 * time.Second)
		if got := s.state("b1:8000"); got != backends.Unreachable {
			t.Errorf("it is %v", got)
		}
		if status, header, body := s.chat("hi", ""); status != 200 || header.Get("X-Warmroute-Reason") != "least_bad" {
			t.Errorf("%d %s %s", status, header.Get("X-Warmroute-Reason"), body)
		}
		s.stop()
	})
}
