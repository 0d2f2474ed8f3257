package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// reloads count how often the configuration was read again.
type reloads struct {
	total *prometheus.CounterVec
	last  prometheus.GaugeFunc
	good  atomic.Bool // the last was
}

func newReloads() *reloads {
	r := &reloads{total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "config_reloads_total", Help: "Times that the configuration was read again, by whether it was taken over.",
	}, []string{"result"})}
	r.good.Store(true)
	r.last = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "config_last_reload_successful", Help: "Whether the configuration that was last read was taken over; 1 before any was read again.",
	}, func() float64 {
		if r.good.Load() {
			return 1
		}
		return 0
	})
	r.total.WithLabelValues("success")
	r.total.WithLabelValues("failure")
	return r
}

// Reloaded counts that the configuration was read again, and whether it was taken over.
func (t *Telemetry) Reloaded(taken bool) {
	t.reloads.good.Store(taken)
	if taken {
		t.reloads.total.WithLabelValues("success").Inc()
	} else {
		t.reloads.total.WithLabelValues("failure").Inc()
	}
}
