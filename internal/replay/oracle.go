package replay

import "github.com/warmroute/warmroute/internal/workload"

import "github.com/warmroute/warmroute/internal/enginesim"

// oracleWeight is what an uncached token of the prompt counts against one that is queued
// before it: it also delays whoever comes next.
const oracleWeight = 2

// foresee returns the engine that the oracle takes for a request. Equal engines go by what
// they have in hand, then by a random value.
func (f *Fleet) foresee(fl *flight, random uint64) *node {
	type rank struct {
		cost, inHand int
		draw         uint64
	}
	less := func(a, b rank) bool {
		switch {
		case a.cost != b.cost:
			return a.cost < b.cost
		case a.inHand != b.inHand:
			return a.inHand < b.inHand
		}
		return a.draw < b.draw
	}
	var best *node
	var least rank
	for _, n := range f.nodes {
		r := rank{
			cost:   oracleWeight*n.uncached(fl.blocks, fl.prompt) + n.queued(),
			inHand: len(n.flights),
			draw:   workload.Mix(random ^ uint64(n.number)),
		}
		if best == nil || less(r, least) {
			best, least = n, r
		}
	}
	return best
}

// uncached is how many of a number of tokens the engine would have to compute if it took
// them up now. The last one always is.
func (n *node) uncached(blocks []enginesim.BlockID, tokens int) int {
	size := n.engine.BlockSize()
	reach := min(len(blocks), (tokens-1)/size)
	return tokens - size*n.engine.Held(blocks[:reach])
}

// queued is how many tokens the engine has still to take up before all that was sent to it
// decodes.
func (n *node) queued() int {
	sum := 0
	for _, fl := range n.flights {
		p := fl.sequence.Progress()
		context := p.PromptTokens + max(p.Generated-1, 0) // that a next token needs
		if p.State == enginesim.StateRunning {
			sum += max(context-p.ComputedTokens, 0)
		} else {
			sum += n.uncached(fl.blocks, context)
		}
	}
	return sum
}
