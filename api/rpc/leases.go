package rpc

import (
	"container/heap"
	"sync"
	"time"
)

// leases keeps values until they are taken or their time is over. It has one timer, which
// never fires later than the first deadline, and no goroutine. Its methods may be called at
// the same time.
type leases[T any] struct {
	most    int // 0 for no bound
	expired func(key string, value T)

	mu    sync.Mutex
	byKey map[string]*lease[T]
	order byDeadline[T]
	timer *time.Timer
	fires time.Time // when the timer does; the zero time when it is not set
}

// lease is one value and when its time ends.
type lease[T any] struct {
	key      string
	value    T
	deadline time.Time
	place    int // in the order
}

// newLeases returns an empty set of at most most leases. expired is called, on a
// goroutine of its own, for every value whose time is over.
func newLeases[T any](most int, expired func(key string, value T)) *leases[T] {
	return &leases[T]{most: most, expired: expired, byKey: make(map[string]*lease[T])}
}

// put keeps a value until a deadline, in the place of one with the same key. It returns
// false when there are too many already.
func (s *leases[T]) put(key string, value T, deadline time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.byKey[key]; l != nil {
		l.value, l.deadline = value, deadline
		heap.Fix(&s.order, l.place)
		s.schedule()
		return true
	}
	if s.most > 0 && len(s.order) >= s.most {
		return false
	}
	l := &lease[T]{key: key, value: value, deadline: deadline}
	s.byKey[key] = l
	heap.Push(&s.order, l)
	s.schedule()
	return true
}

// renew moves the deadline of a value, which it returns; ok is false when it is gone.
func (s *leases[T]) renew(key string, length func(T) time.Duration) (value T, deadline time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	l := s.byKey[key]
	if l == nil || !now.Before(l.deadline) {
		return value, deadline, false
	}
	l.deadline = now.Add(length(l.value))
	heap.Fix(&s.order, l.place)
	s.schedule()
	return l.value, l.deadline, true
}

// take removes a value and returns it; ok is false when it is gone.
func (s *leases[T]) take(key string) (value T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	if l == nil {
		return value, false
	}
	s.remove(l)
	return l.value, true
}

// get returns a value and its deadline; ok is false when it is gone.
func (s *leases[T]) get(key string) (value T, deadline time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.byKey[key]; l != nil {
		return l.value, l.deadline, true
	}
	return value, deadline, false
}

// len is how many there are.
func (s *leases[T]) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

// close lets the time of all values be over now.
func (s *leases[T]) close() {
	s.mu.Lock()
	gone := s.due(func(*lease[T]) bool { return true })
	if s.timer != nil {
		s.timer.Stop()
	}
	s.fires = time.Time{}
	s.mu.Unlock()
	s.end(gone)
}

// wake takes out what is over. It runs on the timer's goroutine.
func (s *leases[T]) wake() {
	s.mu.Lock()
	now := time.Now()
	gone := s.due(func(l *lease[T]) bool { return !now.Before(l.deadline) })
	if !now.Before(s.fires) { // else it has been set again since it fired
		s.fires = time.Time{}
		s.schedule()
	}
	s.mu.Unlock()
	s.end(gone)
}

// due removes the first leases for which over holds. s.mu is held.
func (s *leases[T]) due(over func(*lease[T]) bool) []*lease[T] {
	var gone []*lease[T]
	for len(s.order) > 0 && over(s.order[0]) {
		gone = append(gone, s.order[0])
		s.remove(s.order[0])
	}
	return gone
}

func (s *leases[T]) end(gone []*lease[T]) {
	for _, l := range gone {
		s.expired(l.key, l.value)
	}
}

// remove takes a lease out. s.mu is held.
func (s *leases[T]) remove(l *lease[T]) {
	delete(s.byKey, l.key)
	heap.Remove(&s.order, l.place)
}

// schedule makes sure that the timer fires by the first deadline. One that fires too early
// is left alone, and sets itself anew: values come and go much faster than their time ends,
// and to move a timer wakes whoever waits for the network. s.mu is held.
func (s *leases[T]) schedule() {
	if len(s.order) == 0 {
		return
	}
	first := s.order[0].deadline
	if !s.fires.IsZero() && !first.Before(s.fires) {
		return
	}
	s.fires = first
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(first), s.wake)
		return
	}
	s.timer.Reset(time.Until(first))
}

// byDeadline is a heap of leases, that which ends first on top.
type byDeadline[T any] []*lease[T]

func (h byDeadline[T]) Len() int           { return len(h) }
func (h byDeadline[T]) Less(i, j int) bool { return h[i].deadline.Before(h[j].deadline) }
func (h byDeadline[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements [heap.Interface].
func (h *byDeadline[T]) Push(x any) {
	l := x.(*lease[T]) //nolint:forcetypeassert // nothing else is pushed
	l.place = len(*h)
	*h = append(*h, l)
}

// Pop implements [heap.Interface].
func (h *byDeadline[T]) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}
