package scrape

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/memhttp"
)

const plainText = "text/plain; version=0.0.4; charset=utf-8"

// engine is a scriptable engine.
type engine struct {
	mu      sync.Mutex
	page    string
	kind    string
	status  int
	hang    bool
	delay   time.Duration
	asked   []time.Time
	header  http.Header
	current int
	most    int // questions at a time
}

// set changes what the engine answers.
func (e *engine) set(change func(*engine)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e)
}

func (e *engine) questions() []time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked)
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.asked = append(e.asked, time.Now())
	e.header = r.Header
	e.current++
	e.most = max(e.most, e.current)
	page, kind, status, hang, delay := e.page, e.kind, e.status, e.hang, e.delay
	e.mu.Unlock()
	defer e.set(func(e *engine) { e.current-- })
	if hang {
		<-r.Context().Done()
		return
	}
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return
	}
	if r.URL.Path != "/metrics" || r.Method != http.MethodGet {
		status, page = http.StatusNotFound, ""
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	io.WriteString(w, page)
}

// told records what the hooks were told.
type told struct {
	mu     sync.Mutex
	lines  []string
	states map[string][]feedback.EngineState // by backend
	errs   map[string]error                  // the last by backend
}

func (l *told) hooks() Hooks {
	l.states, l.errs = make(map[string][]feedback.EngineState), make(map[string]error)
	return Hooks{
		Scraped: func(b *backends.Backend, s feedback.EngineState, _ time.Duration) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.states[b.ID] = append(l.states[b.ID], s)
		},
		Failed: func(b *backends.Backend, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.lines, l.errs[b.ID] = append(l.lines, "failed "+b.ID), err
		},
		Recovered: func(b *backends.Backend) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.lines = append(l.lines, "recovered "+b.ID)
		},
	}
}

func (l *told) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

func (l *told) of(id string) ([]feedback.EngineState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.states[id]), l.errs[id]
}

// world is a fleet in virtual time.
type world struct {
	t   *testing.T
	net *memhttp.Network
	get *transport.Transport
	log told
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, net: memhttp.NewNetwork()}
	w.get = transport.New(transport.Config{DialContext: w.net.DialContext})
	t.Cleanup(w.get.Close)
	return w
}

// engine starts an engine whose page says how many requests run.
func (w *world) engine(addr string, running int) *engine {
	w.t.Helper()
	e := &engine{status: http.StatusOK, kind: plainText, page: fmt.Sprintf("vllm:num_requests_running %d\n", running)}
	s, err := w.net.Serve(addr, e)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.Close() })
	return e
}

func (w *world) registry(specs ...backends.Spec) *backends.Registry {
	w.t.Helper()
	r, err := backends.NewRegistry(backends.DefaultEjection())
	if err != nil {
		w.t.Fatal(err)
	}
	w.set(r, specs...)
	return r
}

func (w *world) set(r *backends.Registry, specs ...backends.Spec) {
	w.t.Helper()
	if _, err := r.Set(specs); err != nil {
		w.t.Fatal(err)
	}
}

// run scrapes until the test ends.
func (w *world) run(c Config, r *backends.Registry) *Scraper {
	s := New(c, w.get, w.log.hooks())
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, r.Snapshot) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run returned %v", err)
		}
	})
	return s
}

func at(url string) backends.Spec { return backends.Spec{URL: url, Rank: backends.NoRank} }

func TestEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.engine("b1:8000", 3)
		e.set(func(e *engine) { e.delay = 30 * time.Millisecond })
		r := w.registry(at("http://b1:8000"))
		s := w.run(Config{}, r)
		start := time.Now()
		time.Sleep(time.Minute)
		questions := e.questions()
		if first := questions[0].Sub(start); first > time.Second {
			t.Errorf("first asked after %v, want a second at most", first)
		}
		for i, q := range questions[1:] {
			gap := q.Sub(questions[i])
			if i == 0 && (gap < 2500*time.Millisecond || gap > 7600*time.Millisecond) || i > 0 && gap != 5*time.Second {
				t.Errorf("question %d came after %v, want 5s", i+1, gap)
			}
		}
		states, _ := w.log.of("b1:8000")
		if len(states) != len(questions) {
			t.Fatalf("%d states of %d questions", len(states), len(questions))
		}
		last := states[len(states)-1]
		want := feedback.EngineState{At: questions[len(questions)-1], Engine: "vllm", Running: 3, HasRunning: true}
		if diff := cmp.Diff(want, last); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
		status, ok := s.Status(r.Find("b1:8000"))
		wantStatus := Status{Last: last.At, Took: 30 * time.Millisecond, Good: uint64(len(states))}
		if diff := cmp.Diff(wantStatus, status); diff != "" || !ok {
			t.Errorf("status (-want +got), known: %v\n%s", ok, diff)
		}
		if got := w.log.all(); got != nil {
			t.Errorf("hooks were told %q", got)
		}
	})
}

func TestEnginesAreNotAskedInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var specs []backends.Spec
		var engines []*engine
		for i := range 100 {
			addr := fmt.Sprintf("b%d:8000", i)
			engines = append(engines, w.engine(addr, 0))
			specs = append(specs, at("http://"+addr))
		}
		w.run(Config{}, w.registry(specs...))
		time.Sleep(time.Minute)
		var fifths [5]int
		for _, e := range engines {
			q := e.questions()
			fifths[q[len(q)-1].Sub(q[len(q)-1].Truncate(5*time.Second))/time.Second]++
		}
		for i, n := range fifths {
			if n < 5 || n > 45 { // 20 expected, deviation 4
				t.Errorf("%d of 100 engines are asked in second %d of the interval", n, i)
			}
		}
	})
}

// SC-07: one hung backend delays nobody and is asked by one question at a time.
func TestHungEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hung := w.engine("b1:8000", 0)
		hung.set(func(e *engine) { e.hang = true })
		hole, err := w.net.Listen("b2:8000") // never accepts
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { hole.Close() })
		other := w.engine("b3:8000", 1)
		r := w.registry(at("http://b1:8000"), at("http://b2:8000"), at("http://b3:8000"))
		s := w.run(Config{}, r)
		time.Sleep(time.Minute)
		for _, id := range []string{"b1:8000", "b2:8000"} {
			states, err := w.log.of(id)
			want := "backend " + id + ": no metrics within 2s (scrape.timeout)"
			if len(states) > 0 || err == nil || err.Error() != want {
				t.Errorf("%s: %d states, error %v, want none and %q", id, len(states), err, want)
			}
			if status, _ := s.Status(r.Find(id)); !status.Last.IsZero() || status.Bad < 11 || status.Good != 0 || status.Err == nil {
				t.Errorf("%s: status %+v", id, status)
			}
		}
		if got := w.log.all(); len(got) != 2 {
			t.Errorf("hooks were told %q, want one failure each", got)
		}
		questions := other.questions()
		for i := 2; i < len(questions); i++ {
			if gap := questions[i].Sub(questions[i-1]); gap != 5*time.Second {
				t.Errorf("the other engine was asked after %v", gap)
			}
		}
		hung.set(func(e *engine) {
			if e.most != 1 {
				t.Errorf("%d questions at a time, want 1", e.most)
			}
		})
	})
}

// An engine that takes longer than the interval is asked less often, never twice at a
// time.
func TestSlowEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.engine("b1:8000", 0)
		e.set(func(e *engine) { e.delay = 7 * time.Second })
		w.run(Config{Timeout: 20 * time.Second}, w.registry(at("http://b1:8000")))
		time.Sleep(5 * time.Minute)
		e.set(func(e *engine) {
			if n := len(e.asked); e.most != 1 || n < 25 || n > 35 {
				t.Errorf("asked %d times in 5 minutes, %d at a time", n, e.most)
			}
		})
	})
}

func TestBackendsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first, second := w.engine("b1:8000", 0), w.engine("b2:8000", 0)
		r := w.registry(at("http://b1:8000"))
		s := w.run(Config{}, r)
		time.Sleep(30*time.Second + 500*time.Millisecond)
		gone := r.Find("b1:8000")
		w.set(r, at("http://b2:8000"))
		time.Sleep(2100 * time.Millisecond)
		if n := len(second.questions()); n != 1 {
			t.Errorf("asked %d times within 2 s of its arrival, want once", n)
		}
		if _, ok := s.Status(gone); ok {
			t.Error("a backend that left has a status")
		}
		before := len(first.questions())
		time.Sleep(time.Minute)
		if n := len(first.questions()); n != before {
			t.Errorf("a backend that left was asked %d more times", n-before)
		}
		w.set(r, at("http://b1:8000"), at("http://b2:8000"))
		time.Sleep(2100 * time.Millisecond)
		if n := len(first.questions()); n != before+1 {
			t.Errorf("a backend that came back was asked %d times within 2 s", n-before)
		}
	})
}

func TestRanksShareAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.engine("b1:8000", 0)
		e.set(func(e *engine) {
			e.page = "vllm:num_requests_running{engine=\"0\"} 30\nvllm:num_requests_running{engine=\"1\"} 2\n"
		})
		rank := func(i int) backends.Spec { return backends.Spec{URL: "http://b1:8000", Rank: i} }
		r := w.registry(rank(0))
		w.run(Config{}, r)
		time.Sleep(time.Minute)
		w.set(r, rank(0), rank(1), rank(2))
		before := len(e.questions())
		time.Sleep(time.Minute)
		if n := len(e.questions()) - before; n != 12 {
			t.Errorf("asked %d times in a minute for 3 ranks, want 12", n)
		}
		for id, want := range map[string]int{"b1:8000#0": 30, "b1:8000#1": 2} {
			states, err := w.log.of(id)
			if len(states) == 0 || err != nil || states[len(states)-1].Running != want {
				t.Errorf("%s: states %v, error %v, want %d running", id, states, err, want)
			}
		}
		states, err := w.log.of("b1:8000#2")
		want := `backend b1:8000#2: /metrics: no series with engine="2" on the metrics page, only 0, 1`
		if len(states) > 0 || err == nil || err.Error() != want {
			t.Errorf("the rank that is not there: %d states, error %v, want %q", len(states), err, want)
		}
		if got := w.log.all(); len(got) != 1 {
			t.Errorf("hooks were told %q, want one failure", got)
		}
	})
}

