package redisindex

import (
	"sync"
	"time"

	"github.com/warmroute/warmroute/router"
)

// reportsFor is how long the last report of a replica is kept that says no more; the router
// decides how long it counts.
const reportsFor = 10 * time.Second

// peers is what has been heard of the other routers, and of this one. It is safe for
// concurrent use.
type peers struct {
	mu      sync.Mutex
	reports map[peerPool]router.PeerReport
	heard   time.Time // when another router was last heard
	echo    time.Time // when this router last read back what it wrote
}

// peerPool is a replica in one pool: each has a report of its own.
type peerPool struct {
	replica uint64
	pool    string
}

// echoed notes that what this router wrote came back.
func (s *peers) echoed(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.echo = now
}

// heardOf notes that another router said something.
func (s *peers) heardOf(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = now
}

// put takes in a report, unless there is a later one.
func (s *peers) put(who peerPool, r router.PeerReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reports == nil {
		s.reports = make(map[peerPool]router.PeerReport)
	}
	if r.At.After(s.reports[who].At) {
		s.reports[who] = r
	}
}

// latest returns the last report of every other router in every pool.
func (s *peers) latest(now time.Time) []router.PeerReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]router.PeerReport, 0, len(s.reports))
	for who, r := range s.reports {
		if now.Sub(r.At) > reportsFor {
			delete(s.reports, who)
			continue
		}
		all = append(all, r)
	}
	return all
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

// sharing returns how far routers know of each other.
func (s *peers) sharing(now time.Time) router.Sharing {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.echo.IsZero() && now.Sub(s.echo) <= freshFor:
		return router.Fresh
	case !s.heard.IsZero() && now.Sub(s.heard) <= peersFor:
		return router.Cut
	}
	return router.Alone
}

// lastEcho is when this router last read back what it wrote; the zero time: never.
func (s *peers) lastEcho() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.echo
}
