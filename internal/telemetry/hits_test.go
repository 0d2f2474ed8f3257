package telemetry

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

func TestHits(t *testing.T) {
	tel, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := feedback.Account{Prompt: 100, Delivered: 60, NoReuse: 40, Reported: true}
	silent := feedback.Account{Prompt: 10, Unreported: 10}
	tel.hits.add("chat", "b2:80", a)
	tel.hits.add("chat", "b1:80", silent)
	tel.hits.add("chat", "b2:80", a)
	tel.hits.add("other", "b2:80", a)
	got := tel.Hits("chat")
	want := PoolHits{
		HitCount: HitCount{feedback.Account{Prompt: 210, Delivered: 120, NoReuse: 80, Unreported: 10}, 200},
		Backends: []BackendHits{
			{"b1:80", HitCount{feedback.Account{Prompt: 10, Unreported: 10}, 0}},
			{"b2:80", HitCount{feedback.Account{Prompt: 200, Delivered: 120, NoReuse: 80}, 200}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Hits (-want +got):\n%s", diff)
	}
	if none := tel.Hits("nobody"); len(none.Backends) != 0 || none.Prompt != 0 {
		t.Errorf("of a pool without requests: %+v", none)
	}
}

// A reader gets what comes while it reads; what it has no room for is counted.
func TestFollow(t *testing.T) {
	tel, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	tel.Observe(&feedback.Record{DecisionID: "before"})
	records, missed, stop := tel.Follow()
	for range followBuffer + 2 {
		tel.Observe(&feedback.Record{DecisionID: "a", Keys: []kvindex.Key{1}})
	}
	if r := <-records; r.DecisionID != "a" || r.Keys != nil {
		t.Errorf("got %+v", r)
	}
	if n := missed(); n != 2 || missed() != 0 {
		t.Errorf("%d were missed, want 2", n)
	}
	stop()
	for range followBuffer - 1 {
		<-records
	}
	tel.Observe(&feedback.Record{DecisionID: "after"})
	select {
	case r := <-records:
		t.Errorf("after the end came %+v", r)
	default:
	}
}
