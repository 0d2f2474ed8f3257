package kvindex

// entry is what is known of one block on one backend.
type entry struct {
	lastUse Stamp
	status  Status
}

// recency is a bounded set of entries in the order of their last use. The order has an older
// and a newer part: something is merged in at the border between them
// ([residency.restore]), and the older is empty at other times. It is not safe for concurrent
// use.
//
// An index of a large fleet has hundreds of millions of entries. So there is no object for
// each, and no pointer that the garbage collector would have to follow: entries lie side by
// side in chunks, in no order, are linked by their places, and the last one moves into a
// place that becomes free.
type recency struct {
	bound  int
	leave  func(Key) // called for every entry that leaves the set
	places map[Key]place
	most   int // entries that places has had at once
	chunks []*[chunkSize]slot

	oldest, newest place // none in an empty set
	border         place // the oldest entry of the newer part, none if that is empty
	older          int   // entries of the older part
	side           bool  // of the entries of the newer part
}

// place says where an entry lies: which chunk, and where in it.
type place uint32

const (
	none      place = 1<<32 - 1
	chunkBits       = 8
	chunkSize       = 1 << chunkBits // entries
)

// slot is one entry.
type slot struct {
	key          Key
	lastUse      Stamp
	older, newer place // its neighbours in the order
	status       Status
	side         bool // which part it is in
}

func newRecency(bound int, leave func(Key)) *recency {
	return &recency{bound: bound, leave: leave, places: make(map[Key]place), oldest: none, newest: none, border: none}
}

func (l *recency) len() int { return len(l.places) }

func (l *recency) contains(key Key) bool {
	_, ok := l.places[key]
	return ok
}

func (l *recency) peek(key Key) (entry, bool) {
	at, ok := l.places[key]
	if !ok {
		return entry{}, false
	}
	return l.at(at).entry(), true
}

// first returns the oldest entry.
func (l *recency) first() (entry, bool) { return l.entryAt(l.oldest) }

// next returns the oldest entry of the newer part.
func (l *recency) next() (entry, bool) { return l.entryAt(l.border) }

func (l *recency) entryAt(at place) (entry, bool) {
	if at == none {
		return entry{}, false
	}
	return l.at(at).entry(), true
}

// touch adds an entry, or changes it, as the newest. A full set lets its oldest go.
func (l *recency) touch(key Key, e entry) {
	at, ok := l.places[key]
	if ok {
		l.unlink(at)
	} else {
		at = l.room(key)
	}
	l.put(at, key, e)
	l.link(at, none, l.side)
}

// append adds an entry as the newest of the older part, unless the newer has the block. A
// full set lets its oldest go, and takes nothing that would be its oldest itself.
func (l *recency) append(key Key, e entry) {
	at, ok := l.places[key]
	switch {
	case ok && l.at(at).side == l.side:
		return
	case ok:
		l.unlink(at)
	case l.len() >= l.bound && l.older == 0:
		return
	default:
		at = l.room(key)
	}
	l.put(at, key, e)
	l.link(at, l.border, !l.side)
}

// advance moves the oldest entry of the newer part into the older, whose newest it becomes.
// The newer part must not be empty.
func (l *recency) advance() (Key, entry) {
	s := l.at(l.border)
	s.side = !l.side
	l.older++
	l.border = s.newer
	return s.key, s.entry()
}

// settle ends a merge: everything has gone into the older part, and is the newer from now
// on.
func (l *recency) settle() {
	l.side = !l.side
	l.border, l.older = l.oldest, 0
}

func (l *recency) remove(key Key) {
	if at, ok := l.places[key]; ok {
		l.drop(at)
	}
}

// removeOldest removes the oldest n entries.
func (l *recency) removeOldest(n int) {
	for ; n > 0 && l.oldest != none; n-- {
		l.drop(l.oldest)
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
	return true
}

// room returns the place of a new entry, which is linked nowhere yet. In a full set it is
// the oldest's.
func (l *recency) room(key Key) place {
	if at := l.oldest; at != none && l.len() >= l.bound {
		l.unlink(at)
		l.forget(at)
		l.places[key] = at
		return at
	}
	at := place(len(l.places))
	if int(at)>>chunkBits == len(l.chunks) {
		l.chunks = append(l.chunks, new([chunkSize]slot))
	}
	l.places[key] = at
	l.most = max(l.most, len(l.places))
	return at
}

// drop removes the entry at a place, into which the last one moves.
func (l *recency) drop(at place) {
	l.unlink(at)
	l.forget(at)
	last := place(len(l.places)) // the others are as many, and it is behind them
	if at != last {
		moved := *l.at(last)
		*l.at(at) = moved
		l.places[moved.key] = at
		l.rejoin(last, at)
	}
	if spare := len(l.chunks) - int(last)>>chunkBits; spare > 2 {
		l.chunks[len(l.chunks)-1] = nil
		l.chunks = l.chunks[:len(l.chunks)-1]
	}
	if last == 0 && l.most > 4*chunkSize { // a map never becomes smaller by itself
		l.places, l.most = make(map[Key]place), 0
	}
}

// forget takes the entry at a place out of the set.
func (l *recency) forget(at place) {
	key := l.at(at).key
	delete(l.places, key)
	l.leave(key)
}

// at returns the slot of a place, until the next change of the set.
func (l *recency) at(p place) *slot { return &l.chunks[p>>chunkBits][p%chunkSize] }

func (s *slot) entry() entry { return entry{lastUse: s.lastUse, status: s.status} }

func (l *recency) put(at place, key Key, e entry) {
	s := l.at(at)
	s.key, s.lastUse, s.status = key, e.lastUse, e.status
}

// link puts what is at a place before another in the order, and into a part; before none it
// is the newest.
func (l *recency) link(at, before place, side bool) {
	s := l.at(at)
	s.newer, s.side = before, side
	if before == none {
		s.older, l.newest = l.newest, at
	} else {
		b := l.at(before)
		s.older, b.older = b.older, at
	}
	if s.older == none {
		l.oldest = at
	} else {
		l.at(s.older).newer = at
	}
	switch {
	case side != l.side:
		l.older++
	case l.border == none:
		l.border = at
	}
}

// unlink takes what is at a place out of the order.
func (l *recency) unlink(at place) {
	s := l.at(at)
	if s.older == none {
		l.oldest = s.newer
	} else {
		l.at(s.older).newer = s.newer
	}
	if s.newer == none {
		l.newest = s.older
	} else {
		l.at(s.newer).older = s.older
	}
	if s.side != l.side {
		l.older--
	}
	if at == l.border {
		l.border = s.newer
	}
}

// rejoin makes the neighbours of an entry know that it moved.
func (l *recency) rejoin(from, to place) {
	s := l.at(to)
	if s.older == none {
		l.oldest = to
	} else {
		l.at(s.older).newer = to
	}
	if s.newer == none {
		l.newest = to
	} else {
		l.at(s.newer).older = to
	}
	if l.border == from {
		l.border = to
	}
}
