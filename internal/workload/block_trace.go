package workload

import "time"

// BlockRequest is one request of a recorded trace whose prompts are chains of blocks.
type BlockRequest struct {
	// At is when it was sent, from the beginning of the trace.
	At time.Duration
	// PromptTokens and OutputTokens are its lengths.
	PromptTokens, OutputTokens int
	// Blocks name the content of the prompt's full blocks, in order.
	Blocks []uint64
}

// BlockTrace plays a recorded trace in an open loop. It implements [Source].
type BlockTrace struct {
	requests    []BlockRequest
	blockTokens int
	next        int
}

// NewBlockTrace returns a source of requests, which must be in the order of their times; a
// block is blockTokens tokens. What is beyond the full blocks of a prompt is like nothing
// else, and so is what is beyond the named blocks.
func NewBlockTrace(requests []BlockRequest, blockTokens int) *BlockTrace {
	return &BlockTrace{requests: requests, blockTokens: blockTokens}
}

// Next implements [Source].
func (t *BlockTrace) Next() (Request, bool) {
	if t.next == len(t.requests) {
		return Request{}, false
	}
	r := &t.requests[t.next]
	t.next++
	full := min(len(r.Blocks), r.PromptTokens/t.blockTokens)
	prompt := make([]Segment, 0, full+1)
	for _, id := range r.Blocks[:full] {
		prompt = append(prompt, Segment{ID: Mix(id), Tokens: t.blockTokens})
	}
	if rest := r.PromptTokens - full*t.blockTokens; rest > 0 {
		prompt = append(prompt, Segment{ID: Mix(^uint64(t.next)), Tokens: rest})
	}
	return Request{At: r.At, Prompt: prompt, OutputTokens: max(r.OutputTokens, 1), Session: t.next}, true
}

// Ended implements [Source].
func (t *BlockTrace) Ended(*Request, time.Duration, bool) (Request, bool) { return Request{}, false }
