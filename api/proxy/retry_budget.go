package proxy

import (
	"sync"
	"time"
)

// The retry budget: a fleet in trouble must not be sent several times the traffic
// that brought it there.
const (
	retryShare  = 0.2 // of the requests in the window
	retryFloor  = 10  // retries that a quiet router has in any window
	retrySlots  = 10
	retrySecond = time.Second
)

// retryBudget bounds retries to a share of the requests of the last ten seconds.
// The zero value is ready.
type retryBudget struct {
	mu       sync.Mutex
	slots    [retrySlots]retryCount
	latest   int64 // the latest second seen
	requests int   // sums over the slots
	retries  int
}

type retryCount struct {
	second   int64
	requests int
	retries  int
}

// request counts a request.
func (b *retryBudget) request(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at(now).requests++
	b.requests++
}

// take asks for one retry.
func (b *retryBudget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	slot := b.at(now)
	if b.retries >= max(retryFloor, int(retryShare*float64(b.requests))) {
		return false
	}
	slot.retries++
	b.retries++
	return true
}

// giveBack returns a retry that was taken but not used.
func (b *retryBudget) giveBack(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slot := b.at(now); slot.retries > 0 {
		slot.retries--
		b.retries--
	}
}

// at lets go of the seconds that have left the window and returns the present one.
// Times may come a little out of order; a clock that was set back far empties the
// window. b.mu is held.
func (b *retryBudget) at(now time.Time) *retryCount {
	second := now.UnixNano() / int64(retrySecond)
	if second < b.latest && b.latest-second < retrySlots {
		second = b.latest
	}
	b.latest = second
	for i := range b.slots {
		if s := &b.slots[i]; second-s.second >= retrySlots || s.second > second {
			b.requests -= s.requests
			b.retries -= s.retries
			*s = retryCount{second: second}
		}
	}
	slot := &b.slots[uint64(second)%retrySlots]
	slot.second = second
	return slot
}
