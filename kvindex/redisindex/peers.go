package redisindex

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warmroute/warmroute/router"
)

// reportsFor is how long the last report of a replica is kept that says no more; the router
// decides how long it counts.
const reportsFor = 10 * time.Second

// peers is what has been heard of the load of other routers. It is safe for concurrent use.
type peers struct {
	mu      sync.Mutex
	reports map[peerPool]peerLoads
	news    bool // there are reports that latest has not returned yet
}

// peerPool is a replica in one pool: each has a report of its own.
type peerPool struct {
	replica uint64
	pool    string
}

// peerLoads is what a replica has in one pool, by backend, and when it said so last.
type peerLoads struct {
	at    time.Time
	loads map[string]router.Load
}

// put takes in a report, unless there is a later one. One that is not whole says what has
// changed since the one before; without that one it says nothing.
func (s *peers) put(who peerPool, r router.PeerReport, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.reports[who]
	if ok && !r.At.After(known.at) || !ok && !whole {
		return
	}
	if whole {
		known.loads = make(map[string]router.Load, len(r.Loads))
	}
	for _, l := range r.Loads {
		if known.loads[l.Backend] = l; idle(l) {
			delete(known.loads, l.Backend)
		}
	}
	known.at = r.At
	if s.reports == nil {
		s.reports = make(map[peerPool]peerLoads)
	}
	s.reports[who] = known
	s.news = true
}

// idle reports whether a load is that there is none.
func idle(l router.Load) bool {
	return l.InFlight == 0 && l.Backlog.Tokens == 0 && l.Backlog.Progress.IsZero()
}

// latest returns the last report of every other router in every pool, if any of them is news
// or they are wanted all the same.
func (s *peers) latest(now time.Time, wanted bool) (all []router.PeerReport, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.news && !wanted {
		return nil, false
	}
	s.news = false
	for who, r := range s.reports {
		if now.Sub(r.at) > reportsFor {
			delete(s.reports, who)
			continue
		}
		all = append(all, router.PeerReport{At: r.at, Loads: slices.Collect(maps.Values(r.loads))})
	}
	return all, true
}

// replicas counts the other routers that are heard.
func (s *peers) replicas() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[uint64]bool)
	for who := range s.reports {
		seen[who.replica] = true
	}
	return len(seen)
}
