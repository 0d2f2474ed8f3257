package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute/router"
)

// poolCollector describes what a router has learned of its pools, on each scrape.
type poolCollector struct {
	router        *atomic.Pointer[router.Router]
	bytesPerToken *prometheus.Desc
}

var _ prometheus.Collector = (*poolCollector)(nil)

func newPoolCollector(r *atomic.Pointer[router.Router]) *poolCollector {
	return &poolCollector{
		router: r,
		bytesPerToken: prometheus.NewDesc(namespace+"_bytes_per_token",
			"Bytes of prompt that a token is, as answers have shown.", []string{"pool"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.bytesPerToken }

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	r := c.router.Load()
	if r == nil {
		return
	}
	for _, p := range r.Pools() {
		m, err := prometheus.NewConstMetric(c.bytesPerToken, prometheus.GaugeValue, p.BytesPerToken(), p.Name())
		if err != nil {
			m = prometheus.NewInvalidMetric(c.bytesPerToken, err)
		}
		ch <- m
	}
}
