package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// without removes the lines of a page that hold any of the texts.
func without(texts ...string) func(string) string {
	return func(page string) string {
		var kept strings.Builder
	lines:
		for line := range strings.Lines(page) {
			for _, text := range texts {
				if strings.Contains(line, text) {
					continue lines
				}
			}
			kept.WriteString(line)
		}
		return kept.String()
	}
}

// SC-01: the KV usage is read under its new and its old name; where there is neither it
// is unknown, and not 0.
func TestSC01KVUsageUnderEveryName(t *testing.T) {
	generations := server.MetricsGenerations()
	next := 0
	w := watch(t, setup{
		engines: len(generations),
		engine: func(c *server.Config) {
			c.MetricsGeneration = generations[next]
			next++
		},
		others: []http.Handler{around(t, nil, withPage(without("cache_usage_perc")))},
	})
	for i := range w.ids {
		w.mustChat(ask{messages: []message{user(prose(uint64(i), 2000))}, pin: w.ids[i]})
		if k := w.look(i); k.Scrape.Failed > 0 && k.Scrape.Good == 0 {
			t.Errorf("backend %d: %+v", i, k.Scrape)
		}
	}
	usage := func(i int) int {
		return strings.Count(w.get(w.admin+"/metrics"), fmt.Sprintf("warmroute_backend_engine_kv_usage_ratio{backend=%q", w.ids[i]))
	}
	for i, generation := range generations {
		if k := w.know(i); k.Engine == nil || k.Engine.KVUsage == nil || *k.Engine.KVUsage > 1 || k.Engine.Capacity == nil || *k.Engine.Capacity < 300_000 {
			t.Errorf("%s: %+v", generation, k.Engine)
		}
		if usage(i) != 1 {
			t.Errorf("%s: there is no gauge of the KV usage", generation)
		}
	}
	neither := len(generations)
	if k := w.know(neither); k.Engine == nil || k.Engine.KVUsage != nil || usage(neither) != 0 {
		t.Errorf("a usage that nobody stated is known: %+v", k.Engine)
	}
}

// SC-08: an engine whose metrics are off is served on the router's own counts, and told
// of once.
func TestSC08MetricsOff(t *testing.T) {
	w := watch(t, setup{
		engines: 1,
		others:  []http.Handler{around(t, nil, withPage(func(string) string { return "" }))},
	})
	home := make(map[int]string)
	for range 2 {
		for i, d := range documents(0, 20, 3000) {
			r := w.mustChat(ask{messages: []message{user(d)}})
			if home[i] != "" && (r.backend != home[i] || r.cached == 0) {
				t.Errorf("document %d went to %s (%d cached), was on %s", i, r.backend, r.cached, home[i])
			}
			home[i] = r.backend
		}
	}
	var of shares
	for _, backend := range home {
		of.add(backend)
	}
	if of.of[w.ids[1]] < 5 {
		t.Errorf("shares %v: the engine without metrics gets too little", of.of)
	}
	w.await("it was asked twenty times", func() bool { return w.know(1).Scrape.Failed >= 20 })
	warnings := w.log.lines(t, "no metrics")
	if len(warnings) != 1 || warnings[0]["backend"] != w.ids[1] || warnings[0]["level"] != "WARN" {
		t.Errorf("%d warnings, want one of %s: %v", len(warnings), w.ids[1], warnings)
	}
	up := func(i int) float64 {
		return w.metric("warmroute_backend_scrape_up", fmt.Sprintf("backend=%q", w.ids[i]))
	}
	if up(0) != 1 || up(1) != 0 {
		t.Errorf("scrape_up is %v and %v, want 1 and 0", up(0), up(1))
	}
}

// SC-10: a burst between two looks is spread by the router's own counts, and the next
// look, which sees the same requests in the engines, does not count them again.
func TestSC10BurstsBetweenLooks(t *testing.T) {
	const engines, burst, threshold = 4, 30, 16
	w := watch(t, setup{
		engines: engines,
		engine:  func(c *server.Config) { c.Speed = 1 },
		configure: func(c *config.Config) {
			c.Scrape.Interval = 5 * time.Second
			c.Pools[0].Routing.ConcurrencyThreshold = threshold
		},
	})
	for i := range engines {
		w.await("it was looked at once", func() bool { return w.know(i).looks() > 0 })
	}
	looks := func() (n int) {
		for i := range engines {
			n += w.know(i).looks()
		}
		return n
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var clients sync.WaitGroup
	defer clients.Wait()
	defer leave()
	send := func(from int) {
		for i := range burst {
			clients.Go(func() { // an answer of minutes, which nobody waits for
				_, _ = w.chat(ctx, ask{messages: []message{user(prose(uint64(from+i), 3000))}, tokens: 20_000})
			})
		}
	}
	total := func() (n int) {
		for _, each := range w.inFlight() {
			n += each
		}
		return n
	}
	before, began := looks(), time.Now()
	send(0)
	w.await("the burst is in flight", func() bool { return total() == burst })
	t.Logf("in flight after %v: %v", time.Since(began), w.inFlight())
	for i, n := range w.inFlight() {
		if n < burst/engines-3 || n > burst/engines+4 {
			t.Errorf("%d of %d went to backend %d", n, burst, i)
		}
	}
	if looks() != before {
		t.Error("the engines were looked at during the burst, which proves nothing then")
	}
	running := func() float64 { return w.metric("warmroute_backend_engine_running_requests") }
	w.await("a later look sees them", func() bool { return running() == burst })
	if n := total(); n != burst {
		t.Errorf("%d are in flight after the look, want %d still", n, burst)
	}
	// Counted twice they would leave no room for as many again.
	send(burst)
	w.await("another burst is in flight", func() bool { return total() == 2*burst })
	for i, n := range w.inFlight() {
		if n > threshold {
			t.Errorf("%d are in flight on backend %d, above its threshold", n, i)
		}
	}
	if n := w.metric("warmroute_overflow_total"); n != 0 {
		t.Errorf("%v decisions overflowed", n)
	}
}

// HA-07: whatever the engine's block is, and where it does not say, the router works,
// and predictions are whole blocks.
func TestHA07EngineBlocks(t *testing.T) {
	for name, test := range map[string]struct {
		size  int // of the engine
		page  func(string) string
		known bool
	}{
		"16":      {16, func(p string) string { return p }, true},
		"768":     {768, func(p string) string { return p }, true},
		"None":    {16, func(p string) string { return strings.ReplaceAll(p, `block_size="16"`, `block_size="None"`) }, false},
		"no word": {16, func(p string) string { return strings.ReplaceAll(p, `block_size="16",`, "") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			engine := around(t, func(c *server.Config) { c.BlockSize = test.size }, withPage(test.page))
			w := watch(t, setup{others: []http.Handler{engine}})
			if k := w.look(0); (k.Engine.Block != nil) != test.known || test.known && *k.Engine.Block != test.size {
				t.Errorf("the engine's block is %v, it is %d and says so: %v", k.Engine.Block, test.size, test.known)
			}
			for _, d := range documents(0, 4, 16_000) {
				w.mustChat(ask{messages: []message{user(d)}})
				r := w.mustChat(ask{messages: []message{user(d)}})
				p := w.predicted(r.id)
				if p == 0 || p%test.size != 0 || p < r.cached-max(test.size, r.prompt/5) || p > r.cached+max(test.size, r.prompt/5) {
					t.Errorf("%d tokens predicted, %d of %d found, with blocks of %d", p, r.cached, r.prompt, test.size)
				}
			}
			if n := len(w.log.lines(t, "no metrics")); n != 0 {
				t.Errorf("%d warnings", n)
			}
		})
	}
}
