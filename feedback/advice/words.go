package advice

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// reason says why a value is advised, or none.
func (c *curve) reason(verdict Verdict, present, preferred Value) string {
	switch {
	case verdict == Flat:
		return "no value that was tried makes a difference worth a change"
	case verdict == Keep && c.knob == PrefixLength && preferred.compare(present) < 0:
		return fmt.Sprintf("%s does as well as any; %s, the smallest that does, would only keep the index smaller", present, preferred)
	case verdict == Keep:
		return fmt.Sprintf("%s does as well as any", present)
	case verdict == Unsure:
		return "another value looks better, but the interval says that these requests do not prove it"
	case c.knob == PrefixLength:
		return fmt.Sprintf("%s is the smallest that does about as well as any; with %s, %s", preferred, present, c.loss(present, preferred))
	}
	return fmt.Sprintf("%s has the lowest P90 of those with about the best hit rate; with %s, %s", preferred, present, c.loss(present, preferred))
}

// loss says what a value costs against another one.
func (c *curve) loss(v, than Value) string {
	a, b := c.outcome(v), c.outcome(than)
	return fmt.Sprintf("the hit rate is %.1f %% instead of %.1f %%, and P90 %s instead of %s", 100*a.HitRate, 100*b.HitRate, brief(a.P90), brief(b.P90))
}

// brief is a duration to three digits.
func brief(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 100*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}

const (
	// misjudgedHits and misjudgedP90 are how far the model may be off the present truth, in
	// hit rate and as a factor, before it is not to be trusted.
	misjudgedHits = 0.05
	misjudgedP90  = 1.5
	// unsteadyHits is how wide the interval of the present hit rate is where that is worth a word.
	unsteadyHits = 0.1
	// mostReckoned is the part of prompts of unknown length that is worth a word, and
	// leastReported that of the answers which report cached tokens.
	mostReckoned  = 0.2
	leastReported = 0.5
)

// cautions are what would make the advice wrong.
func (m *making) cautions() []string {
	var all []string
	caution := func(when bool, format string, args ...any) {
		if when {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	e, p, now := &m.advice.Evidence, m.pool, m.advice.Now
	caution(true, "It is advice for traffic like that of these %v. If other hours differ, ask again then.", e.To.Sub(e.From).Round(time.Second))
	caution(true, "Requests are replayed at the times at which they came: a fleet that answers sooner or later gets the next turns of conversations sooner or later, which is not modelled.")
	caution(m.advice.Advised.ConcurrencyThreshold < p.Config.ConcurrencyThreshold, "A lower concurrency_threshold is right for the load of these requests: with more load, more of them are sent away from their caches.")
	hits := m.hitRate(m.present)
	caution(hits.High-hits.Low > unsteadyHits, "The traffic is not the same all the time: by which minutes are drawn, the present settings hit %.0f–%.0f %%.", 100*hits.Low, 100*hits.High)
	trusted := e.Reported >= leastReported
	off := e.HitRate - now.HitRate
	caution(trusted && max(off, -off) > misjudgedHits, "The model is off: with the present settings it hits %.1f %%, and the engines reported %.1f %%. See that their cache size is known; what was changed lately counts too.",
		100*now.HitRate, 100*e.HitRate)
	factor := now.P90.Seconds() / max(e.P90.Seconds(), 1e-9)
	caution(e.P90 > 0 && now.P90 > 0 && (factor > misjudgedP90 || factor < 1/misjudgedP90), "The model is off: with the present settings its P90 is %s, and %s was measured. Differences between settings may hold all the same; the times do not.",
		brief(now.P90), brief(e.P90))
	caution(!trusted, "%.0f %% of the answers reported cached tokens: what the model makes of the present settings cannot be compared with the truth.", 100*e.Reported)
	caution(!p.Stated, "Not all engines state the size of their cache: %d tokens each are assumed.", p.capacity())
	caution(p.PrefillRate == 0, "The router has not learned how fast the engines prefill: %.0f tokens a second are assumed.", 1/(m.engine.Profile.PrefillPerToken/1e9))
	caution(p.Unequal, "The backends are not all alike; they are modelled as if they were.")
	caution(p.Config.Strategy == router.PrefixHash, "Which prefixes meet on one backend is chance with PREFIX_HASH, and drawn anew in a replay.")
	caution(p.Overridden, "Some backends have a concurrency_threshold of their own, which holds whatever that of the pool is: it is not replayed.")
	caution(p.Shared, "Other routers send requests to these backends too. Theirs are not in it: the load is higher than replayed.")
	caution(e.Reckoned > mostReckoned, "The length of %.0f %% of the prompts was not reported; they are reckoned from their bytes.", 100*e.Reckoned)
	caution(e.LongestStream > kvindex.KeptBytes && p.Config.HashLength() < kvindex.KeptBytes, "Of prompts longer than %d bytes, nothing is known beyond.", kvindex.KeptBytes)
	caution(p.Config.OnSaturation == router.Queue, "A waiting line is not modelled: where all backends are full, the cheapest is taken at once (least_loaded).")
	return all
}
