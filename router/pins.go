package router

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/zeebo/xxh3"
)

const (
	// maxPins bounds what is remembered in one pool, the last used ones.
	maxPins = 1 << 16
	// pinLife is how long a pin that nobody uses is remembered.
	pinLife = 24 * time.Hour
	// pinTold is how long after it was told to other routers one that is used is told again.
	pinTold = 10 * time.Minute
)

// PinKey names what belongs to one backend: a session, or an answer that its engine stores.
// 0 is none.
type PinKey uint64

// NewPinKey hashes the name of something of a kind, with the fleet's secret.
func NewPinKey(kind, name, secret string) PinKey {
	return PinKey(max(xxh3.HashString(kind+"\x00"+secret+"\x00"+name), 1))
}

// pins remember which backend has what. The zero value is ready; it is safe for concurrent
// use.
type pins struct {
	mu  sync.Mutex
	all *simplelru.LRU[PinKey, pin]
}

// pin is where something is.
type pin struct {
	backend    string // its id; "" is that it is nowhere any more
	last, told time.Time
}

// put remembers where something is. It reports whether other routers should be told.
func (s *pins) put(key PinKey, backend string, now time.Time) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, _ := s.get(key, now)
	next := pin{backend: backend, last: now, told: before.told}
	if news = before.backend != backend || now.Sub(before.told) > pinTold; news {
		next.told = now
	}
	s.all.Add(key, next)
	return news
}

// heard remembers what another router said, unless something later is known. A
// moment that lies ahead is one by mistake: believed, it would outlast what is told after it.
func (s *pins) heard(key PinKey, backend string, at, now time.Time) {
	if at.After(now) {
		at = now
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, known := s.get(key, at); known && !at.After(before.last) {
		return
	}
	s.all.Add(key, pin{backend: backend, last: at, told: at})
}

// where returns where something is, "" where that is not known.
func (s *pins) where(key PinKey, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, _ := s.get(key, now)
	return p.backend
}

// get returns what is remembered and forgets what is too old. s.mu is held.
func (s *pins) get(key PinKey, now time.Time) (pin, bool) {
	if s.all == nil {
		s.all, _ = simplelru.NewLRU[PinKey, pin](maxPins, nil) // the size is right
	}
	p, known := s.all.Get(key)
	if known && now.Sub(p.last) > pinLife {
		s.all.Remove(key)
		return pin{}, false
	}
	return p, known
}

// Pin remembers that something belongs to a backend of a pool, for a day after it was last
// used; other routers are told. An empty id says that it belongs to none any more.
func (r *Router) Pin(p *Pool, key PinKey, backend string, now time.Time) {
	if key != 0 && p.pins.put(key, backend, now) {
		r.hooks.pinned(p, key, backend, now)
	}
}

// PeerPin takes in that another router has pinned something.
func (r *Router) PeerPin(pool string, key PinKey, backend string, at, now time.Time) {
	if p := r.Find(pool); p != nil && key != 0 {
		p.pins.heard(key, backend, at, now)
	}
}

// Pinned returns the id of the backend of the pool that something belongs to, and that is
// still there; "" where there is none.
func (p *Pool) Pinned(key PinKey, now time.Time) string {
	if key == 0 {
		return ""
	}
	id := p.pins.where(key, now)
	if id == "" {
		return ""
	}
	for _, b := range p.Backends() {
		if b.ID == id {
			return id
		}
	}
	return ""
}
