package router

import (
	"sync/atomic"

	"github.com/warmroute/warmroute/kvindex"
)

const (
	// headVotes is by how many votes a head must lead to be common, maxHeadVotes how far it
	// can lead: so many requests without it, and it is common no more.
	headVotes    = 8
	maxHeadVotes = 32
)

// commonHead is the head that most of the prompts lately sent to a backend have in common
// and end their match with: the system prompt of the one application that everybody uses.
// Whoever follows the longest match alone leaves such traffic to the few backends that
// happened to compute the head; but a backend computes it once, and every later request
// profits. So it counts as held by all where the holders are busier ([view.spread]). It is
// found by majority vote (Boyer and Moore, 1981).
//
// The zero value knows none. Votes are cast one at a time; readers need no lock.
type commonHead struct {
	votes int
	vote  kvindex.Key   // what leads
	at    int           // its length in blocks
	key   atomic.Uint64 // the last block's key
	depth atomic.Int64  // in blocks; 0 while no head is common
}

// sent takes in that a prompt of keys was sent, of which matched leading blocks were held.
func (h *commonHead) sent(keys []kvindex.Key, matched int) {
	if matched == 0 {
		return
	}
	switch end := keys[matched-1]; {
	case end == h.vote:
		h.votes = min(h.votes+1, maxHeadVotes)
	case h.votes == 0:
		h.vote, h.at, h.votes = end, matched, 1
	default:
		h.votes--
	}
	if h.votes < headVotes {
		h.depth.Store(0)
		return
	}
	h.key.Store(uint64(h.vote))
	h.depth.Store(int64(h.at))
}

// of is how many leading blocks of a prompt are the common head: all of it or none.
func (h *commonHead) of(keys []kvindex.Key) int {
	depth := int(h.depth.Load())
	if depth == 0 || depth > len(keys) || uint64(keys[depth-1]) != h.key.Load() {
		return 0
	}
	return depth
}
