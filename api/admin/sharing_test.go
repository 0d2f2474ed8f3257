package admin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/kvindex/redisindex"
	"github.com/warmroute/warmroute/router"
)

// TestSharing: a router that is meant to share its index and does not at the moment is
// degraded, and ready all the same.
func TestSharing(t *testing.T) {
	p := newPort(t)
	for _, id := range []string{"b1:8000", "b2:8000", "b3:8000#0"} {
		p.backend(id).SetModels([]backends.Model{{ID: "m"}})
	}
	if got := getJSON[fleet](t, p, "/debug/state", 200).Sharing; got != nil {
		t.Errorf("an index that is not shared: %+v", got)
	}
	for state, want := range map[router.Sharing]string{router.Fresh: "ready", router.Cut: "degraded", router.Alone: "degraded"} {
		p.sharing = &redisindex.Status{
			Sharing: state, Pools: map[string]router.Sharing{"chat": state, "code": router.Fresh}, Breaker: "closed", Peers: 2, SyncAge: time.Second, Lag: time.Millisecond, ClockKnown: true, ClockOffset: time.Hour,
			Published: 7, Failures: map[redisindex.Failure]uint64{redisindex.OutOfMemory: 3}, LastError: "OOM",
		}
		if got := getJSON[readiness](t, p, "/readyz", 200); got.Status != want || got.Serving != 3 {
			t.Errorf("%v: %+v, want %s", state, got, want)
		}
		got := getJSON[fleet](t, p, "/debug/state", 200).Sharing
		wanted := &sharing{
			State: state.String(), Pools: map[string]string{"chat": state.String(), "code": "fresh"}, Breaker: "closed", Peers: 2, SyncAge: 1, Lag: 0.001, ClockOffset: new(3600.0), Published: 7,
			Failures: map[string]uint64{"out_of_memory": 3}, LastError: "OOM",
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%v: (-want +got)\n%s", state, diff)
		}
	}
}
