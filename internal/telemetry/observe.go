package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/router"
)

// accessMessage is the message of every access record.
const accessMessage = "request"

// decided counts a decision.
func (t *Telemetry) decided(d *router.Decision) {
	pool := d.Pool.Name()
	t.metrics.decisions.WithLabelValues(pool, d.Strategy, d.Reason.String()).Inc()
	if d.Reason.IsOverflow() {
		t.metrics.overflow.WithLabelValues(pool).Inc()
	}
	t.backends.counts(pool, d.Backend.ID).decisions.Add(1)
}

// ejected counts and logs that failures took a backend out.
func (t *Telemetry) ejected(p *router.Pool, b *backends.Backend, until time.Time) {
	t.backends.counts(p.Name(), b.ID).ejections.Add(1)
	t.logger.Warn("backend ejected",
		slog.String("pool", p.Name()),
		slog.String("backend", b.ID),
		slog.Time("until", until))
}

// returned logs that a backend has answered after an ejection.
func (t *Telemetry) returned(p *router.Pool, b *backends.Backend) {
	t.logger.Info("backend is back", slog.String("pool", p.Name()), slog.String("backend", b.ID))
}

// Observe takes in the access record of a request: it is counted, logged and
// remembered. The record may be used again afterwards.
func (t *Telemetry) Observe(r *feedback.Record) {
	t.measure(r)
	t.ring.add(r)
	t.followers.tell(r)
	if t.requests != nil {
		t.requests.observe(r)
	}
	t.remember(r)
	level := slog.LevelInfo
	if r.Status >= 500 || r.Result == feedback.RouterError || r.Result == feedback.UpstreamAborted {
		level = slog.LevelWarn
	}
	if ctx := context.Background(); t.logger.Enabled(ctx, level) {
		t.logger.LogAttrs(ctx, level, accessMessage, t.attributes(r)...)
	}
}

// remember takes a request into the memory that advice rests on.
func (t *Telemetry) remember(r *feedback.Record) {
	if t.lately == nil {
		return
	}
	if q, ok := recent.Of(r); ok {
		t.lately.Add(&q)
	}
}

func (t *Telemetry) measure(r *feedback.Record) {
	m := t.metrics
	pool, dialect := t.poolLabel(r.Pool), r.Dialect
	if !t.dialects[dialect] {
		dialect = other
	}
	m.requests.WithLabelValues(pool, dialect, r.Result.String()).Inc()
	m.duration.WithLabelValues(pool).Observe(r.Duration.Seconds())
	m.requestBytes.WithLabelValues(pool).Add(float64(count(int(r.RequestBytes))))
	m.responseBytes.WithLabelValues(pool).Add(float64(count(int(r.ResponseBytes))))
	if pool == none {
		return
	}
	m.modelRequests.WithLabelValues(pool, t.modelLabel(r.Model)).Inc()
	if r.Streamed && r.TTFT > 0 { // else it is the time of the whole answer
		m.ttft.WithLabelValues(pool, hitClass(r)).Observe(r.TTFT.Seconds())
	}
	m.attempts.WithLabelValues(pool).Add(float64(count(r.Attempts)))
	m.retries.WithLabelValues(pool).Add(float64(count(r.Attempts - 1)))
	if !r.HasPrefix && r.DecisionID != "" {
		m.withoutPrefix.WithLabelValues(pool).Inc()
	}
	switch r.Result {
	case feedback.Success:
		m.usage.WithLabelValues(pool, usageKind(r.Usage)).Inc()
	case feedback.UpstreamAborted:
		m.aborted.WithLabelValues(pool).Inc()
	}
}

// poolLabel folds names that are no pool's.
func (t *Telemetry) poolLabel(name string) string {
	if r := t.router.Load(); r == nil || r.Find(name) == nil {
		return none
	}
	return name
}

// modelLabel folds names that no pool serves.
func (t *Telemetry) modelLabel(name string) string {
	r := t.router.Load()
	if r == nil || name == "" {
		return other
	}
	if !r.Serves(name) {
		return other
	}
	return name
}

// attributes are a record as it is logged. What does not apply is left out.
func (t *Telemetry) attributes(r *feedback.Record) []slog.Attr {
	a := make([]slog.Attr, 0, 32)
	text := func(key, value string) {
		if value != "" {
			a = append(a, slog.String(key, value))
		}
	}
	text("request_id", r.RequestID)
	text("trace_id", r.TraceID)
	text("method", r.Method)
	text("route", r.Route)
	text("dialect", r.Dialect)
	a = append(a, slog.Int("status", r.Status), slog.String("result", r.Result.String()))
	text("error", r.Err)
	a = append(a,
		slog.Duration("duration", r.Duration),
		slog.Bool("stream", r.Streamed),
		slog.Int64("request_bytes", r.RequestBytes),
		slog.Int64("response_bytes", r.ResponseBytes))
	if r.TTFT > 0 {
		a = append(a, slog.Duration("ttft", r.TTFT))
	}
	text("pool", r.Pool)
	text("model", r.Model)
	if r.DecisionID != "" {
		a = append(a,
			slog.String("backend", r.Backend),
			slog.String("reason", r.Reason),
			slog.String("strategy", r.Strategy),
			slog.String("decision_id", r.DecisionID),
			slog.Bool("overflow", r.Overflow),
			slog.Int("attempts", r.Attempts),
			slog.Int("in_flight", r.InFlight),
			slog.Int("matched_blocks", r.MatchedBlocks),
			slog.Int("prompt_blocks", r.PromptBlocks),
			slog.Int("estimated_prompt_tokens", r.PromptTokens),
			slog.Int("predicted_cached_tokens", r.PredictedCached),
			slog.Int("available_cached_tokens", r.AvailableCached))
		if t.logger.Enabled(context.Background(), slog.LevelDebug) {
			text("why", r.Why)
		}
	}
	if r.Usage.HasPrompt {
		a = append(a, slog.Int("prompt_tokens", r.Usage.Prompt))
	}
	if r.Usage.HasCached {
		a = append(a, slog.Int("cached_tokens", r.Usage.Cached))
	}
	if r.Usage.HasCompletion {
		a = append(a, slog.Int("completion_tokens", r.Usage.Completion))
	}
	return a
}
