package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// TestFirstTokenComesWhenTheModelSays measures time to first token and the end of
// a stream in virtual time, at several speeds, for a miss and then a hit.
func TestFirstTokenComesWhenTheModelSays(t *testing.T) {
	for _, speed := range []float64{1, 7, 0.5} {
		synctest.Test(t, func(t *testing.T) {
			cfg := server.DefaultConfig()
			cfg.Speed = speed
			s := inBubble(t, cfg)
			p, err := enginesim.ProfileByName(cfg.Profile)
			if err != nil {
				t.Fatal(err)
			}
			tokens := int(s.ok("/tokenize", chat(manual, nil))["count"].(float64))
			for _, cached := range []int{0, (tokens - 1) / 16 * 16} {
				start := time.Now()
				resp, err := s.send(t.Context(), "/v1/chat/completions", chat(manual, object{"stream": true, "max_tokens": 2}))
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("headers came after %s, want at once", took)
				}
				if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				want := p.RequestOverhead + p.StepFloor + p.PrefillTime(tokens-cached, cached)
				near(t, "first byte", time.Since(start), want, speed)
				if _, err := io.ReadAll(resp.Body); err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				near(t, "end", time.Since(start), want+p.DecodeTime(1, tokens+1), speed)
			}
		})
	}
}

// near compares a measured time with a model time at a speed. Rounding may cost
// the loop a microsecond a step.
func near(t *testing.T, what string, got, model time.Duration, speed float64) {
	t.Helper()
	want := time.Duration(float64(model) / speed)
	if diff := (got - want).Abs(); diff > 5*time.Microsecond {
		t.Errorf("%s after %s at speed %g, want %s", what, got, speed, want)
	}
}

// TestClientGone checks that a client that leaves takes its request out of the
// model, streaming or not, queued or running.
func TestClientGone(t *testing.T) {
	for _, stream := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := inBubble(t, server.DefaultConfig())
			free := s.state("engines", 0, "free_blocks")
			ctx, cancel := context.WithCancel(t.Context())
			left := make(chan struct{})
			go func() {
				defer close(left)
				resp, err := s.send(ctx, "/v1/chat/completions", chat(manual, object{"stream": stream, "max_tokens": 5000}))
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("client saw %v, want that it gave up", err)
				}
			}()
			time.Sleep(time.Second)
			if got := s.state("engines", 0, "running"); got != 1 {
				t.Fatalf("%v running before the client leaves, want 1", got)
			}
			if got := s.state("engines", 0, "free_blocks"); got >= free {
				t.Errorf("%v of %v blocks free while running", got, free)
			}
			cancel()
			<-left
			synctest.Wait()
			if got := s.state("engines", 0, "running"); got != 0 {
				t.Errorf("%v running after the client left, want 0", got)
			}
			if got := s.state("engines", 0, "free_blocks"); got != free {
				t.Errorf("%v blocks free after the client left, want %v", got, free)
			}
			if got := s.state("aborted"); got != 1 {
				t.Errorf("%v aborted, want 1", got)
			}
		})
	}
}

// TestQueueing checks that requests beyond the KV capacity wait.
func TestQueueing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := server.DefaultConfig()
		cfg.KVTokens = 2048
		s := inBubble(t, cfg)
		done := make(chan time.Duration, 2)
		start := time.Now()
		for _, text := range []string{"a " + manual, "b " + manual} {
			go func() {
				s.ok("/v1/chat/completions", chat(text, object{"max_tokens": 50}))
				done <- time.Since(start)
			}()
		}
		time.Sleep(100 * time.Millisecond)
		if w, r := s.state("engines", 0, "waiting"), s.state("engines", 0, "running"); w != 1 || r != 1 {
			t.Errorf("%v waiting, %v running, want 1 and 1", w, r)
		}
		first, second := <-done, <-done
		if second < 2*first-50*time.Millisecond {
			t.Errorf("ended after %s and %s, want one after the other", first, second)
		}
	})
}

func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, server.DefaultConfig())
		s.ok("/sim/fault", object{"hang": "headers"})
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.send(short, "/v1/chat/completions", chat("hi", nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hang before headers: error %v, want a deadline", err)
		}
		// What hangs goes on when the fault is cleared.
		answered := make(chan int)
		go func() {
			status, _ := s.post("/v1/chat/completions", chat("hi", nil))
			answered <- status
		}()
		time.Sleep(time.Hour)
		s.ok("/sim/fault", object{"clear": true})
		if status := <-answered; status != http.StatusOK {
			t.Errorf("status %d after the fault was cleared", status)
		}

		s.ok("/sim/fault", object{"hang": "stream"})
		short, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		resp, err := s.send(short, "/v1/chat/completions", chat("hi", object{"stream": true}))
		if err != nil {
			t.Fatal(err)
		}
		events, err := readEvents(t, resp.Body)
		resp.Body.Close()
		if len(events) != 1 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hang in the stream: %d events, error %v, want 1 and a deadline", len(events), err)
		}
		synctest.Wait()
		if got := s.state("engines", 0, "running"); got != 0 {
			t.Errorf("%v running after the client of a hung stream left", got)
		}
	})
}

func TestSlowAndSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, server.DefaultConfig())
		timed := func() time.Duration {
			start := time.Now()
			s.ok("/v1/chat/completions", chat("hi", object{"max_tokens": 100}))
			return time.Since(start)
		}
		normal := timed()
		s.ok("/sim/fault", object{"slow": 4.0})
		if slow := timed(); slow < 3*normal || slow > 4*normal {
			t.Errorf("took %s, normally %s, want nearly four times that", slow, normal)
		}
		s.ok("/sim/fault", object{"clear": true})
		if again := timed(); again > normal {
			t.Errorf("took %s after the fault was cleared, normally %s", again, normal)
		}
		s.post("/sleep?level=1", "")
		if _, got := s.get("/is_sleeping"); got["is_sleeping"] != true {
			t.Errorf("is_sleeping %v after /sleep", got)
		}
		if got := s.state("engines", 0, "cached_blocks"); got != 0 {
			t.Errorf("%v blocks cached after /sleep", got)
		}
		time.AfterFunc(time.Hour, func() { s.post("/wake_up", "") })
		if took := timed(); took < time.Hour {
			t.Errorf("a sleeping engine answered after %s", took)
		}
	})
}

// TestEndOfRun checks that requests under way get an error when the loop ends.
func TestEndOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := server.New(server.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- srv.Run(ctx) }()
		s := serveInMemory(t, srv)
		if status, body := s.post("/v1/chat/completions", chat("hi", object{"max_tokens": 5000})); status != http.StatusServiceUnavailable {
			t.Errorf("request under way: status %d %v, want 503", status, body)
		}
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if status, _ := s.post("/v1/messages", chat("hi", nil)); status != http.StatusServiceUnavailable {
			t.Errorf("later request: status %d, want 503", status)
		}
		if status, _ := s.get("/health"); status != http.StatusServiceUnavailable {
			t.Errorf("health %d, want 503", status)
		}
		if err := srv.Run(ctx); err == nil {
			t.Error("a second Run succeeded")
		}
	})
}
