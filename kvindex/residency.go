package kvindex

import (
	"sort"
	"sync"
)

// residency is what one backend is believed to hold, in order of last use. The
// list is the writers' side of the index: it decides what goes, and clears the
// bit that readers see when it does.
type residency struct {
	plane *plane
	mask  uint64

	merging sync.Mutex // held while the list is gone through; not to be taken after mu

	mu        sync.Mutex // not to be taken after a shard's lock
	list      *recency
	latest    Stamp // of the newest entry; every record gets a later one
	horizon   Stamp // up to which everything was forgotten
	restored  Stamp // of the newest entry when something was last restored
	capacity  int   // what the engine can hold
	share     int   // what the index may spend on this backend
	evicted   uint64
	removing  bool // entries leave because they were taken back or forgotten, not pushed out
	restoring bool // entries are being restored that readers do not find yet
	closed    bool
}

func newResidency(p *plane, bit, capacity int) *residency {
	r := &residency{plane: p, mask: 1 << bit, capacity: capacity, share: capacity}
	r.list = newRecency(max(capacity, 1), r.onLeave)
	return r
}

// onLeave keeps the readers' side in step with the list. r.mu is held.
func (r *residency) onLeave(key Key) {
	r.plane.unset(key, r.mask)
	if !r.removing {
		r.evicted++
	}
}

func (r *residency) bound() int { return max(min(r.capacity, r.share), 1) }

func (r *residency) setCapacity(blocks int) {
	r.mu.Lock()
	r.capacity = blocks
	r.mu.Unlock()
	r.fit()
}

func (r *residency) setShare(blocks int) {
	r.mu.Lock()
	r.share = blocks
	r.mu.Unlock()
	r.fit()
}

// fit lets the oldest entries go that the bound has no room for, some at a time.
func (r *residency) fit() {
	for r.fitSome() {
	}
}

// fitSome reports whether there are more to go.
func (r *residency) fitSome() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.list.resize(r.bound(), stepBatch)
}

// close lets everything go, for good, some at a time.
func (r *residency) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for r.closeSome() {
	}
}

// closeSome reports whether there is more to go.
func (r *residency) closeSome() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removing = true
	r.list.removeOldest(stepBatch)
	return r.list.len() > 0
}

func (r *residency) stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Blocks: r.list.len(), Capacity: r.bound(), Evicted: r.evicted}
}

// depth returns how many leading keys readers find. r.mu is held.
func (r *residency) depth(keys []Key) int {
	low, high := 0, len(keys)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if r.plane.get(keys[mid])&r.mask != 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

func (r *residency) record(keys []Key, now Stamp, status Status) Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return Receipt{}
	}
	keys = keys[:min(len(keys), r.bound())]
	r.latest = max(r.latest+1, now)
	evicted := r.evicted
	receipt := Receipt{Before: r.depth(keys), Recorded: len(keys), Stamp: r.latest}
	r.readUses(keys[:receipt.Before], &receipt.Uses)
	fresh := entry{lastUse: r.latest, status: status}
	whole := true
	for i := len(keys) - 1; i >= 0; i-- {
		kept := fresh
		if i < receipt.Before {
			known, ok := r.list.peek(keys[i])
			kept.status = max(known.status, status)
			whole = whole && ok
		}
		r.list.touch(keys[i], kept)
	}
	// The readers' side is filled head first, so that a match that runs
	// meanwhile sees a shorter prefix, never one with a hole. Blocks that were
	// known need it only when making room for the tail may have pushed them out
	// before they were touched, or where what was restored had a hole.
	unseen := keys[receipt.Before:]
	if r.evicted != evicted || !whole {
		unseen = keys
	}
	for _, key := range unseen {
		r.plane.set(key, r.mask)
	}
	return receipt
}

// readUses writes the runs of equal last uses of keys, all of which the list holds.
// Last uses only fall along a chain, so a run's end is found by bisection.
func (r *residency) readUses(keys []Key, uses *[MaxUses]Use) {
	lastUse := func(i int) Stamp {
		known, _ := r.list.peek(keys[i])
		return known.lastUse
	}
	start := 0
	for run := 0; start < len(keys) && run < MaxUses; run++ {
		last := lastUse(start)
		end := start + 1 + sort.Search(len(keys)-start-1, func(i int) bool { return lastUse(start+1+i) != last })
		if run == MaxUses-1 && end < len(keys) {
			last, end = lastUse(len(keys)-1), len(keys)
		}
		uses[run] = Use{Until: end, Last: last}
		start = end
	}
}

func (r *residency) retract(keys []Key, receipt Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restoring || receipt.Stamp <= r.restored {
		return // what was restored may rest on these blocks
	}
	r.removing = true
	defer func() { r.removing = r.closed }()
	for i := min(receipt.Recorded, len(keys)) - 1; i >= receipt.Before; i-- {
		known, ok := r.list.peek(keys[i])
		if !ok {
			continue // pushed out already
		}
		if known.status != Predicted || known.lastUse != receipt.Stamp {
			return // somebody else uses it, and so all before it
		}
		r.list.remove(keys[i])
	}
}

// stepBatch is how many entries leave at a time, whatever the reason: decisions that record
// meanwhile wait for no more.
const stepBatch = 1024

func (r *residency) forget(horizon Stamp) int {
	forgotten := 0
	for {
		n := r.forgetSome(horizon)
		forgotten += n
		if n < stepBatch {
			return forgotten
		}
	}
}

// forgetSome forgets at most stepBatch entries, tails first, so that every batch leaves
// whole prefixes behind.
func (r *residency) forgetSome(horizon Stamp) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removing = true
	defer func() { r.removing = r.closed }()
	r.horizon = max(r.horizon, horizon)
	for n := range stepBatch {
		oldest, ok := r.list.first()
		if !ok || oldest.lastUse > horizon {
			return n
		}
		r.list.removeOldest(1)
	}
	return stepBatch
}
