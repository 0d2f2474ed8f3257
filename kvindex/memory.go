package kvindex

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// DefaultCapacity bounds the blocks of a backend whose engine has not stated its
// capacity: 4 M tokens at 4 bytes a token in blocks of 256 bytes, and 15 % on
// top, because believing too little costs more hits than believing too much.
const DefaultCapacity = 4_000_000 * 4 / DefaultBlockBytes * 115 / 100

// DefaultMaxBlocks bounds the entries of one index over all backends, about
// 600 MB.
const DefaultMaxBlocks = 4 << 20

// planeHolders is how many backends share one plane: the bits of a word.
const planeHolders = 64

// maxPlanes bounds the number of backends of one index (4,096).
const maxPlanes = 64

// MemoryConfig sets the bounds of a [Memory] index. Zero values mean the defaults.
type MemoryConfig struct {
	// Capacity is the bound on the blocks of a backend until
	// [Memory.SetCapacity] says better. Default [DefaultCapacity].
	Capacity int
	// MaxBlocks bounds the entries over all backends: each backend may hold at
	// most its equal share. Default [DefaultMaxBlocks].
	MaxBlocks int
}

// Memory is the index in this process: the embedded default, and always the one
// that decides.
//
// For reading, backends are grouped into planes of 64; a plane is a sharded map
// from block key to a word with one bit for each of its backends. For writing,
// each backend has its own recency list, whose evictions clear the bits. Match
// takes only read locks of shards and allocates nothing.
//
// Lock order: Memory.mu, then residency.merging, residency.mu, shard.mu.
type Memory struct {
	config MemoryConfig

	mu      sync.Mutex // registration: serialises Add, Drop and the sharing of MaxBlocks
	numbers map[string]Holder

	planes    atomic.Pointer[[]*plane]     // replaced whole, only ever longer
	residents atomic.Pointer[[]*residency] // indexed by Holder; nil where free
}

var _ Index = (*Memory)(nil)

// NewMemory returns an empty index.
func NewMemory(config MemoryConfig) *Memory {
	if config.Capacity <= 0 {
		config.Capacity = DefaultCapacity
	}
	if config.MaxBlocks <= 0 {
		config.MaxBlocks = DefaultMaxBlocks
	}
	m := &Memory{config: config, numbers: make(map[string]Holder)}
	m.planes.Store(new([]*plane))
	m.residents.Store(new([]*residency))
	return m
}

// Add implements [Index].
func (m *Memory) Add(backend string) (Holder, error) {
	added, err := m.AddAll([]string{backend})
	if err != nil {
		return 0, err
	}
	return added[0], nil
}

// AddAll implements [Index].
func (m *Memory) AddAll(backends []string) ([]Holder, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	added := make(map[string]bool)
	for _, backend := range backends {
		if _, known := m.numbers[backend]; !known {
			added[backend] = true
		}
	}
	const most = maxPlanes * planeHolders
	if all := len(m.numbers) + len(added); all > most {
		return nil, fmt.Errorf("%w: they would be %d, and %d at most", ErrFull, all, most)
	}
	holders := make([]Holder, len(backends))
	residents := slices.Clone(*m.residents.Load())
	free := 0 // no number below is
	for i, backend := range backends {
		h, known := m.numbers[backend]
		if !known {
			for free < len(residents) && residents[free] != nil {
				free++
			}
			h = Holder(free)
			residents = m.settle(residents, free)
			m.numbers[backend] = h
		}
		holders[i] = h
	}
	if len(added) > 0 {
		m.residents.Store(&residents)
		m.share(residents)
	}
	return holders, nil
}

// settle gives a number, which is free or the next one, a residency. m.mu is held.
func (m *Memory) settle(residents []*residency, h int) []*residency {
	planes := *m.planes.Load()
	if h/planeHolders == len(planes) {
		planes = append(slices.Clone(planes), newPlane())
		m.planes.Store(&planes)
	}
	r := newResidency(planes[h/planeHolders], h%planeHolders, m.config.Capacity)
	if h == len(residents) {
		return append(residents, r)
	}
	residents[h] = r
	return residents
}

// Drop implements [Index].
func (m *Memory) Drop(h Holder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	residents := slices.Clone(*m.residents.Load())
	if int(h) < 0 || int(h) >= len(residents) || residents[h] == nil {
		return
	}
	for id, number := range m.numbers {
		if number == h {
			delete(m.numbers, id)
		}
	}
	residents[h].close()
	residents[h] = nil
	m.residents.Store(&residents)
	m.share(residents)
}

