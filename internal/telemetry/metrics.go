package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// namespace is the prefix of every metric.
const namespace = "warmroute"

// Label values for what does not apply and for what is not known.
const (
	none  = "none"
	other = "other"
)

// The classes of predicted hits, for the time to first token: what a request was
// expected to find cached explains most of it.
const (
	hitNone = "none" // nothing
	hitSome = "some" // less than half of the prompt
	hitMost = "most" // half of it or more
)

// The kinds of usage reports.
const (
	usageReported = "reported"
	usageNull     = "null"
	usageAbsent   = "absent"
	usageNonsense = "nonsense"
)

var (
	durationBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280}
	ttftBuckets     = []float64{.005, .01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	// Below 0 the engine found less than predicted, above it more.
	errorBuckets = []float64{-.9, -.75, -.5, -.25, -.1, -.05, -.02, .02, .05, .1, .25, .5, .75, .9}
)

// metrics are what requests and decisions are counted in. Those of single backends
// are in backendCollector.
type metrics struct {
	requests      *prometheus.CounterVec // pool, dialect, result
	modelRequests *prometheus.CounterVec // pool, model
	duration      *prometheus.HistogramVec
	ttft          *prometheus.HistogramVec
	requestBytes  *prometheus.CounterVec
	responseBytes *prometheus.CounterVec
	decisions     *prometheus.CounterVec // pool, strategy, reason
	overflow      *prometheus.CounterVec
	attempts      *prometheus.CounterVec
	retries       *prometheus.CounterVec
	withoutPrefix *prometheus.CounterVec
	usage         *prometheus.CounterVec // pool, kind
	aborted       *prometheus.CounterVec
	evidence      *prometheus.CounterVec // pool, ruling
	horizonMoves  *prometheus.CounterVec // pool, cause
	forgotten     *prometheus.CounterVec // pool, cause
	tuningSteps   *prometheus.CounterVec // pool, setting, fate
	prediction    *prometheus.HistogramVec
	tokens        tokenVecs
	buildInfo     *prometheus.GaugeVec
	// requestLogDropped counts requests that the request log lacks.
	requestLogDropped prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	var errs []error
	register := func(c prometheus.Collector) { errs = append(errs, reg.Register(c)) }
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
		register(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
		register(v)
		return v
	}
	m := &metrics{
		requests:      counter("requests_total", "Requests by how they ended.", "pool", "dialect", "result"),
		modelRequests: counter("model_requests_total", "Requests by model, as clients name it.", "pool", "model"),
		duration:      histogram("request_duration_seconds", "Time from a request's arrival to the end of its answer.", durationBuckets, "pool"),
		ttft:          histogram("ttft_seconds", "Time from a streamed request's arrival to the first data of its answer, by the part of the prompt that was predicted cached.", ttftBuckets, "pool", "hit"),
		requestBytes:  counter("request_bytes_total", "Bytes of request bodies as clients sent them.", "pool"),
		responseBytes: counter("response_bytes_total", "Bytes of answer bodies as clients got them.", "pool"),
		decisions:     counter("decisions_total", "Routing decisions by their reason.", "pool", "strategy", "reason"),
		overflow:      counter("overflow_total", "Decisions for another backend because a better one was full.", "pool"),
		attempts:      counter("attempts_total", "Attempts on backends.", "pool"),
		retries:       counter("retries_total", "Attempts after a request's first.", "pool"),
		withoutPrefix: counter("requests_without_prefix_total", "Requests without a usable prefix, placed by load.", "pool"),
		usage:         counter("usage_reports_total", "Whole answers by what they reported of cached tokens.", "pool", "kind"),
		aborted:       counter("streams_aborted_total", "Answers that broke off after their first byte.", "pool"),
		evidence:      counter("evidence_total", "Answers that confirmed or contradicted a prediction, by what was made of it.", "pool", "ruling"),
		horizonMoves:  counter("horizon_moves_total", "Times that what a backend was thought to hold was forgotten up to a moment, by cause.", "pool", "cause"),
		forgotten:     counter("forgotten_blocks_total", "Blocks forgotten that way.", "pool", "cause"),
		tuningSteps:   counter("tuning_steps_total", "Steps of automatic mode by what became of them.", "pool", "setting", "fate"),
		prediction:    histogram("prediction_error_ratio", "Cached tokens reported less those predicted, as a part of the prompt, where either was above 0.", errorBuckets, "pool"),
		tokens:        newTokenVecs(counter),
		buildInfo: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "build_info", Help: "Always 1; the labels say what runs.",
		}, []string{"version", "go_version"}),
		requestLogDropped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "request_log_dropped_total", Help: "Requests that the request log lacks because it could not be written fast enough, or at all.",
		}),
	}
	register(m.buildInfo)
	register(m.requestLogDropped)
	return m, errors.Join(errs...)
}

// prepare makes the series of a pool, so that they are there before anything
// happened.
func (m *metrics) prepare(pool, strategy string, dialects []string) {
	for _, dialect := range dialects {
		for _, result := range feedback.Results() {
			m.requests.WithLabelValues(pool, dialect, result.String())
		}
	}
	m.duration.WithLabelValues(pool)
	m.requestBytes.WithLabelValues(pool)
	m.responseBytes.WithLabelValues(pool)
	if pool == none {
		return
	}
	for _, hit := range []string{hitNone, hitSome, hitMost} {
		m.ttft.WithLabelValues(pool, hit)
	}
	for _, reason := range router.Reasons() {
		m.decisions.WithLabelValues(pool, strategy, reason.String())
	}
	for _, kind := range []string{usageReported, usageNull, usageAbsent, usageNonsense} {
		m.usage.WithLabelValues(pool, kind)
	}
	for _, v := range []*prometheus.CounterVec{m.overflow, m.attempts, m.retries, m.withoutPrefix, m.aborted} {
		v.WithLabelValues(pool)
	}
	m.modelRequests.WithLabelValues(pool, other)
	for _, ruling := range feedback.Rulings() {
		m.evidence.WithLabelValues(pool, ruling.String())
	}
	for _, cause := range router.Causes() {
		m.horizonMoves.WithLabelValues(pool, cause)
		m.forgotten.WithLabelValues(pool, cause)
	}
	m.prediction.WithLabelValues(pool)
	m.tokens.prepare(pool)
}

// count keeps a counter from going backwards whatever an engine says.
func count(n int) uint64 { return uint64(max(n, 0)) }

// hitClass says how much of a prompt was predicted cached.
func hitClass(r *feedback.Record) string {
	switch {
	case r.PredictedCached <= 0:
		return hitNone
	case 2*r.PredictedCached < r.PromptTokens:
		return hitSome
	}
	return hitMost
}

// usageKind says what an answer reported of cached tokens.
func usageKind(u feedback.Usage) string {
	switch {
	case u.Nonsense:
		return usageNonsense
	case u.HasCached:
		return usageReported
	case u.CachedNull:
		return usageNull
	}
	return usageAbsent
}
