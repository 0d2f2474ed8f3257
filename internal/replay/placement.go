package replay

import "github.com/warmroute/warmroute/router"

// Placement names who chooses the engine of a request.
type Placement string

// The placements. All but [ByRouter] are yardsticks for the router's strategies, and no
// part of the product.
const (
	// ByRouter is the router's strategy, which its own configuration names.
	ByRouter Placement = ""
	// Oracle knows what no router can: what each engine's cache holds of the prompt at
	// this moment, and the tokens that each engine has still to prefill. It takes the
	// engine where oracleWeight × the prompt's uncached tokens and that queue are least.
	// It looks no further ahead than that, so it is a yardstick and not a bound.
	Oracle Placement = "ORACLE"
	// LeastQueuedTokens knows nothing of caches: it takes the engine with the fewest
	// tokens of whole prompts still to prefill, as a router can estimate them.
	LeastQueuedTokens Placement = "LEAST_QUEUED_TOKENS"
	// BoundedHash is consistent hashing with bounded load: the first engine in the
	// prefix's own order that has no more than loadBound × the mean in flight.
	BoundedHash Placement = "BOUNDED_HASH"
	// WeightedScore takes the highest of prefixWeight × the part of the prompt that is
	// cached + how short the queue is, each 0..1.
	WeightedScore Placement = "WEIGHTED_SCORE"
	// LongestMatch takes the longest match of at least minMatchShare of the prompt among
	// engines with no more than loadBound × the mean in flight, else the fewest in flight.
	LongestMatch Placement = "LONGEST_MATCH"
)

// Placements returns the names of all placements but [ByRouter].
func Placements() []Placement {
	return []Placement{Oracle, LeastQueuedTokens, BoundedHash, WeightedScore, LongestMatch}
}

// policies are the rules of the placements that know no more than a router could. There
// is always a candidate.
var policies = map[Placement]func([]candidate) candidate{
	LeastQueuedTokens: leastQueuedTokens,
	BoundedHash:       boundedHash,
	WeightedScore:     weightedScore,
	LongestMatch:      longestMatch,
}

// place returns the id of the backend that the placement chooses for a request; empty when
// none is in rotation.
func (f *Fleet) place(fl *flight, req *router.Request) string {
	if f.config.Placement == Oracle {
		return f.foresee(fl, req.Random).backend.ID
	}
	candidates := f.candidates(fl, req)
	if len(candidates) == 0 {
		return ""
	}
	return policies[f.config.Placement](candidates).node.backend.ID
}
