package enginesim

// blockCache is the KV memory of an engine cut into blocks, and the record of
// which block holds which chained id.
//
// Blocks that no sequence references wait in one free list, oldest first, and
// keep their id until they are taken for something else: that list is the
// prefix cache's eviction order. It follows vLLM's block pool: a block without
// an id goes to the front when it is freed, a sequence's blocks are freed last
// first so that a chain loses its tail before its head, and two sequences that
// computed the same block at the same time hold one copy each.
type blockCache struct {
	size   int
	blocks []kvBlock // index 0 is the ends of the free list, not a block
	byID   map[BlockID]int32
	free   int
	cached int // blocks that carry an id, referenced or not

	evicted int64 // blocks that lost their id to make room
}

// kvBlock is one block of KV memory. While refs is 0 it is on the free list.
type kvBlock struct {
	id         BlockID
	refs       int32
	prev, next int32 // neighbours on the free list
	same       int32 // next holder of the same id, 0 at the end
	hashed     bool
}

func newBlockCache(blocks, size int) *blockCache {
	c := &blockCache{
		size:   size,
		blocks: make([]kvBlock, blocks+1),
		byID:   make(map[BlockID]int32),
		free:   blocks,
	}
	for i := range c.blocks {
		c.blocks[i].prev = int32(i - 1)
		c.blocks[i].next = int32(i + 1)
	}
	c.blocks[0].prev = int32(blocks)
	c.blocks[blocks].next = 0
	return c
}

// total returns how many blocks there are.
func (c *blockCache) total() int { return len(c.blocks) - 1 }

// lookup returns how many of the leading ids are held, and how many of those
// blocks are on the free list, looking at no more than limit ids.
func (c *blockCache) lookup(ids []BlockID, limit int) (hits, idle int) {
	for hits < limit && hits < len(ids) {
		b, ok := c.byID[ids[hits]]
		if !ok {
			break
		}
		if c.blocks[b].refs == 0 {
			idle++
		}
		hits++
	}
	return hits, idle
}

// share appends to table the blocks that hold ids, with a reference to each.
// All ids must be held.
func (c *blockCache) share(table []int32, ids []BlockID) []int32 {
	for _, id := range ids {
		b := c.byID[id]
		if c.blocks[b].refs == 0 {
			c.unlink(b)
		}
		c.blocks[b].refs++
		table = append(table, b)
	}
	return table
}

// take appends n blocks from the front of the free list to table, evicting what
// they held. There must be n free blocks.
func (c *blockCache) take(table []int32, n int) []int32 {
	for range n {
		b := c.blocks[0].next
		c.unlink(b)
		if c.blocks[b].hashed {
			c.dropID(b)
			c.evicted++
		}
		c.blocks[b].refs = 1
		table = append(table, b)
	}
	return table
}

// name gives a referenced block its id, which makes it visible to lookups.
func (c *blockCache) name(b int32, id BlockID) {
	block := &c.blocks[b]
	if block.hashed {
		return
	}
	block.id, block.hashed, block.same = id, true, 0
	c.cached++
	first, ok := c.byID[id]
	if !ok {
		c.byID[id] = b
		return
	}
	block.same = c.blocks[first].same
	c.blocks[first].same = b
}

// release gives back one reference to each block of table, last block first.
func (c *blockCache) release(table []int32) {
	for i := len(table) - 1; i >= 0; i-- {
		b := table[i]
		block := &c.blocks[b]
		block.refs--
		switch {
		case block.refs > 0:
		case block.hashed:
			c.link(b, c.blocks[0].prev)
		default:
			c.link(b, 0)
		}
	}
}

// reset forgets every id. References stay as they are.
func (c *blockCache) reset() {
	for i := range c.blocks {
		c.blocks[i].hashed, c.blocks[i].id, c.blocks[i].same = false, 0, 0
	}
	clear(c.byID)
	c.cached = 0
}

// link puts a block on the free list after another one.
func (c *blockCache) link(b, after int32) {
	next := c.blocks[after].next
	c.blocks[b].prev, c.blocks[b].next = after, next
	c.blocks[after].next = b
	c.blocks[next].prev = b
	c.free++
}

// unlink takes a block off the free list.
func (c *blockCache) unlink(b int32) {
	prev, next := c.blocks[b].prev, c.blocks[b].next
	c.blocks[prev].next = next
	c.blocks[next].prev = prev
	c.free--
}

// dropID makes a block that carries an id forget it.
func (c *blockCache) dropID(b int32) {
	block := &c.blocks[b]
	c.cached--
	first := c.byID[block.id]
	switch {
	case first == b && block.same == 0:
		delete(c.byID, block.id)
	case first == b:
		c.byID[block.id] = block.same
	default:
		for c.blocks[first].same != b {
			first = c.blocks[first].same
		}
		c.blocks[first].same = block.same
	}
	block.id, block.hashed, block.same = 0, false, 0
}
