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
	// maxAdapters bounds the adapters of a backend that are remembered, the last used ones.
	maxAdapters = 4096
)

// adapterUses are the LoRA adapters that a backend lately got requests for: it has them
// loaded, and their prompts cached. The backends where an adapter is in use are its set. The
// zero value is ready; it is safe for concurrent use.
type adapterUses struct {
	mu      sync.Mutex
	last    *simplelru.LRU[string, time.Time] // when the backend last got a request for each
	refused *simplelru.LRU[string, time.Time] // when it last said that it does not know one
}

// add notes that the backend gets a request for an adapter.
func (u *adapterUses) add(adapter string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	note(&u.last, adapter, now)
}

// refuse notes that the backend does not know an adapter.
func (u *adapterUses) refuse(adapter string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	note(&u.refused, adapter, now)
	if u.last != nil {
		u.last.Remove(adapter)
	}
}

// note notes that something was so at now.
func note(when **simplelru.LRU[string, time.Time], adapter string, now time.Time) {
	if *when == nil {
		*when, _ = simplelru.NewLRU[string, time.Time](maxAdapters, nil) // the size is right
	}
	(*when).Add(adapter, now)
}

// lately reports whether something was so, no longer ago than adapters are idle for.
func lately(when *simplelru.LRU[string, time.Time], adapter string, now time.Time) bool {
	if when == nil {
		return false
	}
	last, known := when.Peek(adapter)
	return known && now.Sub(last) <= adapterIdle
}

// has reports whether the backend lately got a request for an adapter, and did not refuse
// it.
func (u *adapterUses) has(adapter string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return lately(u.last, adapter, now) && !lately(u.refused, adapter, now)
}

// refuses reports whether the backend lately did not know an adapter.
func (u *adapterUses) refuses(adapter string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return lately(u.refused, adapter, now)
}

// number returns how many adapters the backend lately got requests for, and when it last got
// one for that which it used longest ago. Those that are idle are forgotten.
func (u *adapterUses) number(now time.Time) (n int, oldest time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last == nil {
		return 0, oldest
	}
	for {
		_, last, some := u.last.GetOldest()
		if !some || now.Sub(last) <= adapterIdle {
			return u.last.Len(), last
		}
		u.last.RemoveOldest()
	}
}

// gather moves the candidates of the adapter's set to the front and returns how many they
// are.
func (v *view) gather() int {
	return front(v.candidates, func(c *candidate) bool { return c.member.adapters.has(v.request.Model, v.request.Now) })
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
	loaded int       // 2: it has it in use, as its metrics say; 1: it lists it; -1: it lately refused it
	free   bool      // it has lately used fewer than it can hold
	oldest time.Time // when it last used the one that it used longest ago
}

// room says how soon a backend makes room for an adapter that it did not lately use.
func (m *member) room(adapter string, now time.Time) room {
	m.mu.Lock()
	engine := m.engine
	m.mu.Unlock()
	var r room
	switch {
	case slices.Contains(engine.Adapters, adapter):
		r.loaded = 2
	case m.lists(adapter):
		r.loaded = 1
	case m.adapters.refuses(adapter, now):
		r.loaded = -1
	}
	n, oldest := m.adapters.number(now)
	r.free, r.oldest = n < cmp.Or(engine.MaxAdapters, adapterSlots), oldest
	return r
}

// lists reports whether the engine says that it serves a model.
func (m *member) lists(model string) bool {
	_, known := m.backend.Models()
	return known && m.backend.Serves(model)
}

// before orders backends by how soon they make room: -1, 0 or 1.
func (r room) before(o room) int {
	switch {
	case r.loaded != o.loaded:
		return cmp.Compare(o.loaded, r.loaded)
	case r.free && o.free:
		return 0
	case r.free:
		return -1
	case o.free:
		return 1
	}
	return r.oldest.Compare(o.oldest)
}

// preferAdapter chooses for a prompt of a LoRA adapter: as the strategy wants among those
// who have it loaded; when they are all busy, one more loads it; and when nobody can, those
// who have it come before the others still.
func (v *view) preferAdapter() choice {
	all := v.candidates
	defer func() { v.candidates = all }()
	set := all[:v.gather()]
	if v.candidates = set[:front(set, v.hasTime)]; len(v.candidates) > 0 {
		return strategies[v.config.Strategy](v)
	}
	reason := AdapterSpread
	if len(set) == 0 {
		reason = AdapterPlaced
	}
	v.candidates = all[len(set):]
	if c := v.soonest(len(set) == 0); c != nil {
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
// ones go by rendezvous order of the adapter, so that routers agree. One that lately refused it
// is asked again only where anyone is.
func (v *view) soonest(anyone bool) *candidate {
	var best *candidate
	var most room
	key := kvindex.Key(hashID(v.request.Model))
	for i := range v.candidates {
		c := &v.candidates[i]
		if !v.hasTime(c) {
			continue
		}
		r := c.member.room(v.request.Model, v.request.Now)
		if r.loaded < 0 && !anyone {
			continue
		}
		if order := r.before(most); best == nil || order < 0 || order == 0 && v.higher(c, best, key, true) {
			best, most = c, r
		}
	}
	return best
}
