package kvindex

import "github.com/hashicorp/golang-lru/v2/simplelru"

// entry is what is known of one block on one backend.
type entry struct {
	lastUse Stamp
	status  Status
}

// recency is a bounded set of entries in the order of their last use. It is two lists,
// because the list underneath grows at its new end only: everything in older is older than
// anything in newer, and older is empty except while something is merged in
// ([residency.restore]). It is not safe for concurrent use.
type recency struct {
	older, newer *simplelru.LRU[Key, entry]
	bound        int
	leave        func(Key) // called for every entry that leaves the set
	moving       bool      // an entry changes lists and does not leave
}

func newRecency(bound int, leave func(Key)) *recency {
	l := &recency{bound: bound, leave: leave}
	l.older, l.newer = l.list(), l.list()
	return l
}

func (l *recency) list() *simplelru.LRU[Key, entry] {
	// simplelru fails only for a size below 1.
	list, _ := simplelru.NewLRU(l.bound, func(key Key, _ entry) {
		if !l.moving {
			l.leave(key)
		}
	})
	return list
}

func (l *recency) len() int { return l.older.Len() + l.newer.Len() }

func (l *recency) contains(key Key) bool { return l.newer.Contains(key) || l.older.Contains(key) }

func (l *recency) peek(key Key) (entry, bool) {
	if e, ok := l.newer.Peek(key); ok || l.older.Len() == 0 {
		return e, ok
	}
	return l.older.Peek(key)
}

// touch adds an entry, or changes it, as the newest. A full set lets its oldest go.
func (l *recency) touch(key Key, e entry) {
	if l.older.Len() > 0 {
		l.quietly(func() { l.older.Remove(key) })
		if l.len() >= l.bound && !l.newer.Contains(key) {
			l.removeOldest(1)
		}
	}
	l.newer.Add(key, e)
}

func (l *recency) remove(key Key) {
	if !l.newer.Remove(key) {
		l.older.Remove(key)
	}
}

func (l *recency) oldest() (entry, bool) {
	_, e, ok := l.older.GetOldest()
	if !ok {
		_, e, ok = l.newer.GetOldest()
	}
	return e, ok
}

// removeOldest removes the oldest n entries.
func (l *recency) removeOldest(n int) {
	for range n {
		if _, _, ok := l.older.RemoveOldest(); ok {
			continue
		}
		if _, _, ok := l.newer.RemoveOldest(); !ok {
			return
		}
	}
}

// resize changes the bound, unless more than n entries have to go for it: then the oldest n
// go, and done is false.
func (l *recency) resize(bound, n int) (done bool) {
	excess := max(l.len()-bound, 0)
	l.removeOldest(min(excess, n))
	if excess > n {
		return false
	}
	l.bound = bound
	l.older.Resize(bound)
	l.newer.Resize(bound)
	return true
}

// quietly does what takes entries out of a list to put them into the other.
func (l *recency) quietly(move func()) {
	l.moving = true
	move()
	l.moving = false
}

// advance moves the oldest entry of newer into older, whose newest it becomes.
func (l *recency) advance() (key Key, e entry) {
	l.quietly(func() {
		key, e, _ = l.newer.RemoveOldest()
		l.older.Add(key, e)
	})
	return key, e
}

// append adds an entry as the newest of older, unless newer has the block. A full set lets
// its oldest go, and takes nothing that would be its oldest itself.
func (l *recency) append(key Key, e entry) {
	if l.newer.Contains(key) {
		return
	}
	if l.len() >= l.bound && !l.older.Contains(key) {
		if l.older.Len() == 0 {
			return
		}
		l.removeOldest(1)
	}
	l.older.Add(key, e)
}

// settle ends a merge: everything has gone through older, which is the one list again.
func (l *recency) settle() { l.older, l.newer = l.newer, l.older }
