package recent

import (
	"cmp"
	"slices"

	"github.com/warmroute/warmroute/kvindex"
)

// NoBlock is the number of no block.
const NoBlock = -1

// Window is requests of one pool, all that ended between two moments. It does not change.
type Window struct {
	// BlockBytes is what a key names, in bytes of key stream.
	BlockBytes int
	// Blocks are the blocks of their prompts, each after its parent.
	Blocks []Block
	// Requests are the requests in the order in which they arrived.
	Requests []Prompt
	// Whole says that nothing was left out: it is all that is remembered of the pool.
	Whole bool
}

// Block is a block with its place in the prompts that have it.
type Block struct {
	// Key names it, and all before it.
	Key kvindex.Key
	// Parent is the number of the block before it, [NoBlock] where it is the first.
	Parent int32
}

// Prompt is a request of a window.
type Prompt struct {
	Facts
	// Last is the number of the last block of its prompt, [NoBlock] where it has none, and
	// Depth how many it has. StreamBytes is the length of all of it, in bytes of key stream.
	Last, Depth, StreamBytes int32
}

// stepWork bounds what is looked at without letting others in between, in runs and keys: as
// long as adding a request takes.
const stepWork = 256

// Window returns the newest requests of a pool that keep accepts, which is asked from the
// newest to the oldest until it says no. Requests that end meanwhile are not in it. Others wait
// while keep is asked.
func (s *Store) Window(name string, keep func(Prompt) bool) *Window {
	w := &windowing{store: s, window: &Window{Whole: true}, known: make(map[beginning]stretch), keep: keep}
	if !w.begin(name) {
		return w.window
	}
	for w.step() {
	}
	slices.Reverse(w.window.Requests) // as they ended, for those that arrived at one time
	slices.SortStableFunc(w.window.Requests, func(a, b Prompt) int { return cmp.Compare(a.Arrived.UnixNano(), b.Arrived.UnixNano()) })
	return w.window
}

// windowing is a window as far as it is made.
type windowing struct {
	store  *Store
	window *Window
	keep   func(Prompt) bool
	pool   uint16
	known  map[beginning]stretch

	next     ref // request
	sequence uint64
	runs     []ref // scratch
	work     int   // of this step
}

// beginning is where a run begins: with a key, after a block of the window.
type beginning struct {
	after int32
	first kvindex.Key
}

// stretch are blocks of a window that follow each other.
type stretch struct{ first, n int32 }

// begin looks for the pool; ok is false when nothing is remembered of it.
func (w *windowing) begin(name string) (ok bool) {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	number, ok := s.numbers[name]
	if !ok || s.newest == 0 {
		return false
	}
	w.pool, w.window.BlockBytes = number, s.pools[number].blockBytes
	w.next, w.sequence = s.newest, s.at(s.newest).sequence()
	return true
}

// step copies some requests; more is false when there are no others.
func (w *windowing) step() (more bool) {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for w.work = 0; w.work < stepWork; w.work++ {
		if w.sequence+uint64(s.held) < s.added { //nolint:gosec // not negative
			return false // it has left meanwhile, and all that are older have
		}
		c := s.at(w.next)
		if c.pool() == w.pool && !w.copy(c) {
			w.window.Whole = false
			return false
		}
		if w.next = c.older(); w.next == 0 {
			return false
		}
		w.sequence--
	}
	return true
}

// copy takes a request into the window; false is that no more are wanted.
func (w *windowing) copy(c *cell) bool {
	facts, stream := c.request()
	p := Prompt{Facts: facts, Last: NoBlock, StreamBytes: int32(stream)} //nolint:gosec // as it was kept
	w.runs = w.runs[:0]
	for r := c.parent; r != 0; r = w.store.at(r).parent {
		w.runs = append(w.runs, r)
	}
	w.work += len(w.runs)
	for _, r := range slices.Backward(w.runs) {
		at := w.blocks(r, p.Last)
		p.Last, p.Depth = at.first+at.n-1, p.Depth+at.n
	}
	if !w.keep(p) {
		return false
	}
	w.window.Requests = append(w.window.Requests, p)
	return true
}

// blocks returns where the blocks of a run stand in the window, behind parent.
func (w *windowing) blocks(r ref, parent int32) stretch {
	head := w.store.at(r)
	n := int32(head.length()) //nolint:gosec // fewer than the cells have keys
	begin := beginning{parent, head.first()}
	known, ok := w.known[begin]
	if ok && known.n >= n {
		return stretch{known.first, n} // one that was parted since is shorter
	}
	at := stretch{int32(len(w.window.Blocks)), n} //nolint:gosec // fewer than the cells have keys
	add := func(keys []uint64) {
		for _, key := range keys {
			w.window.Blocks = append(w.window.Blocks, Block{kvindex.Key(key), parent})
			parent = int32(len(w.window.Blocks) - 1) //nolint:gosec // as above
		}
	}
	add(head.headKeys())
	for r := head.more; r != 0; r = w.store.at(r).more {
		add(w.store.at(r).moreKeys())
	}
	w.known[begin] = at
	w.work += int(n)
	return at
}
