package recent

import (
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// ref is the number of a cell; 0 is none.
type ref uint32

// cell is a unit of memory, of 64 bytes. It is one of three things, or free:
//
//   - the head of a run of blocks, with its first keys: parent is the run before it, uses how
//     many runs and requests follow it, peer the next run of the same bucket, more the cell
//     with further keys, last the last of these (itself where there is none), n how many keys
//     stand here, length how many in all;
//   - more keys of a run: more and n as above;
//   - a request: parent is the run that its prompt ends with, newer and older are its
//     neighbours in time.
//
// A cell that is free has only more, the next free one.
type cell struct {
	parent, more ref
	uses, peer   uint32 // of a request: newer, older
	words        [6]uint64
}

const (
	cellBytes = 64
	// A head has a word for last, n and length.
	headKeys = 5
	moreKeys = 6
	// lengthShift leaves room for n below the length.
	lengthShift = 3
)

// The parts of a head.

func (c *cell) headLast() ref { low, _ := unpack(c.words[0]); return ref(low) }

func (c *cell) headN() int  { _, high := unpack(c.words[0]); return int(high & (1<<lengthShift - 1)) }
func (c *cell) length() int { _, high := unpack(c.words[0]); return int(high >> lengthShift) }
func (c *cell) setHead(last ref, n, length int) {
	c.words[0] = pack(uint32(last), uint32(length<<lengthShift|n)) //nolint:gosec // fewer keys than the cells hold
}
func (c *cell) headKeys() []uint64 { return c.words[1 : 1+c.headN()] }
func (c *cell) first() kvindex.Key { return kvindex.Key(c.words[1]) }

// The parts of a cell with more keys.

func (c *cell) moreN() int         { return int(c.uses) }
func (c *cell) setMoreN(n int)     { c.uses = uint32(n) } //nolint:gosec // at most moreKeys
func (c *cell) moreKeys() []uint64 { return c.words[:c.moreN()] }

// The parts of a request.

func (c *cell) newer() ref     { return ref(c.uses) }
func (c *cell) older() ref     { return ref(c.peer) }
func (c *cell) setNewer(r ref) { c.uses = uint32(r) }
func (c *cell) setOlder(r ref) { c.peer = uint32(r) }
func (c *cell) sequence() uint64 {
	return c.words[5]
}

// setRequest writes a request, of which pool is the number of its pool and sequence its place
// in time.
func (c *cell) setRequest(q *Request, pool uint16, sequence uint64) {
	overflow := uint32(0)
	if q.Overflow {
		overflow = 1
	}
	c.words = [6]uint64{
		uint64(q.Arrived.UnixNano()), //nolint:gosec // the bits
		pack(tokens(q.PromptTokens), tokens(q.CachedTokens)),
		pack(tokens(q.OutputTokens), micros(q.TTFT)),
		pack(micros(q.Duration), uint32(pool)|uint32(q.Result)<<16|overflow<<24),
		pack(tokens(q.StreamBytes), 0),
		sequence,
	}
}

func (c *cell) pool() uint16 { _, high := unpack(c.words[3]); return uint16(high) } //nolint:gosec // its lower half

// request reads what setRequest wrote.
func (c *cell) request() (f Facts, streamBytes int) {
	prompt, cached := unpack(c.words[1])
	output, ttft := unpack(c.words[2])
	duration, names := unpack(c.words[3])
	stream, _ := unpack(c.words[4])
	return Facts{
		Arrived:      time.Unix(0, int64(c.words[0])), //nolint:gosec // the bits
		Duration:     time.Duration(duration) * time.Microsecond,
		TTFT:         time.Duration(ttft) * time.Microsecond,
		Result:       feedback.Result(names >> 16), //nolint:gosec // its lower byte
		Overflow:     names>>24 != 0,
		PromptTokens: int(prompt) - 1, CachedTokens: int(cached) - 1, OutputTokens: int(output) - 1,
	}, int(stream) - 1
}
