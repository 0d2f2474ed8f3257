package router

import "github.com/warmroute/warmroute/kvindex"

// The names of the strategies, as configuration and metrics spell them.
const (
	Random            = "RANDOM"
	LeastOutstanding  = "LEAST_OUTSTANDING_REQUESTS"
	PrefixHash        = "PREFIX_HASH"
	PrefixAware       = "PREFIX_AWARE"
	LeastExpectedTTFT = "LEAST_EXPECTED_TTFT"
)

// Strategies returns the names of all strategies.
func Strategies() []string {
	return []string{Random, LeastOutstanding, PrefixHash, PrefixAware, LeastExpectedTTFT}
}

// strategies are the rules by name. A strategy is a function of the view alone: it
// has no state, so switching it is a change of name.
var strategies = map[string]func(*view) choice{
	Random:            random,
	LeastOutstanding:  leastOutstanding,
	PrefixHash:        prefixHash,
	PrefixAware:       prefixAware,
	LeastExpectedTTFT: leastExpectedTTFT,
}

// choice is what a strategy wants.
type choice struct {
	// candidate is nil when everybody is full and the pool does not go over the
	// threshold: the request waits or is rejected.
	candidate *candidate
	reason    Reason
	// over lets the candidate be taken although it is at its threshold.
	over bool
}

// take is a choice that respects the threshold.
func take(c *candidate, reason Reason) choice { return choice{candidate: c, reason: reason} }

// saturated is the choice when everybody who should take the request is full: the
// cheapest over all, threshold or not, or, where the pool does not go over it, the
// cheapest that has a slot, if any.
func saturated(v *view) choice {
	if v.config.OnSaturation == LeastLoaded {
		return choice{candidate: v.cheapest(anyone), reason: Saturated, over: true}
	}
	return take(v.cheapest(v.fits), Overflow)
}

// random takes any eligible backend that has a slot, each as likely as the next.
func random(v *view) choice {
	// The highest of uniform scores is a uniform choice, whatever the order.
	if c := v.best(v.fits, v.highestScore(kvindex.Key(v.request.Random), false)); c != nil {
		return take(c, RandomChoice)
	}
	return saturated(v)
}

// leastOutstanding takes the backend with the fewest in flight for its weight.
func leastOutstanding(v *view) choice {
	if c := v.best(v.fits, v.lessLoaded); c != nil {
		return take(c, FewestOutstanding)
	}
	return saturated(v)
}

// prefixHash takes the backend that the hash of the prefix names, and at its
// threshold the one with the fewest in flight: what SageMaker does.
func prefixHash(v *view) choice {
	if !v.request.HasPrefix {
		return noPrefix(v)
	}
	named := v.best(anyone, v.highestScore(v.request.Prefix, true))
	if v.fits(named) {
		return take(named, HashedPrefix)
	}
	if c := v.fewestInFlight(v.fits); c != nil {
		return take(c, HashOverflow)
	}
	return saturated(v)
}

// noPrefix places a request that has nothing to match by load.
func noPrefix(v *view) choice {
	if c := v.fewestInFlight(v.fits); c != nil {
		return take(c, NoPrefix)
	}
	return saturated(v)
}

// leastExpectedTTFT takes the backend of the smallest cost among those below their
// threshold.
func leastExpectedTTFT(v *view) choice {
	if c := v.cheapest(v.fits); c != nil {
		return take(c, CheapestTTFT)
	}
	return saturated(v)
}
