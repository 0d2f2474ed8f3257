package advice

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/replay"
)

// What an engine is taken for where it has not shown what it is.
const (
	assumedCapacity    = 1_000_000 // tokens
	assumedPrefillRate = 10_000    // tokens a second
)

const (
	// minSamples is the fewest requests that show how fast an engine is.
	minSamples = 20
	// fastest and slowest bound the time of a step that does next to nothing.
	fastestStep = 2 * time.Millisecond
	slowestStep = 200 * time.Millisecond
	// minOutput is the shortest answer whose tokens say how long a step takes, in tokens,
	// minPrefill the shortest prompt, less what was cached, whose first token says how fast
	// prefill is.
	minOutput  = 16
	minPrefill = 1024
	// longestOverhead bounds what every request takes beside the model.
	longestOverhead = 2 * time.Second
)

// step is how long a step takes that does next to nothing, in seconds, as far as requests show it: what
// one does for a tenth of all answers at most. Where engines always have much to do it is shorter;
// see [making.fit]. 0 is that nothing is shown.
func (p *Pool) step(w *Window) float64 {
	step, _ := w.quantile(.1, stepTime)
	return step
}

// engine is the modelled engine that is like those of the pool: its size and rate as the
// router has learned them, a step of so many seconds (0: as of any engine), the rest as the
// requests show it. A request takes what it does beside that and its prefill for a twentieth of all.
func (p *Pool) engine(w *Window, step float64) enginesim.Config {
	profile := replay.ReferenceProfile(p.capacity())
	if step > 0 {
		step = min(max(step, fastestStep.Seconds()), slowestStep.Seconds())
		scale := step / profile.StepFloor.Seconds()
		profile.StepFloor = seconds(step)
		profile.PerSequence *= scale
		profile.PerContextToken *= scale
	}
	rate := p.rate(w)
	// The rate is what whole prompts show, the steps that they took included.
	perToken := 1/rate - profile.StepFloor.Seconds()/float64(profile.MaxBatchedTokens)
	perToken = max(perToken, leastCompute/rate)
	profile.PrefillPerToken = perToken * float64(time.Second)
	if rest, ok := w.quantile(.05, func(r *recent.Prompt) (float64, bool) { return overhead(r, rate) }); ok {
		rest -= overheadSteps * profile.StepFloor.Seconds()
		profile.RequestOverhead = min(max(seconds(rest), 0), longestOverhead)
	}
	return enginesim.Config{Profile: profile, BlockSize: p.BlockTokens}
}

const (
	// leastCompute is the least part of a prefill's time that is not the floor of its steps.
	leastCompute = 0.1
	// overheadSteps is how many steps an answer takes until its first token on an engine that
	// has little to do: its own, and half of the one that it finds there.
	overheadSteps = 1.5
)

// capacity is how many tokens an engine's cache holds.
func (p *Pool) capacity() int {
	if p.CapacityTokens > 0 {
		return p.CapacityTokens
	}
	return assumedCapacity
}

// rate is how many tokens a second an engine prefills: as learned, else as the fastest tenth of
// the longer prompts shows, before which nothing waited.
func (p *Pool) rate(w *Window) float64 {
	if p.PrefillRate > 0 {
		return p.PrefillRate
	}
	if rate, ok := w.quantile(.9, prefillRate); ok {
		return rate
	}
	return assumedPrefillRate
}

// bytesPerToken is what prompts of unknown length are reckoned at.
func (p *Pool) bytesPerToken(w *Window) float64 {
	bytes, tokens := 0, 0
	for i := range w.requests.Requests {
		if r := &w.requests.Requests[i]; r.PromptTokens > 0 && r.StreamBytes > 0 {
			bytes += int(r.StreamBytes)
			tokens += r.PromptTokens
		}
	}
	switch {
	case tokens > 0:
		return float64(bytes) / float64(tokens)
	case p.BytesPerToken > 0:
		return p.BytesPerToken
	}
	return feedback.DefaultBytesPerToken
}

// stepTime is how long a token of an answer took, in seconds.
func stepTime(r *recent.Prompt) (float64, bool) {
	took, ok := perToken(r.Duration, r.TTFT, r.OutputTokens)
	return took, ok && r.Result == feedback.Success
}

// perToken is how long a token took, in seconds, of an answer that lasted so long from its request on; ok
// is false where that says nothing of a step.
func perToken(lasted, ttft time.Duration, output int) (took float64, ok bool) {
	return (lasted - ttft).Seconds() / float64(max(output-1, 1)), ttft > 0 && output >= minOutput && lasted > ttft
}

// uncached is what of a prompt was computed, in tokens; ok is false where that is not known.
func uncached(r *recent.Prompt) (tokens int, ok bool) {
	return r.PromptTokens - r.CachedTokens, r.TTFT > 0 && r.PromptTokens > 0 && r.CachedTokens != recent.Unknown
}

// prefillRate is how many tokens were computed in a second until the first token.
func prefillRate(r *recent.Prompt) (float64, bool) {
	tokens, ok := uncached(r)
	return float64(tokens) / max(r.TTFT.Seconds(), 1e-6), ok && tokens >= minPrefill
}

// overhead is what the first token took beside prefill at a rate, in seconds.
func overhead(r *recent.Prompt, rate float64) (float64, bool) {
	tokens, ok := uncached(r)
	return r.TTFT.Seconds() - float64(tokens)/rate, ok
}

// quantile is a quantile of what the requests show; ok is false where too few do.
func (w *Window) quantile(q float64, show func(*recent.Prompt) (float64, bool)) (value float64, ok bool) {
	var all []float64
	for i := range w.requests.Requests {
		if v, ok := show(&w.requests.Requests[i]); ok {
			all = append(all, v)
		}
	}
	if len(all) < minSamples {
		return 0, false
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)], true
}
