package kvindex

import "runtime"

// Entry is a block that a backend holds, and when it was last used.
type Entry struct {
	Key     Key
	LastUse Stamp
}

// mergeBatch is how many entries are merged or walked over at a time: decisions that
// record meanwhile wait for less than a millisecond.
const mergeBatch = 256

// Resident is one backend of a [Memory], from its Add to its Drop. Unlike its number, it never
// stands for another backend: what is done to one that was dropped does nothing. So does
// what is done to the zero Resident.
type Resident struct{ of *residency }

// Resident returns the backend that has a number now.
func (m *Memory) Resident(h Holder) Resident { return Resident{m.resident(h)} }

// Restore merges what is known from elsewhere of what the backend holds: what another router
// learned, or this one before it was started anew. Entries are oldest first; with each
// block, the blocks before it in its chain must be among them, or held, and no older. What
// is known here to be newer stays so, what is at or before a horizon of [Memory.Forget] is
// left out, and beyond the backend's capacity the oldest go. It takes milliseconds for
// every ten thousand entries that there are or come, in steps, and readers find a block
// only when those before it are there.
func (r Resident) Restore(entries []Entry) {
	if r.of != nil && len(entries) > 0 {
		r.of.restore(entries)
	}
}

// Entries visits what the backend holds and was observed to hold, oldest first, some at a
// time; what is used meanwhile may come twice. It ends early when visit returns false.
// The slice is used again.
func (r Resident) Entries(visit func([]Entry) bool) {
	if r.of != nil {
		r.of.walk(visit)
	}
}

// Record does what [Memory.Record] does.
func (r Resident) Record(keys []Key, now Stamp, status Status) Receipt {
	if r.of == nil {
		return Receipt{}
	}
	return r.of.record(keys, now, status)
}

// Retract does what [Memory.Retract] does.
func (r Resident) Retract(keys []Key, receipt Receipt) {
	if r.of != nil {
		r.of.retract(keys, receipt)
	}
}

// Stats does what [Memory.Stats] does.
func (r Resident) Stats() Stats {
	if r.of == nil {
		return Stats{}
	}
	return r.of.stats()
}

func (r *residency) restore(entries []Entry) {
	r.merging.Lock()
	defer r.merging.Unlock()
	r.mark(true)
	defer r.mark(false)
	for rest := entries; ; runtime.Gosched() {
		var done bool
		if rest, done = r.mergeSome(rest); done {
			break
		}
	}
	for rest := entries; len(rest) > 0; runtime.Gosched() {
		rest = r.revealSome(rest)
	}
}

// mark notes that a restore begins or ends.
func (r *residency) mark(restoring bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restoring, r.restored = restoring, r.latest
}

// mergeSome merges entries into the list, from its old end on. It returns those that are
// left; done is true when the whole list has been gone through as well.
func (r *residency) mergeSome(entries []Entry) (rest []Entry, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removing = true
	defer func() { r.removing = r.closed }()
	if r.closed {
		return nil, true
	}
	for range mergeBatch {
		oldest, ok := r.list.next()
		switch {
		case len(entries) > 0 && (!ok || entries[0].LastUse <= oldest.lastUse):
			if e := entries[0]; e.LastUse > r.horizon {
				r.list.append(e.Key, entry{lastUse: e.LastUse, status: Observed})
				r.latest = max(r.latest, e.LastUse)
			}
			entries = entries[1:]
		case ok:
			r.list.advance()
		default:
			r.list.settle()
			return nil, true
		}
	}
	return entries, false
}

// revealSome shows readers the newest of the entries that were merged: heads come before
// tails, so that a match that runs meanwhile sees whole prefixes.
func (r *residency) revealSome(entries []Entry) (rest []Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := max(0, len(entries)-mergeBatch)
	for i := len(entries) - 1; i >= n; i-- {
		if key := entries[i].Key; r.list.contains(key) {
			r.plane.set(key, r.mask)
		}
	}
	return entries[:n]
}

func (r *residency) walk(visit func([]Entry) bool) {
	r.merging.Lock()
	defer r.merging.Unlock()
	r.mu.Lock()
	last := r.latest // what is used from here on is not waited for
	r.mu.Unlock()
	batch := make([]Entry, 0, mergeBatch)
	for done, more := false, true; !done; runtime.Gosched() {
		batch, done = r.walkSome(batch[:0], last)
		if len(batch) > 0 && more {
			more = visit(batch)
		}
	}
}

// walkSome moves some entries on and adds those last used at last or before to batch.
func (r *residency) walkSome(batch []Entry, last Stamp) (walked []Entry, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, true
	}
	for range mergeBatch {
		if _, ok := r.list.next(); !ok {
			r.list.settle()
			return batch, true
		}
		if key, e := r.list.advance(); e.status == Observed && e.lastUse <= last {
			batch = append(batch, Entry{Key: key, LastUse: e.lastUse})
		}
	}
	return batch, false
}
