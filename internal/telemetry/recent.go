package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute/feedback/recent"
)

// recentCollector says on each scrape how much is remembered of the requests that ended last.
type recentCollector struct {
	store                    *recent.Store
	requests, bytes, leftOut *prometheus.Desc
}

var _ prometheus.Collector = (*recentCollector)(nil)

func newRecentCollector(s *recent.Store) *recentCollector {
	return &recentCollector{
		store: s,
		requests: prometheus.NewDesc(namespace+"_recent_requests",
			"Requests that are remembered for advice now.", nil, nil),
		bytes: prometheus.NewDesc(namespace+"_recent_requests_bytes",
			"Bytes of memory in which requests are remembered for advice.", nil, nil),
		leftOut: prometheus.NewDesc(namespace+"_recent_requests_left_out_total",
			"Requests that were too large to be remembered for advice.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *recentCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.requests
	ch <- c.bytes
	ch <- c.leftOut
}

// Collect implements prometheus.Collector.
func (c *recentCollector) Collect(ch chan<- prometheus.Metric) {
	stats := c.store.Stats()
	for _, one := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value int
	}{
		{c.requests, prometheus.GaugeValue, stats.Requests},
		{c.bytes, prometheus.GaugeValue, stats.Bytes},
		{c.leftOut, prometheus.CounterValue, stats.LeftOut},
	} {
		m, err := prometheus.NewConstMetric(one.desc, one.kind, float64(one.value))
		if err != nil {
			m = prometheus.NewInvalidMetric(one.desc, err)
		}
		ch <- m
	}
}
