package router

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Why nobody can join a line.
var (
	// ErrLineFull says that too many wait already.
	ErrLineFull = errors.New("the waiting line is full")
	// ErrShareFull says that too many of one tenant do.
	ErrShareFull = errors.New("the tenant's share of the waiting line is full")
)

// line is the requests of a pool that wait for a slot, first come first served.
type line struct {
	mu      sync.Mutex
	waiters []*Waiter
	tenants map[string]int // how many of them are whose; those of nobody are not counted
	called  int            // waiters that were called and have not said what came of it

	refused, refusedShare atomic.Uint64 // who found it full, or the tenant's share of it
}

// Waiter is a place in a pool's waiting line.
type Waiter struct {
	line   *line
	tenant string
	ready  chan struct{}
	called bool // and has not said what came of it; guarded by line.mu
}

// Join takes a place at the end of the waiting line, unless it has most waiters already
// ([ErrLineFull]), or share of the tenant ([ErrShareFull]); of an empty tenant, which is nobody,
// there may be as many as the line takes. The caller must call [Waiter.Leave].
func (p *Pool) Join(tenant string, most, share int) (*Waiter, error) {
	return p.line.join(tenant, most, share)
}

// Refused is how many found the waiting line full, and how many their tenant's share of it.
func (p *Pool) Refused() (full, share uint64) {
	return p.line.refused.Load(), p.line.refusedShare.Load()
}

// Waiting is how many requests wait for a slot.
func (p *Pool) Waiting() int { return p.line.length() }

// Ready is closed when a slot may have become free: time to route again.
func (w *Waiter) Ready() <-chan struct{} { return w.ready }

// First reports whether nobody waits before this waiter, nor was called and is still on
// its way to a slot, so that it may try for one without being called: a slot may have
// become free before it had its place.
func (w *Waiter) First() bool {
	w.line.mu.Lock()
	defer w.line.mu.Unlock()
	return w.line.called == 0 && len(w.line.waiters) > 0 && w.line.waiters[0] == w
}

// Again takes a place at the front of the line, for a waiter that was called but
// found the slot taken.
func (w *Waiter) Again() {
	w.line.mu.Lock()
	defer w.line.mu.Unlock()
	w.answer()
	w.ready = make(chan struct{})
	w.line.waiters = slices.Insert(w.line.waiters, 0, w)
	w.line.count(w, 1)
}

// Leave gives the place up. took says that the waiter got a slot; one that was
// called and leaves without passes the call on.
func (w *Waiter) Leave(took bool) {
	w.line.mu.Lock()
	defer w.line.mu.Unlock()
	w.answer()
	if i := slices.Index(w.line.waiters, w); i >= 0 {
		w.line.waiters = slices.Delete(w.line.waiters, i, i+1)
		w.line.count(w, -1)
		return
	}
	if !took {
		w.line.call(1)
	}
}

// answer notes that a waiter that was called says what came of it. line.mu is held.
func (w *Waiter) answer() {
	if w.called {
		w.called = false
		w.line.called--
	}
}

func (l *line) join(tenant string, most, share int) (*Waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.waiters) >= most:
		l.refused.Add(1)
		return nil, ErrLineFull
	case tenant != "" && l.tenants[tenant] >= share:
		l.refusedShare.Add(1)
		return nil, ErrShareFull
	}
	w := &Waiter{line: l, tenant: tenant, ready: make(chan struct{})}
	l.waiters = append(l.waiters, w)
	l.count(w, 1)
	return w, nil
}

// count notes that a waiter has a place, or has it no more. l.mu is held.
func (l *line) count(w *Waiter, by int) {
	if w.tenant == "" {
		return
	}
	if l.tenants == nil {
		l.tenants = make(map[string]int)
	}
	if l.tenants[w.tenant] += by; l.tenants[w.tenant] == 0 {
		delete(l.tenants, w.tenant)
	}
}

// occupied reports whether anybody waits, or was called and is on its way.
func (l *line) occupied() bool { return l.length() > 0 }

func (l *line) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiters)
}

// wake calls as many waiters as slots became free.
func (l *line) wake(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call(n)
}

func (l *line) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call(len(l.waiters))
}

// call calls the first n waiters. l.mu is held.
func (l *line) call(n int) {
	n = min(n, len(l.waiters))
	for _, w := range l.waiters[:n] {
		w.called = true
		l.called++
		l.count(w, -1)
		close(w.ready)
	}
	l.waiters = slices.Delete(l.waiters, 0, n)
}
