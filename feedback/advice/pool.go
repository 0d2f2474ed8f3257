package advice

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// Pool is what is known of a pool: how it is routed, and what its engines have shown. The
// zero value of every field but Config and Backends is that it is not known.
type Pool struct {
	// Name is the pool's name.
	Name string
	// Config is how it is routed now.
	Config router.Config
	// Backends is how many there are.
	Backends int
	// PrefillRate is how many uncached tokens a second an engine prefills.
	PrefillRate float64
	// CapacityTokens is the size of an engine's cache; Stated says that the engines said so,
	// else it is the router's own bound.
	CapacityTokens int
	Stated         bool
	// BlockTokens is the block of an engine's cache.
	BlockTokens int
	// BytesPerToken is how long a token is in key stream.
	BytesPerToken float64
	// Silent says that answers do not report cached tokens, Unequal that backends differ in
	// weight, threshold or capacity, Overridden that some have thresholds of their own, Shared
	// that other routers send requests to them too.
	Silent, Unequal, Overridden, Shared bool
}

// Of reads what is known of a pool at a moment.
func Of(p *router.Pool, now time.Time) Pool {
	known := Pool{Name: p.Name(), Config: p.Config(), BytesPerToken: p.BytesPerToken(), Stated: true}
	var rates, capacities []float64
	for _, s := range p.Status(now) {
		known.Backends++
		if s.PrefillRate != feedback.DefaultPrefillRate { // else nothing was learned
			rates = append(rates, s.PrefillRate)
		}
		capacity := float64(s.Engine.CapacityTokens)
		if capacity == 0 {
			known.Stated = false
			capacity = float64(s.Index.Capacity*known.Config.BlockBytes) / known.BytesPerToken
		}
		capacities = append(capacities, capacity)
		known.Silent = known.Silent || s.Silent
		known.Shared = known.Shared || s.PeersInFlight > 0
		known.BlockTokens = max(known.BlockTokens, s.Engine.BlockTokens)
	}
	known.PrefillRate, known.CapacityTokens = mean(rates), int(mean(capacities))
	known.Overridden = slices.ContainsFunc(p.Backends(), func(b *backends.Backend) bool { return b.ConcurrencyThreshold() != 0 })
	known.Unequal = unequal(p.Backends()) || len(capacities) > 0 && slices.Max(capacities) > unequalCapacity*slices.Min(capacities)
	return known
}

// unequalCapacity is how many times the smallest cache the largest one is where they count as
// unequal: engines of one kind differ by a few blocks.
const unequalCapacity = 1.1

// unequal reports whether backends differ in what they are configured with.
func unequal(all []*backends.Backend) bool {
	return slices.ContainsFunc(all, func(b *backends.Backend) bool {
		return b.Weight() != all[0].Weight() || b.ConcurrencyThreshold() != all[0].ConcurrencyThreshold()
	})
}

// mean is 0 of nothing.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}
