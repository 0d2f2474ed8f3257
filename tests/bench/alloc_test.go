//go:build !race

// The race detector makes pools forget at random, so budgets hold without it.

package bench

import (
	"testing"

	"github.com/warmroute/warmroute/router"
)

// TestDecisionAllocatesOnlyTheDecision holds from the bytes of a 32 KiB chat body to the
// end of the request, once the pools are warm and the index knows the prompt.
func TestDecisionAllocatesOnlyTheDecision(t *testing.T) {
	r, pool := fleet(t)
	body := chat(32 << 10)
	req := new(router.Request)
	run := func() {
		parsed, d := decide(t, r, pool, body, req)
		r.Complete(d, answered)
		parsed.Release()
	}
	for range 200 {
		run()
	}
	if got := testing.AllocsPerRun(300, run); got > 1 {
		t.Errorf("%v allocations, want 1 (the decision)", got)
	}
}
