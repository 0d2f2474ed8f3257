package recent

import (
	"math"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// Unknown is a number of tokens that nobody reported.
const Unknown = -1

// Request is one request that has ended.
type Request struct {
	// Pool is its pool.
	Pool string
	// Keys are its block keys, each of BlockBytes of its key stream of StreamBytes. A pool
	// has one size of blocks.
	Keys                    []kvindex.Key
	BlockBytes, StreamBytes int
	// Facts are what is known of it beside its prompt's content.
	Facts
}

// Facts are what is known of a request beside its prompt's content.
type Facts struct {
	// Arrived is when it came.
	Arrived time.Time
	// Duration is until its end, TTFT until the first token of its answer; 0 where that was
	// not seen. Both are kept in microseconds, and at most 71 minutes.
	Duration, TTFT time.Duration
	// Result is how it ended.
	Result feedback.Result
	// Overflow says that a better backend was full.
	Overflow bool
	// PromptTokens, CachedTokens and OutputTokens are what the engine reported, [Unknown]
	// where it did not.
	PromptTokens, CachedTokens, OutputTokens int
}

// Of returns what is remembered of an access record; ok is false where there is no prompt
// to remember. The keys are the record's own.
func Of(r *feedback.Record) (q Request, ok bool) {
	if r.Pool == "" || r.BlockBytes <= 0 {
		return Request{}, false
	}
	q = Request{
		Pool: r.Pool, Keys: r.Keys, BlockBytes: r.BlockBytes, StreamBytes: r.StreamBytes,
		Facts: Facts{
			Arrived: r.Start, Duration: r.Duration, Result: r.Result, Overflow: r.Overflow,
			PromptTokens: reported(r.Usage.Prompt, r.Usage.HasPrompt),
			CachedTokens: reported(r.Usage.Cached, r.Usage.HasCached),
			OutputTokens: reported(r.Usage.Completion, r.Usage.HasCompletion),
		},
	}
	if r.Streamed { // else it is the time of the whole answer
		q.TTFT = r.TTFT
	}
	return q, true
}

func reported(tokens int, has bool) int {
	if !has {
		return Unknown
	}
	return tokens
}

// micros is a duration as it is kept.
func micros(d time.Duration) uint32 {
	return uint32(min(max(d.Microseconds(), 0), math.MaxUint32)) //nolint:gosec // bounded
}

// tokens is a count as it is kept: one more, so that [Unknown] is 0.
func tokens(n int) uint32 { return uint32(min(max(n, Unknown), math.MaxInt32-1) + 1) } //nolint:gosec // bounded

// pack puts two numbers into one word, unpack takes them out.
func pack(low, high uint32) uint64 { return uint64(low) | uint64(high)<<32 }

func unpack(w uint64) (low, high uint32) { return uint32(w), uint32(w >> 32) } //nolint:gosec // halves
