package router

import "math"

// The constants of PREFIX_AWARE. They come from replays of public traces.
const (
	// minHolderBlocks is the fewest blocks that make a holder.
	minHolderBlocks = 2
	// equalShare is the part of the prompt within which two matches are equal.
	equalShare = 0.05
	// guardWork is the weight of uncached tokens in the queue guard.
	guardWork = 4
	// boundedLoad is the bound of rendezvous hashing with bounded load.
	boundedLoad = 1.25
)

// prefixAware takes the longest observed match subject to ConcurrencyThreshold. The
// numbers are those of the rules in ARCHITECTURE.md; rule 1 (who is full) is
// decided by [view.refresh].
func prefixAware(v *view) choice {
	best := v.longest(v.isHolder)
	if best == nil { // rule 6
		return nobodyHolds(v)
	}
	winner := v.longest(func(c *candidate) bool { return !c.full && v.isHolder(c) })
	if winner == nil { // rule 5: all holders are full
		spare := v.cheapest(func(c *candidate) bool { return !c.full && 2*c.inFlight < c.limit })
		if spare == nil {
			return saturated(v) // the last free slots are not for strangers
		}
		return take(spare, Overflow)
	}
	if c := v.guard(winner); c != nil { // rule 4
		return take(c, QueueGuarded)
	}
	if float64(best.reach-winner.reach) > v.equalBlocks() {
		return take(winner, OverflowHolder)
	}
	if winner.reach > winner.match {
		return take(winner, CommonHead)
	}
	return take(winner, LongestMatch)
}

// isHolder is rule 2: it holds enough of the hashed prompt. A smaller match is no
// match: where one short head is common to all traffic, naive longest-match starves
// whoever lacks it. A long one that is common counts as held by all.
func (v *view) isHolder(c *candidate) bool {
	return c.reach >= minHolderBlocks && float64(c.reach) >= v.config.MinMatchRatio*v.hashedBlocks()
}

// equalBlocks is how many blocks two matches may differ by and still be equal.
func (v *view) equalBlocks() float64 {
	prompt := float64(v.request.StreamBytes) / float64(v.config.BlockBytes)
	return math.Max(equalShare*prompt, minHolderBlocks)
}

// longest is rule 3: the longest match among those that pass keep. Matches about as
// long are equal, and go to less queued, fewer in flight, fewer recent assignments,
// rendezvous order.
func (v *view) longest(keep func(*candidate) bool) *candidate {
	top := 0
	for i := range v.candidates {
		if c := &v.candidates[i]; keep(c) {
			top = max(top, c.reach)
		}
	}
	floor := float64(top) - v.equalBlocks()
	return v.best(
		func(c *candidate) bool { return keep(c) && float64(c.reach) >= floor },
		func(a, b *candidate) bool {
			if queuedA, queuedB := float64(a.queued)*a.scale, float64(b.queued)*b.scale; queuedA != queuedB {
				return queuedA < queuedB
			}
			return v.lessLoaded(a, b)
		})
}

// guard is rule 4: the candidate for which the winner is passed over, because
// waiting for the winner would cost far more than recomputing there; nil when the
// winner stands.
func (v *view) guard(winner *candidate) *candidate {
	if v.config.QueueGuard == 0 {
		return nil
	}
	other := v.best(notFull, func(a, b *candidate) bool {
		if workA, workB := v.work(a, guardWork), v.work(b, guardWork); workA != workB {
			return workA < workB
		}
		return v.settle(a, b)
	})
	waiting := float64(winner.queued)*winner.scale - float64(other.queued)*other.scale
	recomputing := float64(other.uncached)*other.scale - float64(winner.uncached)*winner.scale
	if other != winner && waiting > v.config.QueueGuard*recomputing && waiting > 0 {
		return other
	}
	return nil
}

// nobodyHolds is rule 6: the cheapest by cost among those that are not full, which
// on an idle fleet is rendezvous order. Where several replicas run without a shared
// view, rendezvous order with bounded load comes first, so that they agree.
func nobodyHolds(v *view) choice {
	reason := NoMatch
	if !v.request.HasPrefix {
		reason = NoPrefix
	}
	if v.unshared && v.request.HasPrefix {
		if c := v.best(v.underBoundedLoad(), v.rendezvousLess); c != nil {
			return take(c, reason)
		}
	}
	if c := v.cheapest(notFull); c != nil {
		return take(c, reason)
	}
	return saturated(v)
}

// underBoundedLoad keeps the candidates that, this request included, stay within
// boundedLoad × the mean.
func (v *view) underBoundedLoad() func(*candidate) bool {
	total := 1.0
	for i := range v.candidates {
		total += v.candidates[i].load()
	}
	bound := math.Ceil(boundedLoad * total / float64(len(v.candidates)))
	return func(c *candidate) bool { return !c.full && c.load()+1 <= bound }
}
