package telemetry

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// Why prompt tokens were not delivered from a cache.
const (
	lostNoReuse    = "no_reuse"
	lostOverflow   = "overflow"
	lostLoadChoice = "load_choice"
	lostStaleIndex = "stale_index"
	lostUnreported = "unreported"
)

// tokenVecs are the accounting of a pool, in tokens. The same counts of a single
// backend are in backendCounts.
type tokenVecs struct {
	prompt, available, captured, predicted *prometheus.CounterVec
	reported, delivered, completion        *prometheus.CounterVec
	undelivered                            *prometheus.CounterVec // pool, cause
}

func newTokenVecs(counter func(name, help string, labels ...string) *prometheus.CounterVec) tokenVecs {
	return tokenVecs{
		prompt:      counter("prompt_tokens_total", "Prompt tokens of answered requests: as reported, else estimated.", "pool"),
		available:   counter("available_cached_tokens_total", "Tokens thought cached on the best eligible backend.", "pool"),
		captured:    counter("captured_cached_tokens_total", "Tokens thought cached on the chosen backend.", "pool"),
		predicted:   counter("predicted_cached_tokens_total", "Tokens predicted cached, after calibration.", "pool"),
		reported:    counter("reported_prompt_tokens_total", "Prompt tokens of the answers that reported cached tokens.", "pool"),
		delivered:   counter("delivered_cached_tokens_total", "Cached tokens that engines reported.", "pool"),
		completion:  counter("completion_tokens_total", "Generated tokens that engines reported.", "pool"),
		undelivered: counter("undelivered_tokens_total", "Prompt tokens that did not come out of a cache, by cause.", "pool", "cause"),
	}
}

func (v tokenVecs) prepare(pool string) {
	for _, vec := range []*prometheus.CounterVec{v.prompt, v.available, v.captured, v.predicted, v.reported, v.delivered, v.completion} {
		vec.WithLabelValues(pool)
	}
	for _, cause := range []string{lostNoReuse, lostOverflow, lostLoadChoice, lostStaleIndex, lostUnreported} {
		v.undelivered.WithLabelValues(pool, cause)
	}
}

// accounted takes in where an answered prompt's tokens went.
func (t *Telemetry) accounted(d *router.Decision, a feedback.Account) {
	pool, v := d.Pool.Name(), t.metrics.tokens
	t.hits.add(pool, d.Backend.ID, a)
	v.prompt.WithLabelValues(pool).Add(float64(count(a.Prompt)))
	v.available.WithLabelValues(pool).Add(float64(count(a.Available)))
	v.captured.WithLabelValues(pool).Add(float64(count(a.Captured)))
	v.predicted.WithLabelValues(pool).Add(float64(count(a.Predicted)))
	v.undelivered.WithLabelValues(pool, lostNoReuse).Add(float64(count(a.NoReuse)))
	v.undelivered.WithLabelValues(pool, lostOverflow).Add(float64(count(a.Overflow)))
	v.undelivered.WithLabelValues(pool, lostLoadChoice).Add(float64(count(a.LoadChoice)))
	v.undelivered.WithLabelValues(pool, lostStaleIndex).Add(float64(count(a.StaleIndex)))
	v.undelivered.WithLabelValues(pool, lostUnreported).Add(float64(count(a.Unreported)))
	of := t.backends.counts(pool, d.Backend.ID)
	of.calibration.observe(a.Captured, a.Predicted)
	c := &of.tokens
	c.prompt.Add(count(a.Prompt))
	c.available.Add(count(a.Available))
	c.captured.Add(count(a.Captured))
	c.predicted.Add(count(a.Predicted))
	if a.Reported {
		v.reported.WithLabelValues(pool).Add(float64(count(a.Prompt)))
		v.delivered.WithLabelValues(pool).Add(float64(count(a.Delivered)))
		c.reported.Add(count(a.Prompt))
		c.delivered.Add(count(a.Delivered))
		if a.Prompt > 0 && (a.Predicted > 0 || a.Delivered > 0) {
			t.metrics.prediction.WithLabelValues(pool).Observe(float64(a.Delivered-a.Predicted) / float64(a.Prompt))
		}
	}
}

// completed takes in what an engine generated.
func (t *Telemetry) completed(d *router.Decision, o feedback.Outcome) {
	if !o.Answered() || !o.Usage.HasCompletion {
		return
	}
	pool, tokens := d.Pool.Name(), count(o.Usage.Completion)
	t.metrics.tokens.completion.WithLabelValues(pool).Add(float64(tokens))
	t.backends.counts(pool, d.Backend.ID).tokens.completion.Add(tokens)
}

// judged counts what was made of a piece of evidence.
func (t *Telemetry) judged(d *router.Decision, _ feedback.Claim, ruling feedback.Ruling) {
	t.metrics.evidence.WithLabelValues(d.Pool.Name(), ruling.String()).Inc()
}

// horizonMoved counts and logs that a backend turned out to hold less.
func (t *Telemetry) horizonMoved(p *router.Pool, b *backends.Backend, cause string, forgotten int) {
	t.metrics.horizonMoves.WithLabelValues(p.Name(), cause).Inc()
	t.metrics.forgotten.WithLabelValues(p.Name(), cause).Add(float64(count(forgotten)))
	t.logger.Info("backend has lost cached prefixes",
		slog.String("pool", p.Name()), slog.String("backend", b.ID),
		slog.String("cause", cause), slog.Int("forgotten_blocks", forgotten))
}

// hopeless notes that a backend never confirms a hit, or does after all.
func (t *Telemetry) hopeless(p *router.Pool, b *backends.Backend, hopeless bool) {
	t.backends.counts(p.Name(), b.ID).hopeless.Store(hopeless)
	where := []any{slog.String("pool", p.Name()), slog.String("backend", b.ID)}
	if !hopeless {
		t.logger.Info("backend has confirmed a hit after all", where...)
		return
	}
	t.logger.Warn("backend has never confirmed a hit: prefix caching is off, the model has none, or several engines answer behind this URL (data_parallel_ranks)", where...)
}

// silent tells that a backend does not report cached tokens, or does after all.
func (t *Telemetry) silent(p *router.Pool, b *backends.Backend, silent bool) {
	if !silent {
		t.logger.Info("backend reports cached tokens after all", slog.String("pool", p.Name()), slog.String("backend", b.ID))
		return
	}
	t.logger.Warn("backend does not report cached tokens, so predictions cannot be checked: start vLLM with --enable-prompt-tokens-details",
		slog.String("pool", p.Name()), slog.String("backend", b.ID))
}
