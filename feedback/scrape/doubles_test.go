package scrape

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// double is an engine double in virtual time, and what is scraped of it.
type double struct {
	t      *testing.T
	client *http.Client
	log    *told
}

func newDouble(w *world, change func(*server.Config)) *double {
	w.t.Helper()
	cfg := server.DefaultConfig()
	change(&cfg)
	srv, err := server.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	web, err := w.net.Serve("b1:8000", srv)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { web.Close() })
	return &double{t: w.t, client: w.net.Client(), log: &w.log}
}

// post sends a body and waits for the whole answer.
func (d *double) post(path string, body map[string]any) {
	d.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		d.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, "http://b1:8000"+path, bytes.NewReader(data))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		d.t.Fatalf("status %d, error %v: %s", resp.StatusCode, err, answer)
	}
}

func (d *double) complete(prompt string, tokens int) {
	d.t.Helper()
	d.post("/v1/completions", map[string]any{"prompt": prompt, "max_tokens": tokens})
}

// page reads the metrics as they are.
func (d *double) page() *Page {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, "http://b1:8000/metrics", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	page, err := Parse(body, resp.Header.Get("Content-Type"))
	if err != nil {
		d.t.Fatal(err)
	}
	return page
}

// now returns what the next look says.
func (d *double) now(id string) feedback.EngineState {
	d.t.Helper()
	time.Sleep(8 * time.Second)
	states, err := d.log.of(id)
	if len(states) == 0 {
		d.t.Fatalf("%s: nothing scraped: %v", id, err)
	}
	return states[len(states)-1]
}

var document = strings.Repeat("Every question comes with all of the manual before it. ", 120)

// The doubles' metrics of every generation say the same of the same traffic, as far as
// they say it.
func TestGenerationsOfDoubles(t *testing.T) {
	for _, generation := range server.MetricsGenerations() {
		t.Run(generation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				d := newDouble(w, func(c *server.Config) { c.MetricsGeneration = generation })
				w.run(Config{}, w.registry(at("http://b1:8000")))
				var p feedback.Progress
				d.complete(document, 4)
				p.Next(d.now("b1:8000"))
				d.complete(document, 4)
				s := d.now("b1:8000")
				c := p.Next(s)

				if s.CapacityTokens != 425_984 || s.BlockTokens != 16 || s.CachingOff || s.Started == 0 {
					t.Errorf("capacity %d, block %d, caching off %v, started %v", s.CapacityTokens, s.BlockTokens, s.CachingOff, s.Started)
				}
				if !s.HasRunning || !s.HasWaiting || !s.HasKVUsage || !s.HasPromptTokens || s.Running+s.Waiting != 0 || s.PromptTokens < 2000 {
					t.Errorf("state %+v", s)
				}
				if want := generation == "current"; s.HasSleep != want || s.Asleep {
					t.Errorf("asleep %v (known: %v)", s.Asleep, s.HasSleep)
				}
				if want := generation != "v0"; c.HasHits != want {
					t.Fatalf("hits known: %v, want %v", c.HasHits, want)
				}
				if share := c.Hits / c.Queries; c.HasHits && (share < 0.95 || share > 1 || c.Hits < 1000) {
					t.Errorf("%v of %v tokens found", c.Hits, c.Queries)
				}
			})
		})
	}
}

func TestRestartOfADouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := newDouble(w, func(*server.Config) {})
		w.run(Config{}, w.registry(at("http://b1:8000")))
		var p feedback.Progress
		d.complete(document, 4)
		p.Next(d.now("b1:8000"))
		if c := p.Next(d.now("b1:8000")); c.Restarted || !c.HasHits {
			t.Errorf("without a restart: %+v", c)
		}
		d.post("/sim/fault", map[string]any{"restart": true})
		d.complete(document+document, 4) // the counters are soon above what they were
		if c := p.Next(d.now("b1:8000")); !c.Restarted || c.HasHits {
			t.Errorf("after a restart: %+v", c)
		}
		d.post("/sleep", nil)
		if c := p.Next(d.now("b1:8000")); !c.FellAsleep || c.Restarted {
			t.Errorf("after it fell asleep: %+v", c)
		}
		d.post("/wake_up", nil)
		if s := d.now("b1:8000"); s.Asleep || !s.HasSleep {
			t.Errorf("awake again: %+v", s)
		}
	})
}

// The over-count of older releases does not reach what is scraped of those that say
// what prompts came from.
func TestOvercountOfADouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := newDouble(w, func(c *server.Config) { c.Overcount, c.KVTokens = true, 2400 })
		w.run(Config{}, w.registry(at("http://b1:8000")))
		var clients sync.WaitGroup
		for _, head := range []string{"one ", "two ", "three "} {
			clients.Go(func() { d.complete(head+document, 100) })
		}
		clients.Wait()
		var raw float64
		for _, s := range d.page().table[vllmQueries+total] {
			raw += s.value
		}
		s := d.now("b1:8000")
		if raw < 3*s.PromptTokens {
			t.Errorf("%v tokens looked up for prompts of %v: no over-count to see through", raw, s.PromptTokens)
		}
		if !s.HasHits || s.Queries != s.PromptTokens || s.Hits != 0 {
			t.Errorf("%v of %v tokens found (known: %v), prompts had %v", s.Hits, s.Queries, s.HasHits, s.PromptTokens)
		}
	})
}

func TestRanksOfADouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := newDouble(w, func(c *server.Config) { c.Engines = 3 })
		var specs []backends.Spec
		for rank := range 3 {
			specs = append(specs, backends.Spec{URL: "http://b1:8000", Rank: rank})
		}
		w.run(Config{}, w.registry(specs...))
		for range 4 {
			d.complete(document, 4) // all on the first engine, as it is idle each time
		}
		first, last := d.now("b1:8000#0"), d.now("b1:8000#2")
		if first.Hits < 3000 || last.Hits != 0 || last.Queries != 0 || !last.HasHits {
			t.Errorf("rank 0 found %v, rank 2 %v of %v (known: %v)", first.Hits, last.Hits, last.Queries, last.HasHits)
		}
		if first.CapacityTokens != 425_984 || last.CapacityTokens != 425_984 {
			t.Errorf("capacities %d and %d, want one engine's 425984", first.CapacityTokens, last.CapacityTokens)
		}
	})
}
