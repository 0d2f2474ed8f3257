package telemetry

import (
	"sync"

	"github.com/warmroute/warmroute/feedback"
)

// ring remembers the last records.
type ring struct {
	mu      sync.Mutex
	records []feedback.Record
	next    int // where the next record goes
	filled  bool
}

func newRing(size int) *ring { return &ring{records: make([]feedback.Record, size)} }

// add remembers a record in the place of the oldest.
func (g *ring) add(r *feedback.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.records[g.next] = *r
	g.records[g.next].Keys = nil // they are lent
	if g.next++; g.next == len(g.records) {
		g.next, g.filled = 0, true
	}
}

// latest returns up to n records, newest first.
func (g *ring) latest(n int) []feedback.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	have := g.next
	if g.filled {
		have = len(g.records)
	}
	out := make([]feedback.Record, 0, max(min(n, have), 0))
	for i := range min(n, have) {
		at := (g.next - 1 - i + len(g.records)) % len(g.records)
		out = append(out, g.records[at])
	}
	return out
}
