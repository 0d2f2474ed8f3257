package router

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

func TestCommonHeadIsByMajority(t *testing.T) {
	head, other := promptKeys("head:4+a:2"), promptKeys("other:4+b:2")
	var h commonHead
	for i := range headVotes {
		if got := h.of(head); got != 0 {
			t.Fatalf("%d blocks are common after %d requests", got, i)
		}
		h.sent(head, 4)
	}
	if got := h.of(promptKeys("head:4+c:2")); got != 4 {
		t.Errorf("%d blocks are common, want 4", got)
	}
	if h.of(other) != 0 || h.of(head[:3]) != 0 {
		t.Error("a head is common to a prompt that lacks it")
	}
	h.sent(head, 0) // nothing was held, so nothing is known
	h.sent(other, 4)
	if got := h.of(head); got != 0 {
		t.Errorf("%d blocks are common without the lead", got)
	}
	for range 3 * maxHeadVotes {
		h.sent(head, 4)
	}
	for range maxHeadVotes {
		h.sent(other, 4)
	}
	if got := h.of(head); got != 0 {
		t.Errorf("%d blocks are common after as many requests without", got)
	}
}

// TestCommonHeadThatNobodyHolds: after a loss it is like any prompt that nobody holds.
func TestCommonHeadThatNobodyHolds(t *testing.T) {
	r := New(Options{})
	p, err := r.AddPool(spec("pool", nil, "http://b1:80", "http://b2:80"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(2000, 0)
	var last *Decision
	for range 12 {
		last = play(t, r, docRequest(p, "doc", now), time.Second, feedback.Usage{})
		now = now.Add(2 * time.Second)
	}
	if last.Reason != LongestMatch {
		t.Fatalf("before: %s", last.Explain())
	}
	for _, m := range *p.members.Load() {
		r.raise(p, m, causeRestart, kvindex.Stamp(now.UnixNano()), kvindex.Stamp(now.UnixNano()), kvindex.Stamp(now.UnixNano()))
	}
	if d, err := r.Route(docRequest(p, "doc", now)); err != nil || d.Reason != NoMatch {
		t.Errorf("after: %v, %s", err, d.Explain())
	}
}
