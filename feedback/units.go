package feedback

import "sync"

const (
	// unitsPrior is the weight, in tokens, of the default bytes per token against
	// what answers say.
	unitsPrior = 2000
	// unitsMemory is how many tokens of answers are remembered, about: older ones
	// count less and less.
	unitsMemory = 2_000_000
	// minBytesPerToken and maxBytesPerToken bound what is believed of one answer:
	// outside, the prompt holds something that the key stream does not.
	minBytesPerToken = 0.5
	maxBytesPerToken = 32
)

// Units learns how many bytes of key stream a token is, from answers that report their
// prompt tokens. It is safe for concurrent use; the zero value says
// [DefaultBytesPerToken].
type Units struct {
	mu            sync.Mutex
	bytes, tokens float64
}

// Observe takes in one answer: the length of its key stream in bytes and its prompt
// tokens. An answer that cannot be true is ignored.
func (u *Units) Observe(streamBytes, promptTokens int) {
	if promptTokens <= 0 {
		return
	}
	if ratio := float64(streamBytes) / float64(promptTokens); ratio < minBytesPerToken || ratio > maxBytesPerToken {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes += float64(streamBytes)
	u.tokens += float64(promptTokens)
	if u.tokens > unitsMemory {
		u.bytes *= unitsMemory / u.tokens
		u.tokens = unitsMemory
	}
}

// BytesPerToken is what has been learned, with the default as a prior.
func (u *Units) BytesPerToken() float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return (u.bytes + DefaultBytesPerToken*unitsPrior) / (u.tokens + unitsPrior)
}
