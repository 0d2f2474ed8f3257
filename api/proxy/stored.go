package proxy

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/router"
)

// What is remembered of answers that engines store.
const (
	maxStored  = 1 << 16
	storedLife = 24 * time.Hour
)

// storedAnswers remembers which backend has which stored answer, the last ones used
// of a bounded number, for a bounded time. The zero value is ready.
type storedAnswers struct {
	mu    sync.Mutex
	byID  map[string]*list.Element
	order list.List // of *storedAnswer, the last used in front
}

// storedAnswer says where an answer is.
type storedAnswer struct {
	id      string
	pool    *router.Pool
	model   string
	backend string
	used    time.Time
}

// there reports whether the pool still has that backend.
func (a *storedAnswer) there() bool {
	return slices.ContainsFunc(a.pool.Backends(), func(b *backends.Backend) bool { return b.ID == a.backend })
}

// put remembers where an answer is.
func (s *storedAnswers) put(a storedAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[string]*list.Element)
	}
	if e := s.byID[a.id]; e != nil {
		e.Value = &a
		s.order.MoveToFront(e)
		return
	}
	s.byID[a.id] = s.order.PushFront(&a)
	for s.order.Len() > maxStored {
		s.remove(s.order.Back())
	}
}

// get returns where an answer is.
func (s *storedAnswers) get(id string, now time.Time) (storedAnswer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Back(); e != nil && now.Sub(e.Value.(*storedAnswer).used) > storedLife; e = s.order.Back() {
		s.remove(e)
	}
	e := s.byID[id]
	if e == nil {
		return storedAnswer{}, false
	}
	a := e.Value.(*storedAnswer) //nolint:forcetypeassert // nothing else is in the list
	a.used = now
	s.order.MoveToFront(e)
	return *a, true
}

// remove forgets an answer. s.mu is held.
func (s *storedAnswers) remove(e *list.Element) {
	delete(s.byID, e.Value.(*storedAnswer).id) //nolint:forcetypeassert // nothing else is in the list
	s.order.Remove(e)
}
