package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/router"
)

// backendKey names a backend's series. One engine may stand in several pools.
type backendKey struct{ pool, backend string }

// backendCounts is what has been counted of one backend.
type backendCounts struct {
	decisions, ejections atomic.Uint64
	hopeless             atomic.Bool // it never confirms a hit
	tokens               tokenCounts
	calibration          calibration
}

// tokenCounts is the accounting of one backend.
type tokenCounts struct {
	prompt, available, captured, predicted, reported, delivered, completion atomic.Uint64
}

// backendCollector describes the backends of a router on each scrape. It keeps the
// counts itself rather than in vectors, because those of backends that left must
// go, also when one of their requests ends later.
type backendCollector struct {
	router *atomic.Pointer[router.Router]
	now    func() time.Time

	mu    sync.RWMutex
	known map[backendKey]*backendCounts

	gauges      []backendMetric
	maybe       []optionalMetric
	counters    []countMetric
	scrapes     *scrapeMetrics
	state       *prometheus.Desc
	hopeless    *prometheus.Desc
	calibration *prometheus.Desc
}

// backendMetric is one number of a backend's status.
type backendMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(router.BackendStatus) float64
}

// optionalMetric is a number that is not always known; ok is false where it is not, and
// then there is no series: absent is not 0.
type optionalMetric struct {
	desc  *prometheus.Desc
	value func(s router.BackendStatus, now time.Time) (value float64, ok bool)
}

// describer makes the description of a metric of backends.
type describer func(name, help string, labels ...string) *prometheus.Desc

// countMetric is one of the counts of a backend.
type countMetric struct {
	desc  *prometheus.Desc
	value func(*backendCounts) *atomic.Uint64
}

var _ prometheus.Collector = (*backendCollector)(nil)

func newBackendCollector(r *atomic.Pointer[router.Router]) *backendCollector {
	c := &backendCollector{router: r, now: time.Now, known: make(map[backendKey]*backendCounts)}
	desc := describer(func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_backend_"+name, help, append([]string{"pool", "backend"}, labels...), nil)
	})
	c.maybe, c.scrapes = engineMetrics(desc), newScrapeMetrics(desc)
	status := func(name, help string, kind prometheus.ValueType, value func(router.BackendStatus) float64) {
		c.gauges = append(c.gauges, backendMetric{desc(name, help), kind, value})
	}
	counted := func(name, help string, value func(*backendCounts) *atomic.Uint64) {
		c.counters = append(c.counters, countMetric{desc(name, help), value})
	}
	c.state = desc("state", "1 for the state the backend is in, 0 for the others.", "state")
	c.hopeless = desc("never_confirmed", "1 while the backend has had every chance to confirm a predicted hit and never did.")
	c.calibration = desc("calibration_ratio", "The part of its matches that is believed, over the latest answers: predicted divided by captured tokens.")
	status("in_flight", "Requests sent and not finished.", prometheus.GaugeValue,
		func(s router.BackendStatus) float64 { return float64(s.InFlight) })
	status("concurrency_limit", "The ConcurrencyThreshold in force, lower while the backend returns from an ejection.", prometheus.GaugeValue,
		func(s router.BackendStatus) float64 { return float64(s.Limit) })
	status("queued_tokens", "Estimated prompt tokens still to be prefilled.", prometheus.GaugeValue,
		func(s router.BackendStatus) float64 { return float64(s.Queued) })
	status("index_blocks", "Blocks the backend is thought to hold.", prometheus.GaugeValue,
		func(s router.BackendStatus) float64 { return float64(s.Index.Blocks) })
	status("index_capacity_blocks", "The most blocks the index keeps for the backend.", prometheus.GaugeValue,
		func(s router.BackendStatus) float64 { return float64(s.Index.Capacity) })
	status("index_evicted_blocks_total", "Blocks that capacity pushed out of the index.", prometheus.CounterValue,
		func(s router.BackendStatus) float64 { return float64(s.Index.Evicted) })
	status("prefill_tokens_per_second", "Prefill rate learned from requests that were alone on it, 2000 until there were enough.", prometheus.GaugeValue,
		func(s router.BackendStatus) float64 { return s.PrefillRate })
	status("silent", "1 when its answers report no cached tokens.", prometheus.GaugeValue,
		func(s router.BackendStatus) float64 { return truth(s.Silent) })
	counted("decisions_total", "Decisions for the backend.",
		func(b *backendCounts) *atomic.Uint64 { return &b.decisions })
	counted("ejections_total", "Times that failures took the backend out.",
		func(b *backendCounts) *atomic.Uint64 { return &b.ejections })
	counted("prompt_tokens_total", "Prompt tokens it answered: as reported, else estimated.",
		func(b *backendCounts) *atomic.Uint64 { return &b.tokens.prompt })
	counted("available_cached_tokens_total", "Of those, tokens thought cached on the best eligible backend.",
		func(b *backendCounts) *atomic.Uint64 { return &b.tokens.available })
	counted("captured_cached_tokens_total", "Of those, tokens thought cached here.",
		func(b *backendCounts) *atomic.Uint64 { return &b.tokens.captured })
	counted("predicted_cached_tokens_total", "Of those, tokens predicted cached here, after calibration.",
		func(b *backendCounts) *atomic.Uint64 { return &b.tokens.predicted })
	counted("reported_prompt_tokens_total", "Prompt tokens of its answers that reported cached tokens.",
		func(b *backendCounts) *atomic.Uint64 { return &b.tokens.reported })
	counted("delivered_cached_tokens_total", "Cached tokens it reported.",
		func(b *backendCounts) *atomic.Uint64 { return &b.tokens.delivered })
	counted("completion_tokens_total", "Generated tokens it reported.",
		func(b *backendCounts) *atomic.Uint64 { return &b.tokens.completion })
	return c
}

