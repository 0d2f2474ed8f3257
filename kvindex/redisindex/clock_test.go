package redisindex

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// TestSteps: fleet time has jumped where neither of this machine's clocks explains what the server
// shows.
func TestSteps(t *testing.T) {
	start := time.Now() // with a monotonic reading
	last := &measurement{local: start, fleet: start.Add(time.Hour)}
	for name, tc := range map[string]struct {
		local time.Time
		fleet time.Duration // since the last
		want  time.Duration
	}{
		"nothing":                 {start.Add(time.Minute), time.Minute, 0},
		"a slow answer":           {start.Add(time.Minute), time.Minute + clockStep - 1, 0},
		"set forward":             {start.Add(time.Minute), 2 * time.Minute, time.Minute},
		"set back":                {start.Add(time.Minute), -time.Hour, -time.Hour - time.Minute},
		"the wall clock was set":  {start.Add(time.Minute), time.Minute, 0},
		"a wall clock of its own": {start.Round(0).Add(time.Minute), time.Minute, 0},
	} {
		found := &measurement{local: tc.local, fleet: last.fleet.Add(tc.fleet)}
		if got := last.step(found); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestRoughMeasurements: an answer that was slow is good for a beginning, until a better one
// comes.
func TestRoughMeasurements(t *testing.T) {
	at := time.Now()
	c := newClock(func() time.Time { return at })
	if c.rough() {
		t.Error("nothing was measured")
	}
	c.measured.Store(&measurement{local: at, fleet: at, rough: true})
	if !c.rough() {
		t.Error("it is taken for good")
	}
	server := redistest.Start(t)
	for range 50 { // a machine that is busy may need several
		if _, err := c.ask(t.Context(), server.Client()); err != nil {
			t.Fatal(err)
		}
	}
	if c.rough() {
		t.Error("a good one does not take its place")
	}
}

// TestClockSetBack: the server's clock goes back by an hour, as after a failover to one whose
// clock is late. What routers know stays, and what they learn from then on is shared, kept
// and found by those that start.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	// Both routers have compared their clocks with a server that was an hour ahead.
	early := func(r *replica) {
		now := r.config.Now()
		r.clock.measured.Store(&measurement{local: now, fleet: now.Add(time.Hour)})
	}
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	one, two := a.add("b1:80"), b.add("b1:80")
	a.awaitShared()
	b.awaitShared()
	early(a)
	early(b)
	forgotten, before := prompt("forgotten", 30), prompt("before", 3000)
	a.see(one, forgotten)
	b.awaitDepth(two, forgotten, 30)
	a.Forget(one, kvindex.Stamp(time.Now().UnixNano()))
	b.awaitDepth(two, forgotten, 0)
	a.see(one, before)
	b.awaitDepth(two, before, 3000)
	a.Set("pool", map[string]string{"strategy": "RANDOM"})
	for _, r := range []*replica{a, b} {
		await(t, "the step is noticed", func() bool { return r.Status().ClockSteps == 1 })
	}
	a.awaitShared()
	b.awaitShared()
	if a.depth(one, before) != 3000 || b.depth(two, before) != 3000 {
		t.Errorf("of what was known there are %d and %d blocks left", a.depth(one, before), b.depth(two, before))
	}
	after := prompt("after", 40)
	b.see(two, after)
	a.awaitDepth(one, after, 40)
	c := launch(t, server.Addr)
	three := c.add("b1:80")
	c.awaitDepth(three, after, 40)
	c.awaitDepth(three, before, 3000)
	if got := c.depth(three, forgotten); got != 0 {
		t.Errorf("a router that starts believes %d blocks from before the horizon", got)
	}
	limit := time.Now().Add(future).UnixMicro()
	for _, key := range append(a.holder(one).sets[:], "warmroute:1:backends", "warmroute:1:{pool}:horizons") {
		await(t, "nothing in "+key+" lies ahead", func() bool { return server.Do("ZCOUNT", key, limit, "+inf") == int64(0) })
	}
	next := kvindex.Stamp(time.Now().UnixNano())
	await(t, "time passes", func() bool { return time.Now().UnixNano() > int64(next)+int64(10*time.Millisecond) })
	b.see(two, prompt("last", 5))
	b.Forget(two, next)
	a.awaitDepth(one, after, 0)
	a.awaitDepth(one, prompt("last", 5), 5)
}

// TestClockSetForward: what is in Redis seems too old to be believed then, and is written
// anew.
func TestClockSetForward(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	one := a.add("b1:80")
	a.awaitShared()
	now := a.config.Now()
	a.clock.measured.Store(&measurement{local: now, fleet: now.Add(-2 * time.Hour)})
	keys := prompt("p", 500)
	a.see(one, keys)
	await(t, "it is written", func() bool { return a.Status().Written == 1 })
	await(t, "the step is noticed", func() bool { return a.Status().ClockSteps == 1 })
	a.awaitShared()
	c := launch(t, server.Addr)
	c.awaitDepth(c.add("b1:80"), keys, 500)
}
