package redisindex

import (
	"cmp"
	"slices"

	"github.com/warmroute/warmroute/kvindex"
)

// late are uses that were told before this router listened: at a start, and after a pause.
// They are merged into the memory at their true place, all together, because a merge goes
// through everything that a backend holds.
type late map[*backend]map[kvindex.Key]moment

// add takes in that a backend held a chain.
func (l late) add(b *backend, c chain) {
	scores := l[b]
	if scores == nil {
		scores = make(map[kvindex.Key]moment)
		l[b] = scores
	}
	for i, key := range c.keys {
		scores[key] = max(scores[key], scoreOf(c.last, i))
	}
}

// mergeLate merges what was heard of late, and forgets it.
func (x *Index) mergeLate(l late) {
	clock, ok := x.clock.conversion()
	for b, scores := range l {
		delete(l, b)
		blocks := make([]scored, 0, len(scores))
		for key, last := range scores {
			blocks = append(blocks, scored{key: key, last: last})
		}
		if ok && !b.gone.Load() {
			x.merge(b, blocks, clock)
		}
	}
}

// scored is a block and its last use as a set keeps it.
type scored struct {
	key  kvindex.Key
	last moment
}

// merge merges blocks of a backend into the memory, but for those up to its horizon, and
// returns how many there were. With each block come those before it in its chain.
func (x *Index) merge(b *backend, blocks []scored, clock conversion) int {
	horizon, now := moment(b.horizon.Load()), x.clock.fleetNow()
	blocks = slices.DeleteFunc(blocks, func(s scored) bool { return s.last <= horizon })
	slices.SortFunc(blocks, func(a, b scored) int { return cmp.Compare(a.last, b.last) })
	entries := make([]kvindex.Entry, len(blocks))
	for i, s := range blocks {
		entries[i] = kvindex.Entry{Key: s.key, LastUse: clock.local(min(s.last, now))}
	}
	b.resident.Restore(entries)
	return len(entries)
}
