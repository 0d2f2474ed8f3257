package router

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

// random takes any eligible backend.
func random(v *view) choice {
	free := 0
	for i := range v.candidates {
		if v.fits(&v.candidates[i]) {
			free++
		}
	}
	if free == 0 {
		return saturated(v)
	}
	// The order of candidates must not matter: number them by id, which is how the
	// pool keeps them.
	nth := int(v.request.Random % uint64(free))
	for i := range v.candidates {
		if c := &v.candidates[i]; v.fits(c) {
			if nth == 0 {
				return take(c, RandomChoice)
			}
			nth--
		}
	}
	return saturated(v)
}

// leastOutstanding takes the backend with the fewest in flight for its weight.
func leastOutstanding(v *view) choice {
	spread := func(a, b *candidate) bool {
		if loadA, loadB := a.load(), b.load(); loadA != loadB {
			return loadA < loadB
		}
		if recentA, recentB := a.member.recent.level(), b.member.recent.level(); recentA != recentB {
			return recentA < recentB
		}
		return v.rendezvousLess(a, b)
	}
	if c := v.best(v.fits, spread); c != nil {
		return take(c, FewestOutstanding)
	}
	return saturated(v)
}

// prefixHash takes the backend that the hash of the prefix names, and at its
// threshold the one with the fewest in flight: what SageMaker does.
func prefixHash(v *view) choice {
	if v.request.Prefix == 0 {
		return noPrefix(v)
	}
	named := v.best(anyone, func(a, b *candidate) bool {
		scoreA := rendezvous(v.request.Prefix, a.member.hash, a.member.backend.Weight())
		scoreB := rendezvous(v.request.Prefix, b.member.hash, b.member.backend.Weight())
		if scoreA != scoreB {
			return scoreA > scoreB
		}
		return a.member.backend.ID < b.member.backend.ID
	})
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
