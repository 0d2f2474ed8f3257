package workload

import "time"

// Request is one request of a workload.
type Request struct {
	// At is when it is sent, from the beginning of the run.
	At time.Duration
	// Prompt is what is asked. Nobody changes it.
	Prompt []Segment
	// OutputTokens is the length of the answer, at least 1.
	OutputTokens int
	// Answer names the content of the answer where a later prompt holds it; 0 where
	// nothing continues it.
	Answer uint64
	// Tenant separates its cache affinity, empty when it does not.
	Tenant string
	// DivergesAt is the part of the prompt, 0..1, after which the engine sees other
	// content than the router does, as when it renders the prompt otherwise; 0 when it
	// sees the same.
	DivergesAt float64
	// Session is for the source that made it.
	Session int
}

// Source says what is asked of a fleet.
type Source interface {
	// Next returns the next request that comes by itself. Times do not run backwards.
	Next() (r Request, ok bool)
	// Ended tells that a request has ended at a moment, and whether it was answered in
	// full. The request that this brings about, if any, is sent at its At or, when that
	// is past, at once.
	Ended(r *Request, at time.Duration, answered bool) (next Request, ok bool)
}