// counts returns the counts of a backend, new ones if need be.
func (c *backendCollector) counts(pool, backend string) *backendCounts {
	key := backendKey{pool, backend}
	c.mu.RLock()
	b := c.known[key]
	c.mu.RUnlock()
	if b != nil {
		return b
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b = c.known[key]; b == nil {
		b = new(backendCounts)
		c.known[key] = b
	}
	return b
}

// Describe implements prometheus.Collector.
func (c *backendCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.state
	ch <- c.hopeless
	ch <- c.calibration
	c.scrapes.describe(ch)
	for _, g := range c.gauges {
		ch <- g.desc
	}
	for _, m := range c.maybe {
		ch <- m.desc
	}
	for _, n := range c.counters {
		ch <- n.desc
	}
}

// Collect implements prometheus.Collector.
func (c *backendCollector) Collect(ch chan<- prometheus.Metric) {
	r := c.router.Load()
	if r == nil {
		return
	}
	now := c.now()
	present := make(map[backendKey]bool)
	for _, p := range r.Pools() {
		for _, s := range p.Status(now) {
			key := backendKey{p.Name(), s.Backend.ID}
			present[key] = true
			c.collect(ch, key, s, now)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.known {
		if !present[key] {
			delete(c.known, key)
		}
	}
}

// sender sends one number of a backend.
type sender func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)

func (c *backendCollector) collect(ch chan<- prometheus.Metric, key backendKey, s router.BackendStatus, now time.Time) {
	send := sender(func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		m, err := prometheus.NewConstMetric(desc, kind, value, append([]string{key.pool, key.backend}, labels...)...)
		if err != nil {
			m = prometheus.NewInvalidMetric(desc, err)
		}
		ch <- m
	})
	for _, state := range states() {
		send(c.state, prometheus.GaugeValue, truth(s.State == state), state.String())
	}
	for _, g := range c.gauges {
		send(g.desc, g.kind, g.value(s))
	}
	c.collectScrapes(send, s, now)
	counts := c.counts(key.pool, key.backend)
	send(c.hopeless, prometheus.GaugeValue, truth(counts.hopeless.Load()))
	if ratio, ok := counts.calibration.ratio(); ok {
		send(c.calibration, prometheus.GaugeValue, ratio)
	}
	for _, n := range c.counters {
		send(n.desc, prometheus.CounterValue, float64(n.value(counts).Load()))
	}
}

// truth is a yes or no as a gauge shows it.
func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// states are all states, from best to worst.
func states() []backends.State {
	return []backends.State{backends.Up, backends.Cooling, backends.Ejected, backends.Draining, backends.Asleep, backends.Unreachable}
}
