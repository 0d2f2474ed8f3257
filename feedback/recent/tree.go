package recent

import "github.com/warmroute/warmroute/kvindex"

// tree is the runs of blocks: all that stand in the cells, found by the first key of each.
type tree struct {
	arena
	buckets []ref // a power of two; the first run of each
}

// bucket is where a run is found whose first key it is. Keys are hashes already.
func (t *tree) bucket(first kvindex.Key) *ref {
	return &t.buckets[uint64(first)&uint64(len(t.buckets)-1)]
}

// find returns the run after parent that begins with a key; 0 when there is none.
func (t *tree) find(parent ref, first kvindex.Key) ref {
	for r := *t.bucket(first); r != 0; r = ref(t.at(r).peer) {
		if c := t.at(r); c.first() == first && c.parent == parent {
			return r
		}
	}
	return 0
}

// link and unlink let a run be found or not.
func (t *tree) link(r ref) {
	c, b := t.at(r), t.bucket(t.at(r).first())
	c.peer, *b = uint32(*b), r
}

func (t *tree) unlink(r ref) {
	b := t.bucket(t.at(r).first())
	if *b == r {
		*b = ref(t.at(r).peer)
		return
	}
	before := t.at(*b)
	for ref(before.peer) != r {
		before = t.at(ref(before.peer))
	}
	before.peer = t.at(r).peer
}

// place is a place in a run: before key number key of a cell. Where that is the head of the
// run, before is 0, else it is the cell before it. At the end of the run, cell is 0 and before
// its last cell.
type place struct {
	before, cell ref
	key          int
}

// follow returns how many of the keys a run begins with, and where the two part.
func (t *tree) follow(r ref, keys []kvindex.Key) (n int, parts place) {
	c := t.at(r)
	for i, own := range c.headKeys() {
		if i == len(keys) || kvindex.Key(own) != keys[i] {
			return i, place{0, r, i}
		}
	}
	n = c.headN()
	before := r
	for r = c.more; r != 0; before, r = r, c.more {
		c = t.at(r)
		for i, own := range c.moreKeys() {
			if n == len(keys) || kvindex.Key(own) != keys[n] {
				return n, place{before, r, i}
			}
			n++
		}
	}
	return n, place{before, 0, 0}
}

// split parts a run in two. The first n keys, which are before the place, become a run of its
// own, whose head is spare, a cell with nothing in it: so whoever follows the run still does.
func (t *tree) split(r ref, n int, at place, spare ref) {
	t.unlink(r)
	run, front := t.at(r), t.at(spare)
	front.parent, front.uses = run.parent, 1
	run.parent = spare
	if at.before == 0 { // within the head
		keys := run.headKeys()
		copy(front.words[1:], keys[:n])
		front.setHead(spare, n, n)
		copy(keys, keys[n:])
		run.setHead(run.headLast(), len(keys)-n, run.length()-n)
	} else {
		copy(front.words[1:], run.headKeys())
		t.splitAfterHead(r, n, at, spare)
	}
	t.link(spare)
	t.link(r)
}

// splitAfterHead parts a run whose head's keys all go to the front.
func (t *tree) splitAfterHead(r ref, n int, at place, spare ref) {
	run, front, c := t.at(r), t.at(spare), t.at(at.cell)
	last, following := run.headLast(), c.more
	frontLast := at.cell
	if at.key == 0 {
		if frontLast = at.before; frontLast == r {
			frontLast = spare
		}
	}
	if frontLast != spare {
		front.more = run.more
		t.at(frontLast).more = 0
	}
	front.setHead(frontLast, run.headN(), n)

	rest := c.moreKeys()[at.key:]
	moved := copy(run.words[1:], rest)
	left := copy(rest, rest[moved:])
	switch {
	case at.key > 0: // the cell stays with the front; its rest fits into a head
		c.setMoreN(at.key)
	case left > 0: // the cell goes on after the new head
		c.setMoreN(left)
		following = at.cell
	default:
		t.give(at.cell, at.cell)
	}
	run.more = following
	if following == 0 {
		last = r
	}
	run.setHead(last, moved, run.length()-n)
}
