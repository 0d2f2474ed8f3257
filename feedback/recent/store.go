package recent

import (
	"math"
	"sync"
	"time"

	"github.com/warmroute/warmroute/kvindex"
)

const (
	// DefaultBytes is how much memory a store takes if nothing else is said.
	DefaultBytes = 64 << 20
	// MinBytes is the least that makes a store.
	MinBytes = 1 << 20
	// MaxBytes is the most that one takes.
	MaxBytes = 16 << 30
)

// largest is the part of all cells that one request may take. A larger one is left out: it
// would drive out too many others.
const largest = 8

// Store remembers the requests that ended last. It is safe for concurrent use.
type Store struct {
	mu sync.Mutex
	tree
	oldest, newest ref
	added          uint64 // requests, ever
	held           int
	leftOut        int
	pools          []pool
	numbers        map[string]uint16 // of pools, by name
}

// pool is what requests of one pool have in common.
type pool struct {
	name       string
	blockBytes int
	added      uint64 // requests, ever
}

// maxPools bounds the pools; requests of further ones are left out. Their names come from
// configuration.
const maxPools = math.MaxUint16

// New returns an empty store that takes at most so many bytes of memory, from [MinBytes] to
// [MaxBytes].
func New(bytes int) *Store {
	bytes = min(max(bytes, MinBytes), MaxBytes)
	const share = 32 // of the bytes that find runs: one for every other cell
	buckets := 1
	for 8*buckets <= bytes/share {
		buckets *= 2
	}
	cells := (bytes - 4*buckets) / (cellBytes + 1) // the list of pages takes less than a byte a cell
	return &Store{tree: tree{arena: newArena(cells), buckets: make([]ref, buckets)}, numbers: make(map[string]uint16)}
}

// Add remembers a request that has ended. The keys are copied.
func (s *Store) Add(q *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool, ok := s.number(q)
	if !ok || len(q.Keys)/moreKeys > s.cells()/largest {
		s.leftOut++
		return
	}
	leaf, spare := s.make(), s.make()
	run, used := s.insert(q.Keys, spare)
	if !used {
		s.give(spare, spare)
	}
	c := s.at(leaf)
	c.parent = run // which insert has counted
	c.setRequest(q, pool, s.added)
	c.setOlder(s.newest)
	if s.newest != 0 {
		s.at(s.newest).setNewer(leaf)
	} else {
		s.oldest = leaf
	}
	s.newest = leaf
	s.added++
	s.pools[pool].added++
	s.held++
}

// Added is how many requests of a pool were remembered, ever: those that have left are counted.
func (s *Store) Added(name string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number, ok := s.numbers[name]; ok {
		return s.pools[number].added
	}
	return 0
}

// number returns the number of a request's pool.
func (s *Store) number(q *Request) (number uint16, ok bool) {
	number, ok = s.numbers[q.Pool]
	if !ok {
		if len(s.pools) == maxPools {
			return 0, false
		}
		number = uint16(len(s.pools)) //nolint:gosec // bounded
		s.numbers[q.Pool] = number
		s.pools = append(s.pools, pool{name: q.Pool, blockBytes: q.BlockBytes})
	}
	return number, s.pools[number].blockBytes == q.BlockBytes
}

// make returns a cell with nothing in it. What is oldest makes room.
func (s *Store) make() ref {
	for {
		if r := s.take(); r != 0 {
			return r
		}
		s.forget()
	}
}

// insert returns the run that ends with the last of the keys, used once more, and whether it
// took the spare cell; 0 where there are no keys.
func (s *Store) insert(keys []kvindex.Key, spare ref) (run ref, used bool) {
	for len(keys) > 0 && !used {
		next := s.find(run, keys[0])
		if next == 0 {
			break
		}
		n, parts := s.follow(next, keys)
		if parts.cell != 0 {
			s.split(next, n, parts, spare)
			next, used = spare, true
		}
		run, keys = next, keys[n:]
	}
	if run != 0 {
		s.at(run).uses++ // before anybody makes room
	}
	if len(keys) > 0 {
		run = s.grow(run, keys)
	}
	return run, used
}

// grow adds a run after one that has counted it, and counts it as used once.
func (s *Store) grow(parent ref, keys []kvindex.Key) ref {
	head := s.make()
	c := s.at(head)
	c.parent, c.uses = parent, 1
	n, length := copyKeys(c.words[1:], keys), len(keys)
	keys = keys[n:]
	last := head
	for len(keys) > 0 {
		more := s.make()
		s.at(last).more = more
		m := s.at(more)
		m.setMoreN(copyKeys(m.words[:], keys))
		keys = keys[m.moreN():]
		last = more
	}
	c.setHead(last, n, length)
	s.link(head)
	return head
}

func copyKeys(dst []uint64, keys []kvindex.Key) int {
	n := min(len(dst), len(keys))
	for i := range n {
		dst[i] = uint64(keys[i])
	}
	return n
}

// forget lets the oldest request go, and the blocks that nobody else has. There is one.
func (s *Store) forget() {
	leaf := s.oldest
	c := s.at(leaf)
	run := c.parent
	if s.oldest = c.newer(); s.oldest != 0 {
		s.at(s.oldest).setOlder(0)
	} else {
		s.newest = 0
	}
	s.held--
	s.give(leaf, leaf)
	for run != 0 {
		c := s.at(run)
		if c.uses--; c.uses > 0 {
			return
		}
		parent := c.parent
		s.unlink(run)
		s.give(run, c.headLast())
		run = parent
	}
}

// Stats are how much is remembered.
type Stats struct {
	// Requests are remembered now; LeftOut were not, ever, because they were too large.
	Requests, LeftOut int
	// Bytes is the memory that it takes.
	Bytes int
	// Oldest and Newest are when the first and the last of them to end arrived; zero where
	// there is none.
	Oldest, Newest time.Time
}

// Stats says how much is remembered.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := Stats{Requests: s.held, LeftOut: s.leftOut, Bytes: s.bytes() + 4*len(s.buckets)}
	if s.held > 0 {
		oldest, _ := s.at(s.oldest).request()
		newest, _ := s.at(s.newest).request()
		stats.Oldest, stats.Newest = oldest.Arrived, newest.Arrived
	}
	return stats
}
