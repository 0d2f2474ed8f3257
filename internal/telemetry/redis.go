package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute/kvindex/redisindex"
	"github.com/warmroute/warmroute/router"
)

// ReadRedis adds the metrics of an index that is shared through Redis.
func (t *Telemetry) ReadRedis(status func() redisindex.Status) error {
	return t.registry.Register(newRedisCollector(status))
}

// redisCollector describes how sharing goes on each scrape.
type redisCollector struct {
	status   func() redisindex.Status
	numbers  []redisMetric
	sharing  *prometheus.Desc // state
	pools    *prometheus.Desc // pool
	breaker  *prometheus.Desc // state
	failures *prometheus.Desc // kind
}

// redisMetric is one number of the status.
type redisMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*redisindex.Status) float64
}

var _ prometheus.Collector = (*redisCollector)(nil)

func newRedisCollector(status func() redisindex.Status) *redisCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_redis_"+name, help, labels, nil)
	}
	c := &redisCollector{
		status:   status,
		sharing:  desc("sharing", "1 for how far routers know of each other, 0 for the others.", "state"),
		pools:    desc("pool_up", "1 while what this router writes of a pool comes back to it.", "pool"),
		breaker:  desc("breaker", "1 for the state of the breaker, 0 for the others.", "state"),
		failures: desc("failures_total", "Commands that failed, by kind.", "kind"),
	}
	gauge := func(name, help string, value func(*redisindex.Status) float64) {
		c.numbers = append(c.numbers, redisMetric{desc(name, help), prometheus.GaugeValue, value})
	}
	counter := func(name, help string, value func(*redisindex.Status) uint64) {
		c.numbers = append(c.numbers, redisMetric{desc(name, help), prometheus.CounterValue, func(s *redisindex.Status) float64 { return float64(value(s)) }})
	}
	gauge("up", "1 while what this router writes comes back to it, of every pool.",
		func(s *redisindex.Status) float64 { return truth(s.Sharing == router.Fresh) })
	gauge("sync_age_seconds", "Time since something that this router wrote last came back, or since its start.",
		func(s *redisindex.Status) float64 { return s.SyncAge.Seconds() })
	gauge("stream_lag_seconds", "How long the last record took from the server to this router; 0 before any.",
		func(s *redisindex.Status) float64 { return s.Lag.Seconds() })
	gauge("stream_read_records", "Records that the last read of a stream brought, at most 64.",
		func(s *redisindex.Status) float64 { return float64(s.LastRead) })
	gauge("clock_offset_seconds", "What the server's clock is ahead of this machine's; 0 before they were compared.",
		func(s *redisindex.Status) float64 { return s.ClockOffset.Seconds() })
	gauge("peers", "Other routers that are heard.",
		func(s *redisindex.Status) float64 { return float64(s.Peers) })
	gauge("queued_records", "Uses of prompts that wait to be written.",
		func(s *redisindex.Status) float64 { return float64(s.Queued) })
	gauge("restoring_backends", "Backends whose part of the index is still to be read from Redis, or written again.",
		func(s *redisindex.Status) float64 { return float64(s.Restoring) })
	counter("published_records_total", "Uses of prompts that this router had to tell.",
		func(s *redisindex.Status) uint64 { return s.Published + s.Dropped })
	counter("dropped_records_total", "Those of them that did not fit into the queue.",
		func(s *redisindex.Status) uint64 { return s.Dropped })
	counter("written_records_total", "Those of them that are written.",
		func(s *redisindex.Status) uint64 { return s.Written })
	counter("batches_total", "Round trips that wrote.",
		func(s *redisindex.Status) uint64 { return s.Batches })
	counter("commands_total", "Commands in them.",
		func(s *redisindex.Status) uint64 { return s.Commands })
	counter("abandoned_commands_total", "Commands that were given up.",
		func(s *redisindex.Status) uint64 { return s.Abandoned })
	counter("received_records_total", "Uses of prompts that other routers told and this one took in.",
		func(s *redisindex.Status) uint64 { return s.Received })
	counter("ignored_records_total", "Those that say nothing of any backend here that is not known to be gone.",
		func(s *redisindex.Status) uint64 { return s.Ignored })
	counter("peer_horizons_total", "Moves of backends' horizons that other routers told.",
		func(s *redisindex.Status) uint64 { return s.Horizons })
	counter("malformed_total", "Records and members that are none of ours.",
		func(s *redisindex.Status) uint64 { return s.Malformed })
	counter("restores_total", "Backends whose part of the index was read from Redis.",
		func(s *redisindex.Status) uint64 { return s.Restores })
	counter("restored_blocks_total", "Blocks that were read with them.",
		func(s *redisindex.Status) uint64 { return s.Restored })
	counter("stream_gaps_total", "Times that records of a stream were missed.",
		func(s *redisindex.Status) uint64 { return s.Gaps })
	counter("emptied_total", "Times that Redis was found without anything of a pool.",
		func(s *redisindex.Status) uint64 { return s.Emptied })
	counter("replaced_keys_total", "Keys of a wrong type that were removed.",
		func(s *redisindex.Status) uint64 { return s.Replaced })
	counter("trimmed_blocks_total", "Blocks that were removed because sets were full.",
		func(s *redisindex.Status) uint64 { return s.Trimmed })
	counter("removed_backends_total", "Backends that were removed because no router had them.",
		func(s *redisindex.Status) uint64 { return s.Removed })
	counter("clock_steps_total", "Times that the server's clock was found to be set, or another server's.",
		func(s *redisindex.Status) uint64 { return s.ClockSteps })
	counter("reconnects_total", "Times that all connections were made anew.",
		func(s *redisindex.Status) uint64 { return s.Renewals })
	return c
}

// Describe implements prometheus.Collector.
func (c *redisCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.sharing, c.pools, c.breaker, c.failures} {
		ch <- d
	}
	for _, n := range c.numbers {
		ch <- n.desc
	}
}

// Collect implements prometheus.Collector.
func (c *redisCollector) Collect(ch chan<- prometheus.Metric) {
	status := c.status()
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		m, err := prometheus.NewConstMetric(desc, kind, value, labels...)
		if err != nil {
			m = prometheus.NewInvalidMetric(desc, err)
		}
		ch <- m
	}
	for _, n := range c.numbers {
		send(n.desc, n.kind, n.value(&status))
	}
	for _, s := range []router.Sharing{router.Alone, router.Fresh, router.Cut} {
		send(c.sharing, prometheus.GaugeValue, truth(status.Sharing == s), s.String())
	}
	for name, s := range status.Pools {
		send(c.pools, prometheus.GaugeValue, truth(s == router.Fresh), name)
	}
	for _, s := range redisindex.BreakerStates() {
		send(c.breaker, prometheus.GaugeValue, truth(status.Breaker == s), s)
	}
	for _, kind := range redisindex.Failures() {
		send(c.failures, prometheus.CounterValue, float64(status.Failures[kind]), kind.String())
	}
}
