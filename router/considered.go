package router

import (
	"cmp"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/feedback"
)

// maxConsidered is how many backends a decision remembers.
const maxConsidered = 8

// Watch has decisions remember which backends took part, for the records of their
// requests, until stop is called. Without a watcher nobody pays for that.
func (r *Router) Watch() (stop func()) {
	r.watchers.Add(1)
	return func() { r.watchers.Add(-1) }
}

// considered are the candidates of a decision: the chosen one, then those that hold most,
// of equal ones the cheapest first, at most [maxConsidered]. It is called while the view is
// as it was when the choice was made.
func (v *view) considered(chosen *candidate) []feedback.Considered {
	all := make([]feedback.Considered, 0, len(v.candidates))
	for i := range v.candidates {
		c := &v.candidates[i]
		all = append(all, feedback.Considered{
			Backend: c.member.backend.ID, Chosen: c == chosen,
			MatchedBlocks: c.match, MatchedTokens: c.held, PredictedCached: c.cached,
			Queued: c.queued, InFlight: c.inFlight, Limit: c.limit, Full: c.full, Cost: v.cost(c),
		})
	}
	slices.SortFunc(all, func(a, b feedback.Considered) int {
		return cmp.Or(
			-compareBool(a.Chosen, b.Chosen), -cmp.Compare(a.MatchedBlocks, b.MatchedBlocks),
			cmp.Compare(a.Cost, b.Cost), strings.Compare(a.Backend, b.Backend),
		)
	})
	return slices.Clone(all[:min(len(all), maxConsidered)])
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
