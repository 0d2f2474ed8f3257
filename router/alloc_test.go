//go:build !race

// The race detector makes pools forget at random, so budgets hold without it.

package router

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
)

// TestRouteAllocatesOnlyTheDecision holds for every strategy, of a model and of an adapter,
// after warm-up and apart from new entries of the index.
func TestRouteAllocatesOnlyTheDecision(t *testing.T) {
	for _, adapter := range []bool{false, true} {
		t.Run(fmt.Sprintf("adapter=%v", adapter), func(t *testing.T) { allocatesOnlyTheDecision(t, adapter) })
	}
}

// TestRoomAllocatesNothing, however many adapters there are: one decision asks for that of
// every backend.
func TestRoomAllocatesNothing(t *testing.T) {
	m, now := new(member), time.Unix(2000, 0)
	m.backend = new(backends.Backend)
	for i := range maxAdapters {
		m.adapters.add(fmt.Sprint(i), now)
	}
	if got := testing.AllocsPerRun(100, func() { m.room("new", now) }); got > 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

func allocatesOnlyTheDecision(t *testing.T, adapter bool) {
	t.Helper()
	r, req := benchPool(t)
	req.Adapter = adapter
	done := feedback.Outcome{Now: req.Now, Result: feedback.Success, Blame: feedback.Healthy, FirstByte: true}
	for _, strategy := range Strategies() {
		c := req.Pool.Config()
		c.Strategy = strategy
		if err := req.Pool.SetConfig(c); err != nil {
			t.Fatal(err)
		}
		run := func() {
			d, err := r.Route(req)
			if err != nil {
				t.Fatal(err)
			}
			r.FirstToken(d, req.Now)
			r.Complete(d, done)
		}
		for range 200 {
			run()
		}
		if got := testing.AllocsPerRun(200, run); got > 1 {
			t.Errorf("%s: %v allocations, want 1 (the decision)", strategy, got)
		}
	}
}
