package feedback

import "time"

// Backlog is the prefill work that waits on one backend, as one router knows it or as
// several do together. The zero value is none.
type Backlog struct {
	// Tokens are predicted uncached tokens that have not been seen to be prefilled.
	Tokens int64
	// Began is when the backlog became more than none.
	Began time.Time
	// Progress is when the backend last showed a first token; the zero time before any.
	Progress time.Time
}

// Add is the work of two routers together: one queue on one backend, which works on
// either's requests and shows its progress to either.
func (b Backlog) Add(o Backlog) Backlog {
	switch {
	case o.Tokens == 0:
	case b.Tokens == 0 || o.Began.Before(b.Began):
		b.Began = o.Began
	}
	b.Tokens += o.Tokens
	if o.Progress.After(b.Progress) {
		b.Progress = o.Progress
	}
	return b
}

// Left estimates the tokens still to be prefilled at now, when the backend prefills rate
// tokens a second: what it must have worked off since it last made progress is gone.
// After 30 s without progress it may be stuck, and everything sent to it counts in full.
func (b Backlog) Left(now time.Time, rate float64) int {
	since := b.Began
	if b.Progress.After(since) {
		since = b.Progress
	}
	idle := now.Sub(since)
	if b.Tokens == 0 || idle <= 0 || idle > stuckAfter {
		return int(b.Tokens)
	}
	return max(0, int(b.Tokens)-int(idle.Seconds()*rate))
}
