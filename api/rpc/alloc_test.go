//go:build !race

package rpc_test

import (
	"testing"

	"github.com/warmroute/warmroute/feedback"
)

// TestRouteAllocations bounds what a decision for a prompt that is held already, and its
// report, allocate: their records, the answer, the lease, two sentences.
func TestRouteAllocations(t *testing.T) {
	w := newWorld(t, func(s *setup) { s.options.Observe = func(*feedback.Record) {} })
	in := ask(chat("m", "warm"))
	w.report(answered(w.route(in).GetDecisionId()))
	report := answered("")
	allocations := testing.AllocsPerRun(200, func() {
		report.DecisionId = w.route(in).GetDecisionId()
		w.report(report)
	})
	if allocations > 32 {
		t.Errorf("%.0f allocations", allocations)
	}
}
