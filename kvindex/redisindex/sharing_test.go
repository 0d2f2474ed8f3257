package redisindex

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
	"github.com/warmroute/warmroute/router"
)

// fleet is a router that has the load it is given, and notes what it is told.
type fleet struct {
	mu       sync.Mutex
	loads    []router.Load
	reports  []router.PeerReport
	sharing  router.Sharing
	horizons map[string]kvindex.Stamp
}

func (f *fleet) Loads(dst []router.Load, _ time.Time) []router.Load {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(dst, f.loads...)
}

func (f *fleet) SetPeers(reports []router.PeerReport, _ time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = reports
}

func (f *fleet) SetSharing(s router.Sharing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sharing = s
}

func (f *fleet) PeerHorizon(pool, backend string, horizon, _ kvindex.Stamp) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.horizons == nil {
		f.horizons = make(map[string]kvindex.Stamp)
	}
	f.horizons[pool+" "+backend] = horizon
}

// peers are the loads that others reported last, and when the latest did.
func (f *fleet) peers() (loads []router.Load, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.reports {
		loads = append(loads, r.Loads...)
		if r.At.After(at) {
			at = r.At
		}
	}
	return loads, at
}

func (f *fleet) state() router.Sharing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sharing
}

func (f *fleet) has(loads ...router.Load) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loads = loads
}

// launchFor runs an index that shares a fleet's load.
func launchFor(t *testing.T, f *fleet, address string, change ...func(*Config)) *replica {
	t.Helper()
	r := prepare(t, address, change...)
	r.Share(f)
	r.run()
	return r
}

// TestSharingLoad: what one router has, the other is told within moments, in its own time
// whatever its wall clock shows, and so is that it is over, or that the router stopped.
func TestSharingLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var here, there fleet
	const skew = 5 * time.Hour
	a := launchFor(t, &here, server.Addr)
	b := launchFor(t, &there, server.Addr, func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(skew) }
	})
	a.add("b1:80")
	b.add("b1:80")
	began := time.Now().Add(-time.Second).Truncate(time.Microsecond)
	load := router.Load{
		Pool: "pool", Backend: "b1:80", InFlight: 7, PrefillRate: 1234.5,
		Backlog: feedback.Backlog{Tokens: 5000, Began: began},
	}
	here.has(load)
	await(t, "the load is told", func() bool {
		loads, _ := there.peers()
		return len(loads) == 1
	})
	loads, at := there.peers()
	want := load
	want.Backlog.Began = began.Add(skew)
	if diff := cmp.Diff([]router.Load{want}, loads, cmpopts.EquateApproxTime(200*time.Millisecond)); diff != "" {
		t.Errorf("loads (-had +told):\n%s", diff)
	}
	if age := time.Now().Add(skew).Sub(at); age < -time.Second || age > patience {
		t.Errorf("the report is %v old", age)
	}
	here.has()
	await(t, "that it is over is told", func() bool {
		loads, at := there.peers()
		return len(loads) == 0 && !at.IsZero()
	})
	here.has(load)
	await(t, "the load is told", func() bool {
		loads, _ := there.peers()
		return len(loads) == 1
	})
	a.stop()
	await(t, "a router that stopped has no load", func() bool {
		loads, _ := there.peers()
		return len(loads) == 0
	})
	if got := there.state(); got != router.Fresh {
		t.Errorf("the other router went, and the one that stays is told %v", got)
	}
}

// TestSharingStates: alone until Redis is there, cut while it is away and there were others.
func TestSharingStates(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	var here, there fleet
	launchFor(t, &here, server.Addr).add("b1:80")
	b := launchFor(t, &there, server.Addr)
	b.add("b1:80")
	if got := here.state(); got != router.Alone {
		t.Errorf("before Redis: %v", got)
	}
	server.Start()
	await(t, "both are told that sharing is fresh", func() bool { return here.state() == router.Fresh && there.state() == router.Fresh })
	await(t, "they hear of each other", func() bool { return b.Status().Peers == 1 })
	server.Stop()
	await(t, "both are told that they are cut off", func() bool { return here.state() == router.Cut && there.state() == router.Cut })
	server.Continue()
	await(t, "sharing is fresh again", func() bool { return here.state() == router.Fresh && there.state() == router.Fresh })
}

// TestSkewedClocks: wall clocks that are hours apart do not matter, neither to what is
// learned nor to horizons, nor to a router that starts.
func TestSkewedClocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	skewed := func(by time.Duration) func(*Config) {
		return func(c *Config) { c.Now = func() time.Time { return time.Now().Add(by) } }
	}
	a, b := launch(t, server.Addr, skewed(-7*time.Hour)), launch(t, server.Addr, skewed(9*time.Hour))
	one, two := a.add("b1:80"), b.add("b1:80")
	old, recent := prompt("old", 30), prompt("recent", 30)
	a.see(one, old)
	b.awaitDepth(two, old, 30)
	await(t, "the stream has told of it, too", func() bool { return b.Status().Received == 1 })
	at := time.Now()
	horizon := a.config.Now()
	await(t, "time passes", func() bool { return time.Since(at) > 5*time.Millisecond })
	b.see(two, recent)
	a.awaitDepth(one, recent, 30)
	a.Forget(one, kvindex.Stamp(horizon.UnixNano()))
	b.awaitDepth(two, old, 0)
	c := launch(t, server.Addr, skewed(time.Hour))
	three := c.add("b1:80")
	c.awaitDepth(three, recent, 30)
	for name, got := range map[string]int{
		"the first":      a.depth(one, recent) - a.depth(one, old),
		"the second":     b.depth(two, recent) - b.depth(two, old),
		"one that began": c.depth(three, recent) - c.depth(three, old),
	} {
		if got != 30 {
			t.Errorf("%s router does not know exactly what is left: %d", name, got)
		}
	}
	if got := a.Status().ClockOffset.Round(time.Minute); got != 7*time.Hour {
		t.Errorf("clock offset: %v", got)
	}
}

// TestPeerHorizonsGoToTheRouter: with a router, it is the one that forgets.
func TestPeerHorizonsGoToTheRouter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var there fleet
	a, b := launch(t, server.Addr), launchFor(t, &there, server.Addr)
	one, two := a.add("b1:80"), b.add("b1:80")
	keys := prompt("p", 10)
	a.see(one, keys)
	b.awaitDepth(two, keys, 10)
	horizon := kvindex.Stamp(time.Now().UnixNano())
	a.Forget(one, horizon)
	moved := func() kvindex.Stamp {
		there.mu.Lock()
		defer there.mu.Unlock()
		return there.horizons["pool b1:80"]
	}
	await(t, "the router is told", func() bool { return moved() != 0 })
	if diff := time.Duration(moved() - horizon).Abs(); diff > time.Second {
		t.Errorf("the horizon is %v off", diff)
	}
	if got := b.depth(two, keys); got != 10 {
		t.Errorf("the index forgot by itself: %d blocks left", got)
	}
}