// share gives every backend its equal part of MaxBlocks. m.mu is held.
func (m *Memory) share(residents []*residency) {
	live := 0
	for _, r := range residents {
		if r != nil {
			live++
		}
	}
	for _, r := range residents {
		if r != nil {
			r.setShare(max(m.config.MaxBlocks/live, 1))
		}
	}
}

// resident returns the residency of h, nil when there is none.
func (m *Memory) resident(h Holder) *residency {
	residents := *m.residents.Load()
	if int(h) < 0 || int(h) >= len(residents) {
		return nil
	}
	return residents[h]
}

// SetCapacity implements [Index].
func (m *Memory) SetCapacity(h Holder, blocks int) {
	if r := m.resident(h); r != nil {
		r.setCapacity(blocks)
	}
}

// Holders implements [Index].
func (m *Memory) Holders() int { return len(*m.residents.Load()) }

// Match implements [Index].
func (m *Memory) Match(keys []Key, depths []int) {
	clear(depths)
	if len(keys) == 0 {
		return
	}
	for i, p := range *m.planes.Load() {
		if i*planeHolders >= len(depths) {
			return
		}
		p.match(keys, depths[i*planeHolders:])
	}
}

// Record implements [Index].
func (m *Memory) Record(h Holder, keys []Key, now Stamp, status Status) Receipt {
	return m.Resident(h).Record(keys, now, status)
}

// Retract implements [Index].
func (m *Memory) Retract(h Holder, keys []Key, receipt Receipt) {
	m.Resident(h).Retract(keys, receipt)
}

// Forget implements [Index].
func (m *Memory) Forget(h Holder, horizon Stamp) int {
	if r := m.resident(h); r != nil {
		return r.forget(horizon)
	}
	return 0
}

// Stats implements [Index].
func (m *Memory) Stats(h Holder) Stats {
	return m.Resident(h).Stats()
}

// planeShards is the number of shards of a plane, a power of two.
const planeShards = 128

// plane maps block keys to the set of its 64 backends that hold them.
type plane struct {
	shards [planeShards]shard
}

type shard struct {
	mu      sync.RWMutex
	holders map[Key]uint64
	_       [32]byte // a shard has its cache line to itself
}

func newPlane() *plane {
	p := new(plane)
	for i := range p.shards {
		p.shards[i].holders = make(map[Key]uint64)
	}
	return p
}

// shard returns the shard of key. Keys are hashes: their top bits are as good as
// any, and the map below uses the others.
func (p *plane) shard(key Key) *shard {
	return &p.shards[key>>(64-bits.Len(planeShards-1))]
}

func (p *plane) get(key Key) uint64 {
	s := p.shard(key)
	s.mu.RLock()
	set := s.holders[key]
	s.mu.RUnlock()
	return set
}

func (p *plane) set(key Key, mask uint64) {
	s := p.shard(key)
	s.mu.Lock()
	s.holders[key] |= mask
	s.mu.Unlock()
}

func (p *plane) unset(key Key, mask uint64) {
	s := p.shard(key)
	s.mu.Lock()
	if set := s.holders[key] &^ mask; set != 0 {
		s.holders[key] = set
	} else {
		delete(s.holders, key)
	}
	s.mu.Unlock()
}

// match writes the leading depth of every backend of the plane that holds the
// first block.
func (p *plane) match(keys []Key, depths []int) {
	first := p.get(keys[0])
	if first == 0 {
		return
	}
	last := len(keys) - 1
	end := first
	if last > 0 {
		end &= p.get(keys[last])
	}
	setDepths(depths, end, len(keys))
	p.bisect(keys, depths, 0, last, first, end)
}

// bisect finds where the backends that hold keys[low] but not keys[high] stop.
// Holders only become fewer along a chain, so a range whose ends have equal sets
// needs no visit. A set read while a writer is between two blocks may be out of
// line with its neighbours; masking with the ends keeps the result in range.
func (p *plane) bisect(keys []Key, depths []int, low, high int, lowSet, highSet uint64) {
	for lowSet != highSet {
		if high-low <= 1 {
			setDepths(depths, lowSet&^highSet, low+1)
			return
		}
		mid := int(uint(low+high) >> 1)
		midSet := p.get(keys[mid])&lowSet | highSet
		p.bisect(keys, depths, low, mid, lowSet, midSet)
		low, lowSet = mid, midSet
	}
}

func setDepths(depths []int, set uint64, depth int) {
	for ; set != 0; set &= set - 1 {
		if h := bits.TrailingZeros64(set); h < len(depths) {
			depths[h] = depth
		}
	}
}
