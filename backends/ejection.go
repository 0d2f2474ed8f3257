package backends

import (
	"fmt"
	"math"
	"time"
)

// Ejection sets when repeated failures take a backend out of rotation.
type Ejection struct {
	// Failures in a row that eject. Default 3.
	Failures int
	// Base is the length of the first ejection; each further one without a
	// success in between lasts twice as long. Default 10 s.
	Base time.Duration
	// Max bounds the length of an ejection. Default 5 min.
	Max time.Duration
	// MaxShare is the largest part of a pool that may be ejected at once, 0..1.
	// Default 0.5.
	MaxShare float64
	// SlowStart is how long a backend that returns takes to get back to its full
	// threshold. Default 30 s.
	SlowStart time.Duration
	// MaxCooling bounds the pause an engine can ask for with Retry-After.
	// Default 30 s.
	MaxCooling time.Duration
}

// DefaultEjection returns the defaults.
func DefaultEjection() Ejection {
	return Ejection{
		Failures:   3,
		Base:       10 * time.Second,
		Max:        5 * time.Minute,
		MaxShare:   0.5,
		SlowStart:  30 * time.Second,
		MaxCooling: 30 * time.Second,
	}
}

// Validate names the first setting that makes no sense.
func (e Ejection) Validate() error {
	switch {
	case e.Failures < 1:
		return fmt.Errorf("ejection.failures: %d is below 1", e.Failures)
	case e.Base <= 0:
		return fmt.Errorf("ejection.base: %v is not above 0", e.Base)
	case e.Max < e.Base:
		return fmt.Errorf("ejection.max: %v is below ejection.base %v", e.Max, e.Base)
	case !(e.MaxShare >= 0 && e.MaxShare <= 1):
		return fmt.Errorf("ejection.max_share: %v is not in 0..1", e.MaxShare)
	case e.SlowStart < 0:
		return fmt.Errorf("ejection.slow_start: %v is negative", e.SlowStart)
	case e.MaxCooling < 0:
		return fmt.Errorf("ejection.max_cooling: %v is negative", e.MaxCooling)
	}
	return nil
}

// Succeeded records that the backend answered a request that it was sent at a moment.
// It ends a row of failures; what an engine answers with 4xx is an answer. The first
// success after an ejection ends that too, also before its time, and only then
// Succeeded returns true. A request that was sent before the ejection proves nothing of
// what came after: an engine that dies may still finish answers.
func (r *Registry) Succeeded(b *Backend, sent time.Time) (returned bool) {
	h := &b.health
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = 0
	returned = h.ejectedUntil.Load() != 0
	if returned && sent.UnixNano() < h.ejectedAt {
		return false
	}
	h.ejections = 0
	h.ejectedUntil.Store(0)
	return returned
}

// Failed records a strike: the backend could not be reached, broke a connection,
// or answered that it is broken. It reports whether the strike ejected it. A
// client that left is never a strike. At most MaxShare of the pool is out at once.
func (r *Registry) Failed(b *Backend, now time.Time) (ejected bool) {
	// One strike at a time per pool: two backends must not both take the last
	// place that MaxShare leaves.
	r.ejecting.Lock()
	defer r.ejecting.Unlock()
	h := &b.health
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	if h.failures < r.ejection.Failures || now.UnixNano() < h.ejectedUntil.Load() || !r.mayEject(now) {
		return false
	}
	r.eject(h, now)
	return true
}

// Eject takes a backend out at once, on the terms of [Registry.Failed]: it was seen to be
// beyond work.
func (r *Registry) Eject(b *Backend, now time.Time) (ejected bool) {
	r.ejecting.Lock()
	defer r.ejecting.Unlock()
	h := &b.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.UnixNano() < h.ejectedUntil.Load() || !r.mayEject(now) {
		return false
	}
	r.eject(h, now)
	return true
}

// eject takes a backend out. r.ejecting and h.mu are held.
func (r *Registry) eject(h *health, now time.Time) {
	length := r.ejection.Max
	if r.ejection.Base <= r.ejection.Max>>h.ejections { // so that doubling does not overflow
		length = r.ejection.Base << h.ejections
	}
	until := now.Add(length).UnixNano()
	h.ejections++
	h.failures = 0
	h.ejectedAt = now.UnixNano()
	h.ejectedUntil.Store(until)
	h.returnedAt.Store(until)
}

// mayEject reports whether one more backend may be ejected. r.ejecting is held.
func (r *Registry) mayEject(now time.Time) bool {
	all, out := 0, 0
	for _, b := range r.Snapshot() {
		if b.Unready() {
			continue // it takes nothing anyway
		}
		all++
		if now.UnixNano() < b.health.ejectedUntil.Load() {
			out++
		}
	}
	return float64(out+1) <= math.Max(r.ejection.MaxShare*float64(all), 0)
}

// Cool records that the engine asked for a pause (429, 503 or 529). after is its
// Retry-After, 0 when it gave none, which counts as a second.
func (r *Registry) Cool(b *Backend, now time.Time, after time.Duration) {
	if after <= 0 {
		after = time.Second
	}
	b.health.coolUntil.Store(now.Add(min(after, r.ejection.MaxCooling)).UnixNano())
}

// Limit is the threshold that holds at a moment for a backend whose full one is
// threshold: a backend that returns from an ejection works its way up.
func (r *Registry) Limit(b *Backend, threshold int, now time.Time) int {
	returned := b.health.returnedAt.Load()
	if returned == 0 || r.ejection.SlowStart <= 0 {
		return threshold
	}
	since := time.Duration(now.UnixNano() - returned)
	if since < 0 && b.health.ejectedUntil.Load() == 0 && b.health.returnedAt.CompareAndSwap(returned, now.UnixNano()) {
		since = 0 // a success has ended the ejection early: this is its return
	}
	if since < 0 || since >= r.ejection.SlowStart {
		return threshold
	}
	return max(1, int(float64(threshold)*float64(since)/float64(r.ejection.SlowStart)))
}
