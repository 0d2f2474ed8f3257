package redisindex

import (
	"sync"
	"time"

	"github.com/warmroute/warmroute/router"
)

// hearing is how far this router hears of the others in one pool. It is safe for concurrent
// use.
type hearing struct {
	began time.Time // when there came to be such a pool

	mu    sync.Mutex
	heard time.Time // when another router was last heard
	echo  time.Time // when the last of what this router wrote was true that it has read back
}

// echoed notes that what this router wrote came back, and when that was true.
func (h *hearing) echoed(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at.After(h.echo) {
		h.echo = at
	}
}

// heardOf notes that another router said something.
func (h *hearing) heardOf(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = now
}

// sharing returns how far routers know of each other. It counts what has come back by its
// own age: whoever reads what is long past knows nothing of what is.
func (h *hearing) sharing(now time.Time) router.Sharing {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.echo.IsZero() && now.Sub(h.echo) <= freshFor:
		return router.Fresh
	case !h.heard.IsZero() && now.Sub(h.heard) <= peersFor:
		return router.Cut
	}
	return router.Alone
}

// lastEcho is when the last was true that this router has read back; the zero time: never.
func (h *hearing) lastEcho() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.echo
}

// state is how far routers know of each other at a moment.
type state struct {
	pools map[string]router.Sharing
	// worst is that of the pool that is worst off, and echo the oldest of any pool: the zero
	// time where nothing came back. Pools that came a moment ago do not count yet.
	worst router.Sharing
	echo  time.Time
}

// hears returns how far this router hears of the others.
func (x *Index) hears(now time.Time) state {
	s := state{pools: make(map[string]router.Sharing)}
	settled := 0
	for name, p := range x.allPools() {
		one, echo := p.hearing.sharing(now), p.hearing.lastEcho()
		s.pools[name] = one
		if echo.IsZero() && now.Sub(p.hearing.began) <= freshFor {
			continue
		}
		if settled == 0 || echo.Before(s.echo) {
			s.echo = echo
		}
		if settled == 0 || worse(one, s.worst) {
			s.worst = one
		}
		settled++
	}
	return s
}

// worse reports whether routers know less of each other in one state than in another.
func worse(a, b router.Sharing) bool {
	rank := func(s router.Sharing) int {
		switch s {
		case router.Fresh:
			return 0
		case router.Alone:
			return 1
		}
		return 2
	}
	return rank(a) > rank(b)
}

// behind are the pools in which the others are not heard now.
func (s state) behind() []string {
	var names []string
	for name, one := range s.pools {
		if one != router.Fresh {
			names = append(names, name)
		}
	}
	return names
}
