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
	refused       *prometheus.Desc
}

var _ prometheus.Collector = (*poolCollector)(nil)

func newPoolCollector(r *atomic.Pointer[router.Router]) *poolCollector {
	return &poolCollector{
		router: r,
		bytesPerToken: prometheus.NewDesc(namespace+"_bytes_per_token",
			"Bytes of prompt that a token is, as answers have shown.", []string{"pool"}, nil),
		waiting: prometheus.NewDesc(namespace+"_waiting_requests",
			"Requests that wait for a slot now.", []string{"pool"}, nil),
		refused: prometheus.NewDesc(namespace+"_queue_refused_requests_total",
			"Requests that got no place to wait for a slot, by what was full.", []string{"pool", "full"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.bytesPerToken
	ch <- c.waiting
	ch <- c.refused
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	r := c.router.Load()
	if r == nil {
		return
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		m, err := prometheus.NewConstMetric(d, kind, value, labels...)
		if err != nil {
			m = prometheus.NewInvalidMetric(d, err)
		}
		ch <- m
	}
	for _, p := range r.Pools() {
		send(c.bytesPerToken, prometheus.GaugeValue, p.BytesPerToken(), p.Name())
		send(c.waiting, prometheus.GaugeValue, float64(p.Waiting()), p.Name())
		line, share := p.Refused()
		send(c.refused, prometheus.CounterValue, float64(line), p.Name(), "queue")
		send(c.refused, prometheus.CounterValue, float64(share), p.Name(), "share")
	}
}
