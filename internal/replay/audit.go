package replay

import (
	"slices"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/kvindex"
)

// auditedIndex is the router's index, of which it is known what every entry claims: that
// an engine holds a certain block. An entry whose engine does not is believed but gone.
//
// An entry stands for a run of bytes; what it claims is the last engine block that ends
// within it or before. Content that the engine only ever sees otherwise than the router
// claims nothing that could be checked.
type auditedIndex struct {
	kvindex.Index
	holders []kvindex.Holder // in the order of registration, which is that of the backends' ids

	claims map[kvindex.Key]enginesim.BlockID // nil when nothing is audited
	held   func(kvindex.Holder, enginesim.BlockID) bool
	depths []int
	before []kvindex.Key

	// Of the last Forget: the entries that went and could be checked, and those of them
	// that the engine still held.
	forgotten, still int
}

// Add implements [kvindex.Index].
func (x *auditedIndex) Add(backend string) (kvindex.Holder, error) {
	all, err := x.AddAll([]string{backend})
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// AddAll implements [kvindex.Index].
func (x *auditedIndex) AddAll(backends []string) ([]kvindex.Holder, error) {
	all, err := x.Index.AddAll(backends)
	for _, h := range all {
		if !slices.Contains(x.holders, h) {
			x.holders = append(x.holders, h)
		}
	}
	return all, err
}

// Forget implements [kvindex.Index].
func (x *auditedIndex) Forget(h kvindex.Holder, horizon kvindex.Stamp) int {
	x.forgotten, x.still = 0, 0
	x.before = x.before[:0]
	for key := range x.claims {
		if made := x.look(key); !made {
			delete(x.claims, key)
		} else if x.depths[h] > 0 {
			x.before = append(x.before, key)
		}
	}
	gone := x.Index.Forget(h, horizon)
	for _, key := range x.before {
		if x.believes(h, key) {
			continue
		}
		x.forgotten++
		if x.held(h, x.claims[key]) {
			x.still++
		}
	}
	return gone
}

// believes reports whether the index holds an entry for a backend.
func (x *auditedIndex) believes(h kvindex.Holder, key kvindex.Key) bool {
	x.look(key)
	return x.depths[h] > 0
}

// look fills depths for one key, and reports whether any backend has an entry for it.
func (x *auditedIndex) look(key kvindex.Key) bool {
	if n := x.Holders(); len(x.depths) < n {
		x.depths = make([]int, n)
	}
	x.Match([]kvindex.Key{key}, x.depths)
	for _, depth := range x.depths {
		if depth > 0 {
			return true
		}
	}
	return false
}

// goneFrom reports whether the index holds an entry for a backend whose engine does not
// hold what it claims.
func (x *auditedIndex) goneFrom(h kvindex.Holder, key kvindex.Key) bool {
	block, known := x.claims[key]
	return known && x.believes(h, key) && !x.held(h, block)
}

// compare counts the entries that can be checked, and those of them whose block the
// backend's engine does not hold. It lets go of claims that nobody makes any more.
func (x *auditedIndex) compare() (entries, gone int) {
	for key, block := range x.claims {
		if made := x.look(key); !made {
			delete(x.claims, key)
			continue
		}
		for h, depth := range x.depths {
			if depth > 0 {
				entries++
				if !x.held(kvindex.Holder(h), block) {
					gone++
				}
			}
		}
	}
	return entries, gone
}

// registerClaims notes what entries for the request's keys would claim.
func (fl *flight) registerClaims() {
	x, u := fl.fleet.index, fl.fleet.units
	blockBytes := fl.fleet.config.Router.BlockBytes
	blockTokens := fl.fleet.nodes[0].engine.BlockSize()
	segment, bytes, tokens := 0, 0, 0 // the segment, and where it begins
	length := u.bytes(fl.ask.Prompt[0])
	for i, key := range fl.keys {
		end := (i + 1) * blockBytes
		for bytes+length < end {
			bytes += length
			tokens += fl.ask.Prompt[segment].Tokens
			segment++
			length = u.bytes(fl.ask.Prompt[segment])
		}
		at := tokens + (end-bytes)*fl.ask.Prompt[segment].Tokens/max(length, 1)
		if block := at/blockTokens - 1; block >= 0 && block < len(fl.blocks) {
			x.claims[key] = fl.blocks[block]
		}
	}
}

// held reports whether the engine behind a holder has a block.
func (f *Fleet) held(h kvindex.Holder, block enginesim.BlockID) bool {
	i := slices.IndexFunc(f.nodes, func(n *node) bool { return n.holder == h })
	f.probe[0] = block
	return i >= 0 && f.nodes[i].engine.Held(f.probe[:]) > 0
}

// sampleIndex compares the whole index with the engines.
func (f *Fleet) sampleIndex() {
	entries, gone := f.index.compare()
	f.result.Entries += entries
	f.result.Gone += gone
}