// SC-08: what is no metrics page is told once, is no state, and may get better.
func TestNoMetrics(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*engine)
		want   string
	}{
		{"404", func(e *engine) { e.status, e.page = 404, `{"detail":"Not Found"}` }, "status 404"},
		{"redirect", func(e *engine) { e.status = 307 }, "status 307"},
		{"HTML", func(e *engine) { e.kind, e.page = "text/html", "<html>\n" }, "HTML"},
		{"JSON", func(e *engine) { e.kind, e.page = "application/json", "[]" }, "JSON"},
		{"another engine", func(e *engine) { e.page = "llamacpp:requests_processing 1\n" }, "llama.cpp"},
		{"too long", func(e *engine) { e.page = strings.Repeat("# nothing\n", maxPage/10+1) }, "more than 8388608 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				e := w.engine("b1:8000", 0)
				good := e.page
				e.set(tt.change)
				r := w.registry(at("http://b1:8000"))
				s := w.run(Config{}, r)
				time.Sleep(12 * time.Second)
				states, err := w.log.of("b1:8000")
				if err == nil || !strings.Contains(err.Error(), "backend b1:8000: /metrics") || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
				if len(states) > 0 {
					t.Errorf("states %v", states)
				}
				e.set(func(e *engine) { e.status, e.kind, e.page = http.StatusOK, plainText, good })
				time.Sleep(12 * time.Second)
				if diff := cmp.Diff([]string{"failed b1:8000", "recovered b1:8000"}, w.log.all()); diff != "" {
					t.Errorf("hooks (-want +got):\n%s", diff)
				}
				if status, _ := s.Status(r.Find("b1:8000")); status.Err != nil || status.Good < 2 || status.Bad < 2 {
					t.Errorf("status %+v", status)
				}
			})
		})
	}
}

// The end of the program is not a failure of the engines.
func TestEndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine("b1:8000", 0).set(func(e *engine) { e.hang = true })
		r := w.registry(at("http://b1:8000"))
		s := New(Config{}, w.get, w.log.hooks())
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if err := s.Run(ctx, r.Snapshot); err != nil {
			t.Errorf("Run() = %v", err)
		}
		if got := w.log.all(); got != nil {
			t.Errorf("hooks were told %q", got)
		}
		// It can be run again.
		again, stop := context.WithTimeout(t.Context(), 8*time.Second)
		defer stop()
		if err := s.Run(again, r.Snapshot); err != nil {
			t.Errorf("Run() = %v", err)
		}
		if diff := cmp.Diff([]string{"failed b1:8000"}, w.log.all()); diff != "" {
			t.Errorf("hooks (-want +got):\n%s", diff)
		}
	})
}

func TestHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.engine("b1:8000", 0)
		w.run(Config{Header: func(b *backends.Backend) http.Header {
			return http.Header{"Authorization": {"Bearer for " + b.ID}}
		}}, w.registry(at("http://b1:8000")))
		time.Sleep(2 * time.Second)
		e.set(func(e *engine) {
			if got := e.header.Get("Authorization"); got != "Bearer for b1:8000" {
				t.Errorf("Authorization %q", got)
			}
			if got := e.header.Get("Accept"); !strings.HasPrefix(got, "text/plain") {
				t.Errorf("Accept %q", got)
			}
		})
	})
}

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		config Config
		want   string
	}{
		{Config{}, ""},
		{DefaultConfig(), ""},
		{Config{Interval: -1}, "scrape.interval"},
		{Config{Timeout: -1}, "scrape.timeout"},
		{Config{Path: "metrics"}, "scrape.path"},
	} {
		err := tt.config.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want %q", tt.config, err, tt.want)
		}
		if got := tt.config.withDefaults(); got.Validate() != nil || got.Interval <= 0 || got.Timeout <= 0 || got.Path == "" {
			t.Errorf("%+v is taken as %+v", tt.config, got)
		}
	}
}

// Hooks that are not set are not called.
func TestNoHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.engine("b1:8000", 0)
		e.set(func(e *engine) { e.status = 500 })
		r := w.registry(at("http://b1:8000"))
		s := New(Config{Interval: time.Second}, w.get, Hooks{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		time.AfterFunc(5*time.Second, func() { e.set(func(e *engine) { e.status = 200 }) })
		if err := s.Run(ctx, r.Snapshot); err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
}
