package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback/scrape"
	"github.com/warmroute/warmroute/router"
)

// ScrapeStatus tells how reading the metrics of a backend goes; ok is false where they
// are not read.
type ScrapeStatus func(b *backends.Backend) (status scrape.Status, ok bool)

// ReadScrapes names who knows how reading the engines' metrics goes. Without it, what
// engines say of themselves has no series.
func (t *Telemetry) ReadScrapes(status ScrapeStatus) { t.backends.scrapes.status.Store(&status) }

// engineMetrics are what is known of a backend at some times and at others not.
func engineMetrics(desc describer) []optionalMetric {
	return []optionalMetric{
		{
			desc("horizon_age_seconds", "Time since the moment before which nothing last used is believed to be cached."),
			func(s router.BackendStatus, now time.Time) (float64, bool) {
				return now.Sub(s.Horizon).Seconds(), !s.Horizon.IsZero()
			},
		},
		{
			desc("engine_kv_capacity_tokens", "The size of its KV cache, as the engine says."),
			func(s router.BackendStatus, _ time.Time) (float64, bool) {
				return float64(s.Engine.CapacityTokens), s.Engine.CapacityTokens > 0
			},
		},
		{
			desc("engine_kv_block_tokens", "The block of its KV cache, as the engine says."),
			func(s router.BackendStatus, _ time.Time) (float64, bool) {
				return float64(s.Engine.BlockTokens), s.Engine.BlockTokens > 0
			},
		},
	}
}

// scrapeMetrics are how reading the engines' metrics goes, and what they said of the
// moment.
type scrapeMetrics struct {
	status                          atomic.Pointer[ScrapeStatus]
	up, age, duration, good, failed *prometheus.Desc
	load                            []optionalMetric // true only while it is fresh
}

func newScrapeMetrics(desc describer) *scrapeMetrics {
	return &scrapeMetrics{
		up:       desc("scrape_up", "1 when its metrics could be read when they were last asked for."),
		age:      desc("scrape_age_seconds", "Time since its metrics were last read."),
		duration: desc("scrape_duration_seconds", "How long the last reading of its metrics took."),
		good:     desc("scrapes_total", "Readings of its metrics, failed ones included."),
		failed:   desc("scrape_errors_total", "Readings of its metrics that failed or found no metrics of a known engine."),
		load: []optionalMetric{
			{
				desc("engine_running_requests", "Requests in its batch when its metrics were last read."),
				func(s router.BackendStatus, _ time.Time) (float64, bool) {
					return float64(s.Engine.Running), s.Engine.HasRunning
				},
			},
			{
				desc("engine_waiting_requests", "Requests waiting in it when its metrics were last read."),
				func(s router.BackendStatus, _ time.Time) (float64, bool) {
					return float64(s.Engine.Waiting), s.Engine.HasWaiting
				},
			},
			{
				desc("engine_kv_usage_ratio", "The part of its KV cache in use by requests when its metrics were last read."),
				func(s router.BackendStatus, _ time.Time) (float64, bool) {
					return s.Engine.KVUsage, s.Engine.HasKVUsage
				},
			},
		},
	}
}

func (m *scrapeMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.up, m.age, m.duration, m.good, m.failed} {
		ch <- d
	}
	for _, l := range m.load {
		ch <- l.desc
	}
}

// collectScrapes sends what is known of one engine. What it said of the moment is left
// out once it cannot be asked again: an engine that is gone is not an idle one.
func (c *backendCollector) collectScrapes(send sender, s router.BackendStatus, now time.Time) {
	for _, m := range c.maybe {
		if value, ok := m.value(s, now); ok {
			send(m.desc, prometheus.GaugeValue, value)
		}
	}
	read := c.scrapes.status.Load()
	if read == nil {
		return
	}
	status, ok := (*read)(s.Backend)
	if !ok || status.Good+status.Bad == 0 {
		return
	}
	send(c.scrapes.up, prometheus.GaugeValue, truth(status.Err == nil))
	send(c.scrapes.good, prometheus.CounterValue, float64(status.Good+status.Bad))
	send(c.scrapes.failed, prometheus.CounterValue, float64(status.Bad))
	if status.Good > 0 {
		send(c.scrapes.age, prometheus.GaugeValue, max(now.Sub(status.Last), 0).Seconds())
		send(c.scrapes.duration, prometheus.GaugeValue, status.Took.Seconds())
	}
	if status.Err != nil {
		return
	}
	for _, m := range c.scrapes.load {
		if value, ok := m.value(s, now); ok {
			send(m.desc, prometheus.GaugeValue, value)
		}
	}
}
