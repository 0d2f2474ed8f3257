package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute/router"
)

// poolCollector describes the pools of a router on each scrape.
type poolCollector struct {
	router        *atomic.Pointer[router.Router]
	bytesPerToken *prometheus.Desc
	waiting       *prometheus.Desc
}

var _ prometheus.Collector = (*poolCollector)(nil)

func newPoolCollector(r *atomic.Pointer[router.Router]) *poolCollector {
	return &poolCollector{
		router: r,
		bytesPerToken: prometheus.NewDesc(namespace+"_bytes_per_token",
			"Bytes of prompt that a token is, as answers have shown.", []string{"pool"}, nil),
		waiting: prometheus.NewDesc(namespace+"_waiting_requests",
			"Requests that wait for a slot now.", []string{"pool"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.bytesPerToken
	ch <- c.waiting
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	r := c.router.Load()
	if r == nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, pool string) {
		m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, pool)
		if err != nil {
			m = prometheus.NewInvalidMetric(d, err)
		}
		ch <- m
	}
	for _, p := range r.Pools() {
		gauge(c.bytesPerToken, p.BytesPerToken(), p.Name())
		gauge(c.waiting, float64(p.Waiting()), p.Name())
	}
}
