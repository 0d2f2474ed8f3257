package redisindex

import (
	"sync"

	"github.com/warmroute/warmroute/kvindex"
)

// announcements are what must be told to other routers and is never dropped: of each
// backend there is at most one.
type announcements struct {
	wake chan struct{}

	mu       sync.Mutex
	horizons map[*backend]kvindex.Stamp
	// lostSince is the last use of the oldest use that will never be written; 0: none.
	lostSince kvindex.Stamp
}

// move says that a backend's horizon is there now, or further.
func (a *announcements) move(b *backend, horizon kvindex.Stamp) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.horizons == nil {
		a.horizons = make(map[*backend]kvindex.Stamp)
	}
	a.horizons[b] = max(a.horizons[b], horizon)
	signal(a.wake)
}

// take returns what is to be told.
func (a *announcements) take() (horizons map[*backend]kvindex.Stamp) {
	a.mu.Lock()
	defer a.mu.Unlock()
	horizons = a.horizons
	a.horizons = nil
	return horizons
}

// forget lets go of a backend that was dropped.
func (a *announcements) forget(b *backend) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.horizons, b)
}

// lose notes that a use will never be written.
func (a *announcements) lose(last kvindex.Stamp) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lostSince == 0 || last < a.lostSince {
		a.lostSince = last
	}
}

// found returns since when uses were lost, and forgets it; 0: none were.
func (a *announcements) found() kvindex.Stamp {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := a.lostSince
	a.lostSince = 0
	return since
}
