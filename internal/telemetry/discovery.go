package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute/backends/discovery"
)

// PoolSources is how asking the sources of one pool goes.
type PoolSources struct {
	Pool    string
	Sources []discovery.Status
}

// ReadDiscovery adds the metrics of finding backends.
func (t *Telemetry) ReadDiscovery(sources func() []PoolSources) error {
	return t.registry.Register(newDiscoveryCollector(sources))
}

// discoveryCollector describes how finding backends goes on each scrape.
type discoveryCollector struct {
	sources                   func() []PoolSources
	up, backends, age, errors *prometheus.Desc
}

var _ prometheus.Collector = (*discoveryCollector)(nil)

func newDiscoveryCollector(sources func() []PoolSources) *discoveryCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_discovery_"+name, help, []string{"pool", "source"}, nil)
	}
	return &discoveryCollector{
		sources:  sources,
		up:       desc("up", "1 when the source's last answer was good, and whole."),
		backends: desc("backends", "Backends that its last good answer named."),
		age:      desc("age_seconds", "Time since its last good answer."),
		errors:   desc("errors_total", "Answers of it that were none, or not whole."),
	}
}

// Describe implements prometheus.Collector.
func (c *discoveryCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.up, c.backends, c.age, c.errors} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *discoveryCollector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for _, p := range c.sources() {
		for _, s := range p.Sources {
			send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64) {
				m, err := prometheus.NewConstMetric(desc, kind, value, p.Pool, s.Source)
				if err != nil {
					m = prometheus.NewInvalidMetric(desc, err)
				}
				ch <- m
			}
			send(c.up, prometheus.GaugeValue, truth(s.Err == nil && !s.Last.IsZero()))
			send(c.backends, prometheus.GaugeValue, float64(s.Backends))
			send(c.errors, prometheus.CounterValue, float64(s.Errors))
			if !s.Last.IsZero() {
				send(c.age, prometheus.GaugeValue, max(now.Sub(s.Last), 0).Seconds())
			}
		}
	}
}
