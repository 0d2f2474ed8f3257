package router

import (
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

const (
	// growStep is the part by which a backend's bound grows when it shows that it holds more
	// than the index believes. Each step that no narrowing comes between is twice the one
	// before, growDoublings times: a bound that is far off is right after a few answers.
	growStep      = 0.10
	growDoublings = 2
	// boundLimit is how far it may grow in all, and the inverse how far it may shrink.
	boundLimit = 8.0
	// fullShare is the part of its bound that a list must have reached for the bound to
	// be what hid something.
	fullShare = 0.9
	// narrowStep is the part by which a bound shrinks at most when answers show that the
	// engine holds less than the index believes, doubled likewise, and narrowMargin the part
	// of what is left that it shrinks to. Without it a bound of 1.15 × the truth leaves 13 % of
	// the entries untrue:
	// in replay (docs/benchmarks/feedback.md) it takes precision from 0.91 to 0.98 and costs
	// no hits.
	narrowStep      = 0.05
	narrowDoublings = 1
	narrowMargin    = 0.97
	// surplusTokens and surplusShare are how much more than predicted an answer must
	// report for that: more than rounding explains.
	surplusTokens = 32
	surplusShare  = 0.10
)

// learn takes in what an outcome proves: the index is confirmed or corrected, the
// prediction's units and factors follow.
func (r *Router) learn(d *Decision, o feedback.Outcome) {
	m := d.member
	now := kvindex.Stamp(o.Now.UnixNano())
	if len(d.blocks) > 0 {
		m.land(r.index, d, o)
	}
	if o.Answered() {
		r.weigh(d, o, now)
	}
}

// weigh takes in what an answer's usage says.
func (r *Router) weigh(d *Decision, o feedback.Outcome, now kvindex.Stamp) {
	m, u := d.member, o.Usage
	reports := m.reports(d.asked.route)
	cold := d.MatchedBlocks == 0
	cached, known := reports.Read(u, cold)
	r.tellSilence(d, reports.Silent(), u.HasCached)
	if cached > 0 && m.fruitful.CompareAndSwap(false, true) || reports.Barren() && m.barren.CompareAndSwap(false, true) {
		r.hope(d.Pool, m)
	}
	if u.HasPrompt && !d.asked.noEvidence && !d.asked.binary && len(d.blocks) > 0 {
		d.Pool.units.Observe(d.asked.streamBytes, u.Prompt)
		if d.prefillKnown && (known || cold) {
			m.queue.Rate.Observe(u.Prompt-cached, d.firstAt.Sub(d.prefillSince), d.prefillSince.After(d.At))
		}
	}
	r.settle(d, u, cached, known || u.HasCached)
	if !known && !d.asked.noEvidence {
		m.mu.Lock()
		m.unreported.Predict(d.PredictedCached)
		m.mu.Unlock()
	}
	if !known || u.Nonsense || d.asked.noEvidence || len(d.blocks) == 0 {
		return
	}
	matched := d.receipt.Before * d.asked.blockBytes
	if beyond := d.asked.hashedBytes < d.asked.streamBytes; beyond && d.receipt.Before == len(d.blocks) {
		matched = d.asked.hashedBytes
		m.calibration.ObserveCut(d.asked.scope, float64(cached)/float64(max(u.Prompt, 1)))
	}
	r.widen(d, u.Prompt, cached)
	claim, ok := feedback.Evidence(feedback.Answer{
		PromptTokens: u.Prompt, Cached: cached,
		StreamBytes: d.asked.streamBytes, MatchedBytes: matched, BlockBytes: d.asked.blockBytes,
		EngineBlock: m.blockTokens(), Receipt: &d.receipt, Keys: d.blocks, Binary: d.asked.binary,
	})
	if ok {
		r.correct(d, claim, now)
	}
}

// correct lets the backend's evidence speak: the scope's factor follows, and the horizon
// moves where two witnesses say so.
func (r *Router) correct(d *Decision, claim feedback.Claim, now kvindex.Stamp) {
	m := d.member
	ruling, horizon := m.corrector.Judge(claim, now)
	if ruling == feedback.Confirmed || ruling == feedback.Void || ruling == feedback.Unproven {
		// Where eviction may explain a shortfall it says nothing against the scope.
		m.calibration.Observe(d.asked.scope, claim.Ratio())
	}
	r.hooks.judged(d, claim, ruling)
	r.hope(d.Pool, m)
	if ruling.Moved() {
		gone := m.forget(r.index, horizon, now, 0)
		r.hooks.horizonMoved(d.Pool, m.backend, ruling.String(), gone)
	}
	if ruling == feedback.ShortfallMoved {
		r.narrow(m)
	}
}

// hope tells when a backend turns out to confirm nothing, or does after all: because its
// answers say so, or its engine says that prefix caching is off.
func (r *Router) hope(p *Pool, m *member) {
	barren := m.barren.Load() && !m.fruitful.Load()
	hopeless := m.corrector.Hopeless() || m.cachingOff.Load() || barren
	if m.hopeless.Swap(hopeless) != hopeless {
		r.hooks.hopeless(p, m.backend, hopeless)
	}
}

// settle explains where the prompt's tokens went.
func (r *Router) settle(d *Decision, u feedback.Usage, cached int, reported bool) {
	prompt := d.PromptTokens
	if u.HasPrompt {
		prompt = u.Prompt
	}
	r.hooks.accounted(d, feedback.Settle(prompt, d.AvailableCached, d.CapturedCached, d.PredictedCached, cached, reported, d.Reason.IsOverflow()))
}

// widen lets a backend's bound grow when the engine reports clearly more than the index
// knew although its list is full: the engine holds more than was believed.
func (r *Router) widen(d *Decision, prompt, cached int) {
	m := d.member
	perToken := float64(d.asked.streamBytes) / float64(max(prompt, 1))
	believed := feedback.NewPredictor(perToken, m.blockTokens()).Cached(d.receipt.Before*d.asked.blockBytes, prompt)
	if cached-believed < max(surplusTokens, int(surplusShare*float64(prompt))) {
		return
	}
	stats := r.index.Stats(m.holder)
	if stats.Evicted == 0 || float64(stats.Blocks) < fullShare*float64(stats.Capacity) {
		return // nothing is being pushed out: the bound is not what hid it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return
	}
	if m.capacity == 0 {
		m.capacity = stats.Capacity
	}
	m.surplus = min(m.surplus*(1+doubled(growStep, m.grown, growDoublings)), boundLimit)
	m.grown, m.narrowed = m.grown+1, 0
	r.index.SetCapacity(m.holder, int(float64(m.capacity)*m.surplus))
}

// narrow lets a backend's bound shrink when two witnesses have shown that the engine has
// evicted what the index still believed: it holds no more than what is left.
func (r *Router) narrow(m *member) {
	stats := r.index.Stats(m.holder)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return
	}
	if m.capacity == 0 {
		m.capacity = stats.Capacity
	}
	left := narrowMargin * float64(stats.Blocks) / float64(m.capacity)
	m.surplus = min(m.surplus, max(left, m.surplus*(1-doubled(narrowStep, m.narrowed, narrowDoublings)), 1.0/boundLimit))
	m.grown, m.narrowed = 0, m.narrowed+1
	r.index.SetCapacity(m.holder, int(float64(m.capacity)*m.surplus))
}

// doubled is a step after so many before it in the same direction.
func doubled(step float64, before, doublings int) float64 {
	return step * float64(int(1)<<min(before, doublings))
}

// tellSilence says when a backend turns out to report no cached tokens, and when it does
// after all.
func (r *Router) tellSilence(d *Decision, silent, spoke bool) {
	m := d.member
	m.mu.Lock()
	before := m.silent
	m.silent = (before || silent) && !spoke
	changed := m.silent != before
	m.mu.Unlock()
	if changed {
		r.hooks.silent(d.Pool, m.backend, !before)
	}
}
