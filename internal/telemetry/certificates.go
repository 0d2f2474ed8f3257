package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificates count what becomes of a port's certificates.
type Certificates struct {
	reloads *prometheus.CounterVec // result
	good    atomic.Bool            // the last was
}

// ReadCertificates adds the metrics of the certificates of a port, of which notAfter says
// how long they are valid.
func (t *Telemetry) ReadCertificates(port string, notAfter func() time.Time) (*Certificates, error) {
	labels := prometheus.Labels{"port": port}
	c := &Certificates{reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "tls_reloads_total", ConstLabels: labels,
		Help: "Times that a port's certificates were read again, by whether they were taken over.",
	}, []string{"result"})}
	c.good.Store(true)
	c.reloads.WithLabelValues("success")
	c.reloads.WithLabelValues("failure")
	for _, one := range []prometheus.Collector{
		c.reloads,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Name: "tls_last_reload_successful", ConstLabels: labels,
			Help: "Whether a port's certificates that were last read were taken over; 1 before any were read again.",
		}, func() float64 { return truth(c.good.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Name: "tls_certificate_not_after_timestamp_seconds", ConstLabels: labels,
			Help: "Unix time at which the first of the certificates that a port shows expires.",
		}, func() float64 { return float64(notAfter().Unix()) }),
	} {
		if err := t.registry.Register(one); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Reloaded counts that the certificates were read again, and whether they were taken over.
func (c *Certificates) Reloaded(taken bool) {
	c.good.Store(taken)
	if taken {
		c.reloads.WithLabelValues("success").Inc()
	} else {
		c.reloads.WithLabelValues("failure").Inc()
	}
}
