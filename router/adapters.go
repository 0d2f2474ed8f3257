package router

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/warmroute/warmroute/kvindex"
)

const (
	// adapterIdle is how long a backend stays in an adapter's set without a request for it.
	adapterIdle = 10 * time.Minute
	// adapterSlots is how many adapters a backend is taken to hold at a time where its
	// engine does not say.
	adapterSlots = 8
	// maxAdapters bounds the adapters of a pool that are remembered, the last used ones.
	maxAdapters = 4096
)

// adapterSets are the backends that lately got requests for each LoRA adapter of a pool:
// they have it loaded, and its prompts cached. The zero value is ready; it is safe for
// concurrent use.
type adapterSets struct {
	mu   sync.Mutex
	sets *simplelru.LRU[string, []adapterPlace]
}

// adapterPlace is one backend of a set.
type adapterPlace struct {
	member *member
	last   time.Time // when it last got a request for the adapter
}

// used notes that a backend gets a request for an adapter.
func (s *adapterSets) used(adapter string, m *member, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets == nil {
		s.sets, _ = simplelru.NewLRU[string, []adapterPlace](maxAdapters, nil) // the size is right
	}
	set, _ := s.sets.Get(adapter)
	if i := slices.IndexFunc(set, func(p adapterPlace) bool { return p.member == m }); i >= 0 {
		set[i].last = now
		return
	}
	set = slices.DeleteFunc(set, func(p adapterPlace) bool { return p.idle(now) })
	s.sets.Add(adapter, append(set, adapterPlace{m, now}))
}

func (p adapterPlace) idle(now time.Time) bool { return now.Sub(p.last) > adapterIdle }

// gather moves the candidates of an adapter's set to the front of all and returns how many
// they are.
func (s *adapterSets) gather(adapter string, all []candidate, now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets == nil {
		return 0
	}
	set, _ := s.sets.Peek(adapter)
	return front(all, func(c *candidate) bool {
		return slices.ContainsFunc(set, func(p adapterPlace) bool { return p.member == c.member && !p.idle(now) })
	})
}

// front moves the candidates that pass to the front and returns how many they are.
func front(all []candidate, pass func(*candidate) bool) int {
	n := 0
	for i := range all {
		if pass(&all[i]) {
			all[i], all[n] = all[n], all[i]
			n++
		}
	}
	return n
}

// room is how soon a backend makes room for another adapter.
type room struct {
	loaded bool      // it has it already, as its engine says
	free   bool      // it has lately used fewer than it can hold
	oldest time.Time // when it last used the one that it used longest ago
}

// room says how soon a backend makes room for an adapter.
func (s *adapterSets) room(adapter string, m *member, now time.Time) room {
	m.mu.Lock()
	engine := m.engine
	m.mu.Unlock()
	r := room{loaded: slices.Contains(engine.Adapters, adapter)}
	s.mu.Lock()
	defer s.mu.Unlock()
	others := 0
	if s.sets != nil {
		for _, set := range s.sets.Values() {
			for _, p := range set {
				if p.member != m || p.idle(now) {
					continue
				}
				if others++; others == 1 || p.last.Before(r.oldest) {
					r.oldest = p.last
				}
			}
		}
	}
	r.free = others < cmp.Or(engine.MaxAdapters, adapterSlots)
	return r
}

// before orders backends by how soon they make room: -1, 0 or 1.
func (r room) before(o room) int {
	switch {
	case r.loaded != o.loaded:
		return truth(o.loaded) - truth(r.loaded)
	case r.free != o.free:
		return truth(o.free) - truth(r.free)
	case r.free:
		return 0
	}
	return r.oldest.Compare(o.oldest)
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// preferAdapter chooses for a prompt of a LoRA adapter: as the strategy wants among those
// who have it loaded; when they are all busy, one more loads it; and when nobody can, those
// who have it come before the others still.
func (v *view) preferAdapter(sets *adapterSets) choice {
	adapter, now, all := v.request.Model, v.request.Now, v.candidates
	defer func() { v.candidates = all }()
	set := all[:sets.gather(adapter, all, now)]
	if v.candidates = set[:front(set, v.hasTime)]; len(v.candidates) > 0 {
		return strategies[v.config.Strategy](v)
	}
	reason := AdapterSpread
	if len(set) == 0 {
		reason = AdapterPlaced
	}
	v.candidates = all[len(set):]
	if c := v.soonest(sets); c != nil {
		return take(c, reason)
	}
	if v.candidates = set[:front(set, v.fits)]; len(v.candidates) == 0 {
		v.candidates = all
	}
	return strategies[v.config.Strategy](v)
}

// hasTime reports whether a candidate is neither full nor clearly busier than the mean.
func (v *view) hasTime(c *candidate) bool { return !c.full && c.load() <= v.mean+loadSlack }

// soonest is the candidate with time that makes room for the request's adapter soonest. Equal
// ones go by rendezvous order of the adapter, so that routers agree.
func (v *view) soonest(sets *adapterSets) *candidate {
	var best *candidate
	var most room
	key := kvindex.Key(hashID(v.request.Model))
	for i := range v.candidates {
		c := &v.candidates[i]
		if !v.hasTime(c) {
			continue
		}
		r := sets.room(v.request.Model, c.member, v.request.Now)
		if order := r.before(most); best == nil || order < 0 || order == 0 && v.higher(c, best, key, true) {
			best, most = c, r
		}
	}
	return best
}
