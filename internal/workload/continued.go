package workload

import "time"

// A log does not hold answers, and yet an engine caches them: in a conversation, the next prompt
// goes on with the last answer. Which prompt continues which request can be told. It has all
// blocks of that prompt, is longer by the answer or more, came after its end, and none that
// came before has the next block. Where such a prompt went to the same engine, what that found
// cached proves or refutes it; where not, what is proved of most others in the log holds.

const noRequest = -1

// proofTokens is how far what an engine found may be off what was expected, in tokens: engines
// count in blocks.
const proofTokens = 32

// continuation is a prompt that may go on with the answer to an earlier request.
type continuation struct {
	of, by int32 // requests
	shared int32 // last block that both have
	proof  int   // 1 it does, -1 it does not, 0 nobody knows
}

// continuations finds the prompts that go on with an answer. Requests are in order, and their
// blocks have no place yet.
type continuations struct {
	log    *logReading
	latest map[int32]int32 // request by the last block of its prompt
	found  []continuation
	proven int // in favour, less against
}

// look looks at a request whose blocks from shared on are new, and remembers it for later ones.
func (c *continuations) look(number, shared int32) {
	requests := c.log.requests
	r := &requests[number]
	if of, ok := c.latest[shared]; ok && shared != r.last && shared != noBlock {
		if a := &requests[of]; a.answered() && r.reported && r.at >= a.at+a.lasted && r.prompt >= a.prompt+a.output {
			found := continuation{of: of, by: number, shared: shared, proof: proof(a, r, c.log.end(shared))}
			c.found = append(c.found, found)
			c.proven += found.proof
			delete(c.latest, shared) // an answer is continued once
		}
	}
	c.latest[r.last] = number
}

// answered reports whether the lengths of prompt and answer are known.
func (r *logged) answered() bool { return r.reported && r.answer && r.output > 0 }

// proof says what an engine that had the tokens that two prompts share, but for the rest, makes
// of the second one's being the first one's continuation.
func proof(first, second *logged, shared int32) int {
	switch cached := second.cached; {
	case cached >= first.prompt+first.output-proofTokens && first.output >= 2*proofTokens:
		return 1
	case cached >= shared-proofTokens && cached <= first.prompt && first.output >= 2*proofTokens:
		return -1
	}
	return 0
}

// settle marks the blocks that begin with an answer. Their places are known by now.
func (c *continuations) settle() {
	for _, f := range c.found {
		if f.proof < 0 || f.proof == 0 && c.proven < 0 {
			continue
		}
		first := &c.log.requests[f.of]
		first.continued = true
		until := first.prompt + first.output
		for at := c.log.requests[f.by].last; at != f.shared; at = c.log.blocks[at].parent {
			if b := &c.log.blocks[at]; c.log.end(b.parent) < until {
				b.after = f.of
			}
		}
	}
}

// logged is a request as it is kept.
type logged struct {
	at, lasted     time.Duration
	last           int32 // block
	depth          int32 // blocks
	block, stream  int32 // bytes
	prompt, output int32 // tokens, -1 where it was not reported
	cached         int32 // likewise

	// Of what is settled: whether prompt and output were reported, and whether a later prompt
	// goes on with the answer.
	reported, answer, continued bool
}

// hop is a part of a prompt: blocks down to last, after one that belongs to an earlier request's
// answer.
type hop struct {
	request    int32
	after, end int32 // blocks
}

// promptOf returns a request's content: that of its blocks, and where these are an answer, that
// of the request and of its answer.
func (l *loggedBlocks) promptOf(number int32) []Segment {
	var hops []hop
	for end := l.requests[number].last; ; end = l.requests[number].last {
		after := end
		for after != noBlock && l.blocks[after].after == noRequest {
			after = l.blocks[after].parent
		}
		hops = append(hops, hop{number, after, end})
		if after == noBlock {
			break
		}
		number = l.blocks[after].after
	}
	var prompt []Segment
	tokens := int32(0)
	for i := len(hops) - 1; i >= 0; i-- {
		h := hops[i]
		if h.after != noBlock {
			prompt = l.appendAnswer(prompt, tokens, hops[i+1].request, h.after)
		}
		prompt = l.appendBlocks(prompt, h.after, h.end)
		tokens = l.end(h.end)
		if rest := max(l.requests[h.request].prompt, 1) - tokens; rest > 0 {
			prompt = append(prompt, Segment{ID: Mix(^uint64(h.request + 1)), Tokens: int(rest)}) //nolint:gosec // a count
			tokens += rest
		}
	}
	return prompt
}

// appendAnswer appends the answer to a request to its prompt, which has so many tokens, and
// makes it as long as a block's end says.
func (l *loggedBlocks) appendAnswer(prompt []Segment, tokens, number, block int32) []Segment {
	output := l.requests[number].output
	prompt = append(prompt, Segment{ID: answerTo(number), Tokens: int(output)})
	over := int(tokens + output - l.blocks[block].end)
	if over < 0 {
		return append(prompt, Segment{ID: uint64(l.blocks[block].key), Tokens: -over})
	}
	for over > 0 {
		last := &prompt[len(prompt)-1]
		cut := min(over, last.Tokens)
		last.Tokens -= cut
		if over -= cut; last.Tokens == 0 {
			prompt = prompt[:len(prompt)-1]
		}
	}
	return prompt
}

// appendBlocks appends the blocks after one of them, down to the last.
func (l *loggedBlocks) appendBlocks(prompt []Segment, after, last int32) []Segment {
	n := 0
	for at := last; at != after; at = l.blocks[at].parent {
		n++
	}
	from := len(prompt)
	prompt = append(prompt, make([]Segment, n)...)
	for at := last; at != after; at = l.blocks[at].parent {
		n--
		b := &l.blocks[at]
		prompt[from+n] = Segment{ID: uint64(b.key), Tokens: int(b.end - l.end(b.parent))}
	}
	return prompt
}

// answerTo names the answer to a request.
func answerTo(number int32) uint64 { return nameOf(^uint64(number+1), 1) } //nolint:gosec // a count
