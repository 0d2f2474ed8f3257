package router

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warmroute/warmroute/feedback"
)

// A decision remembers who took part only while somebody watches: the chosen one first,
// then those that hold most.
func TestWatchedDecisions(t *testing.T) {
	r, req := benchPool(t)
	route := func() *Decision {
		t.Helper()
		d, err := r.Route(req)
		if err != nil {
			t.Fatal(err)
		}
		r.Complete(d, feedback.Outcome{Now: req.Now.Add(time.Second), Result: feedback.Success, Blame: feedback.Healthy, FirstByte: true})
		return d
	}
	if d := route(); d.Considered != nil {
		t.Errorf("nobody watches, and it remembers %v", d.Considered)
	}
	stop, other := r.Watch(), r.Watch()
	d := route()
	if len(d.Considered) != min(maxConsidered, d.Eligible) || d.Eligible < 2 {
		t.Fatalf("%d of %d are remembered", len(d.Considered), d.Eligible)
	}
	want := feedback.Considered{
		Backend: d.Backend.ID, Chosen: true, MatchedBlocks: d.MatchedBlocks, MatchedTokens: d.CapturedCached, PredictedCached: d.PredictedCached,
		Queued: d.Queued, InFlight: d.InFlight, Limit: d.Limit,
	}
	if diff := cmp.Diff(want, d.Considered[0], cmpopts.IgnoreFields(feedback.Considered{}, "Cost")); diff != "" {
		t.Errorf("the first is not the chosen one (-want +got):\n%s", diff)
	}
	for i, c := range d.Considered[1:] {
		if c.Chosen || c.Backend == d.Backend.ID {
			t.Errorf("%s was chosen twice", c.Backend)
		}
		if i > 0 && c.MatchedBlocks > d.Considered[i].MatchedBlocks {
			t.Errorf("%s holds %d blocks and stands after one with %d", c.Backend, c.MatchedBlocks, d.Considered[i].MatchedBlocks)
		}
	}
	var record feedback.Record
	d.Record(&record)
	if record.Eligible != d.Eligible || len(record.Considered) != len(d.Considered) {
		t.Errorf("the record has %d of %d", len(record.Considered), record.Eligible)
	}
	stop()
	if d := route(); d.Considered == nil {
		t.Error("one watcher is left, and nothing is remembered")
	}
	other()
	if d := route(); d.Considered != nil {
		t.Error("the last watcher has gone, and it is remembered all the same")
	}
}
