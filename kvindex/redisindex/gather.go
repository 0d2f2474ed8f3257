package redisindex

import (
	"cmp"
	"slices"

	"github.com/warmroute/warmroute/kvindex"
)

// gathered is what some uses of one backend come to.
type gathered struct {
	// scores are the last uses of its blocks, as its sets keep them.
	scores map[kvindex.Key]moment
	// chains are what other routers are told, oldest first.
	chains []chain
	// uses are those that its sets are to have, newest first.
	uses []use
}

// scoreOf is the last use of a block as its set keeps it. Tails are older than heads, by a
// microsecond for each block, so that trimming by rank takes tails first, and a router
// that reads the set finds the order of its chains.
func scoreOf(last moment, position int) moment { return last - moment(position) }

// gather puts uses together by backend. Of one block only the last use counts, and a chain
// that is whole within one used later goes without saying.
func gather(uses []use, clock conversion) map[*backend]*gathered {
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(b.last, a.last) }) // newest first
	all := make(map[*backend]*gathered)
	for _, u := range uses {
		if u.backend.gone.Load() {
			continue
		}
		g := all[u.backend]
		if g == nil {
			g = &gathered{scores: make(map[kvindex.Key]moment)}
			all[u.backend] = g
		}
		if u.promise != 0 { // other routers are told; it is no use yet
			g.chains = append(g.chains, chain{backend: u.backend.label, last: clock.fleet(u.last), keys: u.keys, promise: u.promise})
			continue
		}
		g.add(u, clock.fleet(u.last))
	}
	for _, g := range all {
		slices.Reverse(g.chains)
	}
	return all
}

// add takes in a use no newer than those before.
func (g *gathered) add(u use, last moment) {
	end := len(u.keys) - 1
	if _, covered := g.scores[u.keys[end]]; covered {
		return
	}
	g.uses = append(g.uses, u)
	g.chains = append(g.chains, chain{backend: u.backend.label, last: last, keys: u.keys})
	for i := end; i >= 0; i-- {
		if _, known := g.scores[u.keys[i]]; known {
			return // and so is everything before it
		}
		g.scores[u.keys[i]] = scoreOf(last, i)
	}
}
