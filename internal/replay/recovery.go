package replay

import (
	"time"

	"github.com/warmroute/warmroute/kvindex"
)

// watched is how many answers after a fault are watched at most.
const watched = 64

// minWatched is the smallest expectation, in tokens, that makes an answer count.
const minWatched = 128

// Recovery is how a router's picture of one backend healed after a fault: what became of
// the entries that the fault made untrue. Those of requests that were in flight at the
// fault do not count: the router is told of their end, and believes what they prefilled.
type Recovery struct {
	// At is when it happened, Backend to whom, Kind what.
	At      time.Duration
	Backend int
	Kind    FaultKind
	// Gone is how many entries of the index were believed but gone right after it.
	Gone int
	// Answers are the answers that were sent to the backend after the fault in the hope
	// of a hit, in the order in which they ended, up to the one that left nothing of that.
	Answers []Witness
	// Healed says that nothing of it was left at last, Took after how long.
	Healed bool
	Took   time.Duration

	left []kvindex.Key // what is still believed but gone
}

// Witness is an answer after a fault.
type Witness struct {
	// At is when it ended.
	At time.Duration
	// Expected and Delivered are the cached tokens that were expected and found.
	Expected, Delivered int
	// Gone is how many of the entries were still believed but gone then. InHand are those
	// of them that stand for prompts sent to the engine since and not finished: it is
	// about to compute them.
	Gone, InHand int
}

// watch begins to look how the router finds out about a fault.
func (n *node) watch(at time.Duration, kind FaultKind) {
	x := n.fleet.index
	if x.claims == nil {
		return
	}
	busy := n.busy()
	r := &Recovery{At: at, Backend: n.number, Kind: kind}
	for key := range x.claims {
		if !busy[key] && x.goneFrom(n.holder, key) {
			r.left = append(r.left, key)
		}
	}
	r.Gone = len(r.left)
	n.recovery = r
	n.fleet.result.Recoveries = append(n.fleet.result.Recoveries, r)
	n.checkRecovery()
}

// busy are the keys of the prompts that the engine has not finished.
func (n *node) busy() map[kvindex.Key]bool {
	keys := make(map[kvindex.Key]bool)
	for _, fl := range n.flights {
		for _, key := range fl.keys {
			keys[key] = true
		}
	}
	return keys
}

// inHand counts the keys that are of prompts that the engine has not finished.
func (n *node) inHand(keys []kvindex.Key) int {
	if len(keys) == 0 {
		return 0
	}
	busy, count := n.busy(), 0
	for _, key := range keys {
		if busy[key] {
			count++
		}
	}
	return count
}

// witness takes in an answer, around tell, which tells the router of it.
func (n *node) witness(fl *flight, tell func()) {
	r := n.recovery
	if r == nil || fl.decision == nil || fl.at < r.At || fl.believed() < minWatched {
		tell()
		return
	}
	w := Witness{At: n.fleet.now, Expected: fl.believed(), Delivered: fl.cached}
	tell()
	n.checkRecovery()
	w.Gone, w.InHand = len(r.left), n.inHand(r.left)
	r.Answers = append(r.Answers, w)
	if len(r.Answers) == watched {
		n.recovery = nil
	}
}

// checkRecovery looks what is left of a fault's untrue entries, and ends the watch when
// nothing is.
func (n *node) checkRecovery() {
	r := n.recovery
	if r == nil {
		return
	}
	left := r.left[:0]
	for _, key := range r.left {
		if n.fleet.index.goneFrom(n.holder, key) {
			left = append(left, key)
		}
	}
	if r.left = left; len(left) == 0 {
		r.Healed, r.Took = true, n.fleet.now-r.At
		n.recovery = nil
	}
}
