package telemetry

import (
	"sync"
	"sync/atomic"

	"github.com/warmroute/warmroute/feedback"
)

// followBuffer is how many records wait for a reader before some are left out.
const followBuffer = 256

// followers are the readers of records as they come. The zero value has none.
type followers struct {
	mu  sync.Mutex
	all map[*follower]struct{}
}

// follower is one reader.
type follower struct {
	records chan feedback.Record
	missed  atomic.Uint64
}

// tell gives a record to every reader that has room for it.
func (f *followers) tell(r *feedback.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for one := range f.all {
		copied := *r
		copied.Keys = nil // they are lent
		select {
		case one.records <- copied:
		default:
			one.missed.Add(1)
		}
	}
}

// Follow returns the records from now on, and how many were left out since it was last
// asked because the reader was too slow. stop must be called.
func (t *Telemetry) Follow() (records <-chan feedback.Record, missed func() uint64, stop func()) {
	f := &t.followers
	one := &follower{records: make(chan feedback.Record, followBuffer)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = make(map[*follower]struct{})
	}
	f.all[one] = struct{}{}
	return one.records, func() uint64 { return one.missed.Swap(0) }, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.all, one)
	}
}
