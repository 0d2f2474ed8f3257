package main

import (
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// first is what of a workload is sent until a moment.
type first struct {
	workload.Source

	until time.Duration
}

// firstOf is the beginning of a workload, all of it where the time is 0.
func firstOf(w *workload.Workload, until time.Duration) *workload.Workload {
	if until == 0 {
		return w
	}
	return &workload.Workload{Name: w.Name, Ends: until, Play: func(seed uint64) workload.Source { return &first{w.Play(seed), until} }}
}

// Next implements [workload.Source].
func (f *first) Next() (workload.Request, bool) {
	r, ok := f.Source.Next()
	return r, ok && r.At <= f.until
}

// Ended implements [workload.Source].
func (f *first) Ended(r *workload.Request, at time.Duration, answered bool) (workload.Request, bool) {
	next, ok := f.Source.Ended(r, at, answered)
	return next, ok && max(next.At, at) <= f.until
}
