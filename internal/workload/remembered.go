package workload

import (
	"time"

	"github.com/warmroute/warmroute/kvindex"
)

// NoBlock is the number of no block.
const NoBlock = noBlock

// Unreported is a number of tokens that is not known.
const Unreported = -1

// Remembered is requests as a router remembers them: prompts are blocks of a tree. Its numbers
// must make sense; nobody has read them from a file.
type Remembered struct {
	// BytesPerToken is what prompts of unknown length are reckoned at; 0 is the mean of those
	// that are known.
	BytesPerToken float64

	reading logReading
}

// Block adds a block, after its parent, or [NoBlock], and returns its number; they count from 0.
func (r *Remembered) Block(key kvindex.Key, parent int32) int32 {
	r.reading.blocks = append(r.reading.blocks, loggedBlock{key: key, parent: parent, after: noRequest})
	return int32(len(r.reading.blocks) - 1) //nolint:gosec // what memory holds
}

// RememberedRequest is one request.
type RememberedRequest struct {
	// At is when it arrived, from the beginning of all, Lasted how long it took.
	At, Lasted time.Duration
	// Last is its prompt's last block, [NoBlock] where it has none, Depth how many it has, of
	// BlockBytes each; StreamBytes is all of it.
	Last, Depth, BlockBytes, StreamBytes int32
	// PromptTokens and OutputTokens are its lengths, CachedTokens what was found of the
	// prompt, or [Unreported].
	PromptTokens, OutputTokens, CachedTokens int32
}

// Request adds a request.
func (r *Remembered) Request(q RememberedRequest) {
	r.reading.requests = append(r.reading.requests, logged{
		at: q.At, lasted: q.Lasted, last: q.Last, depth: q.Depth, block: q.BlockBytes, stream: max(q.StreamBytes, q.Depth*q.BlockBytes),
		prompt: min(q.PromptTokens, maxTokens), output: min(q.OutputTokens, maxTokens), cached: q.CachedTokens,
	})
}

// Workload returns the requests to be played, as those of a request log are ([ReadRequestLog]).
// There must be one. Nothing may be added afterwards.
func (r *Remembered) Workload(name string) *Workload {
	r.reading.reckon = r.BytesPerToken
	r.reading.first = r.reading.requests[0].at
	for _, q := range r.reading.requests {
		r.reading.first = min(r.reading.first, q.at)
	}
	w := r.reading.settle().workload(1)
	w.Name = name
	return w
}
