package feedback

import (
	"slices"

	"github.com/warmroute/warmroute/kvindex"
)

// minEvidence is the smallest prediction, in tokens, whose fulfilment says anything.
const minEvidence = 128

// unevenShare is the part of a found length, as its inverse, by which it may be off where
// bytes per token differ along a prompt.
const unevenShare = 16

// maxChain is how many matched blocks are kept to tell chains apart: a megabyte of key
// stream. Longer ones count as the same where they agree so far.
const maxChain = 4096

// Confirmation tolerates what rounding and tokenisation explain: 4 engine blocks, or
// 10 % of the prediction.
const (
	toleratedBlocks = 4
	toleratedShare  = 0.10
)

// Claim is what a finished answer has to say about the index: a prediction in the
// answer's own units, what the engine reported, and how old the entries were that the
// prediction rested on.
type Claim struct {
	// Dispatched is when the request was sent, in the index's time.
	Dispatched kvindex.Stamp
	// Matched are the keys of the matched blocks. The corrector copies what it keeps.
	Matched []kvindex.Key
	// Predicted and Observed are cached tokens, before and after the fact.
	Predicted, Observed int
	// EngineBlock is the engine's cache block in tokens.
	EngineBlock int
	// Missing is when the first missing block was last used before this request;
	// meaningful for a shortfall.
	Missing kvindex.Stamp
	// Deepest is when the deepest matched block was.
	Deepest kvindex.Stamp
	// Found is when the deepest block that was found was, 0 where nothing was found but what
	// is fresh.
	Found kvindex.Stamp
	// Fresh is how many of the tokens are in blocks that were used later than the first
	// missing one: a head that other prompts share, which they may have had computed anew.
	Fresh int
	// Whole is set where the prompt has parts whose tokens nobody can count: it
	// confirms, or misses altogether, and nothing in between is evidence.
	Whole bool
}

// Answer is what a finished answer says about itself.
type Answer struct {
	// PromptTokens and Cached are what the engine reported.
	PromptTokens, Cached int
	// StreamBytes is the length of the prompt's key stream, MatchedBytes the part of
	// it that was thought to be cached, BlockBytes the size of an index block.
	StreamBytes, MatchedBytes, BlockBytes int
	// EngineBlock is the engine's cache block in tokens.
	EngineBlock int
	// Receipt is what the index found at dispatch.
	Receipt *kvindex.Receipt
	// Keys are the prompt's block keys.
	Keys []kvindex.Key
	// Binary is set where the prompt has images, audio or the like.
	Binary bool
}

// Evidence turns an answer into a claim. ok is false where it proves nothing: the
// prediction was too small, or a prompt with binary parts hit in part.
//
// The prediction is made in this answer's own units, matched bytes × prompt tokens ÷
// stream bytes: the pool's average is good for predicting, not for judging.
func Evidence(a Answer) (c Claim, ok bool) {
	if a.PromptTokens <= 0 || a.StreamBytes <= 0 || a.Receipt.Before == 0 {
		return Claim{}, false
	}
	perByte := float64(a.PromptTokens) / float64(a.StreamBytes)
	predicted := NewPredictor(1/perByte, a.EngineBlock).Cached(a.MatchedBytes, a.PromptTokens)
	if predicted < minEvidence {
		return Claim{}, false
	}
	c = Claim{
		Dispatched:  a.Receipt.Stamp,
		Matched:     a.Keys[:min(a.Receipt.Before, len(a.Keys), maxChain)],
		Predicted:   predicted,
		Observed:    a.Cached,
		EngineBlock: a.EngineBlock,
		Whole:       a.Binary,
	}
	c.Deepest, _ = a.Receipt.LastUse(a.Receipt.Before - 1)
	found := int(float64(a.Cached) / perByte / float64(a.BlockBytes))
	missing := found
	if c.Whole && !c.confirmed() && !c.nothing() {
		return Claim{}, false
	}
	if c.Whole || a.Cached < a.EngineBlock {
		missing = -1
	}
	// Tokens and bytes do not go evenly through a prompt: where the found part may as well
	// end with a run, it does, and the claim is of what is older.
	missing = min(missing+missing/unevenShare+1, a.Receipt.Before-1)
	c.Missing, _ = a.Receipt.LastUse(missing)
	if !c.Whole {
		c.Fresh = int(float64(a.Receipt.RunStart(missing)*a.BlockBytes) * perByte)
	}
	if !c.Whole && !c.nothing() {
		c.Found, _ = a.Receipt.LastUse(min(found, a.Receipt.Before) - 1)
	}
	return c, true
}

// confirmed reports whether the engine found about as much as predicted.
func (c *Claim) confirmed() bool {
	tolerance := max(toleratedBlocks*c.EngineBlock, int(toleratedShare*float64(c.Predicted)))
	return c.Observed >= c.Predicted-tolerance
}

// nothing reports whether the engine found not even one block of what was last used when
// the first missing one was, or before. Tails are evicted first, so eviction seldom ends
// just there; a loss always does.
func (c *Claim) nothing() bool { return c.Observed < c.Fresh+c.EngineBlock+c.Fresh/unevenShare }

// missed is how many tokens were predicted of it.
func (c *Claim) missed() int { return c.Predicted - c.Fresh }

// Ratio is how much of the prediction came true, 0..1.
func (c *Claim) Ratio() float64 {
	return min(1, float64(c.Observed)/float64(c.Predicted))
}

// chain is the matched prefix of one claim, kept to tell chains apart.
type chain []kvindex.Key

// other reports whether neither prefix contains the other's deepest block: what
// happened to one says nothing certain of the other.
func (a chain) other(b chain) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return len(a) == 0 || b[len(a)-1] != a[len(a)-1]
}

func (a chain) copyInto(buffer chain) chain { return append(slices.Grow(buffer[:0], len(a)), a...) }
