package router

import (
	"cmp"

	"github.com/warmroute/warmroute/backends"
)

// choose says what the strategy wants, after what comes before any: pins, and pools of
// one. The error is a [*NoBackendError] or a [*SaturatedError].
func (v *view) choose(p *Pool) (choice, error) {
	if pin := cmp.Or(v.request.Pin, p.Pinned(v.request.Session, v.request.Now)); pin != "" {
		if c := v.best(func(c *candidate) bool { return c.member.backend.ID == pin }, v.rendezvousLess); c != nil {
			return choice{candidate: c, reason: Pinned, over: true}, nil
		}
		if v.request.PinRequired {
			return choice{}, &NoBackendError{Pool: p.name, Model: v.request.Model, Pin: pin, RetryAfter: retryNoBackend}
		}
	}
	c := v.prefer(p)
	if c.candidate == nil {
		return choice{}, v.saturation(p)
	}
	return c, nil
}

// prefer is what the strategy wants of the candidates.
func (v *view) prefer(p *Pool) choice {
	if len(v.candidates) > 1 && v.adapter {
		return v.preferAdapter()
	}
	if len(v.candidates) > 1 {
		return strategies[v.config.Strategy](v)
	}
	only := &v.candidates[0]
	if !v.fits(only) {
		return saturated(v)
	}
	if v.leastBad {
		return take(only, LeastBad)
	}
	return take(only, OnlyBackend)
}

// without leaves a candidate out, as if the request had been tried there.
func (v *view) without(b *backends.Backend) {
	kept := v.candidates[:0]
	for _, c := range v.candidates {
		if c.member.backend != b {
			kept = append(kept, c)
		}
	}
	if v.candidates = kept; len(kept) > 0 {
		v.weigh()
		v.refresh()
	}
}
