package redisindex

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
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
	pins     map[string]string
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

func (f *fleet) SetSharing(_ string, s router.Sharing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sharing = s
}

func (f *fleet) PeerPin(pool string, key router.PinKey, backend string, _, _ time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pins == nil {
		f.pins = make(map[string]string)
	}
	f.pins[fmt.Sprint(pool, " ", key)] = backend
}

// pinned is where another router said that something is; ok is false where none did.
func (f *fleet) pinned(pool string, key router.PinKey) (backend string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	backend, ok = f.pins[fmt.Sprint(pool, " ", key)]
	return backend, ok
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
	a.awaitShared()
	b.awaitShared() // it listens, and will not find it in the sets first
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

// TestMissedMessages: messages that go from the stream before this router has read them are
// noticed although every read goes well, and what they told is read from the sets.
func TestMissedMessages(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	a.awaitShared()
	client, told := server.Client(), uint64(0)
	stream, now := "warmroute:1:{pool}:stream", time.Now()
	// tell writes what another router tells, and what it keeps in the sets.
	tell := func(keys []kvindex.Key, trim bool) {
		e := newEncoder(42, &told)
		e.addChain(chain{backend: "b1:80", last: moment(now.UnixMicro()), keys: keys})
		for i, key := range keys {
			score := float64(scoreOf(moment(now.UnixMicro()), i))
			client.ZAdd(t.Context(), fmt.Sprintf("warmroute:1:{pool/%x}:b1:80", shardOf(key)), redis.Z{Score: score, Member: member(key)})
		}
		if _, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			p.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []any{streamField, e.messages()[0]}})
			if trim {
				p.XTrimMaxLen(t.Context(), stream, 0)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	first, missed, last := prompt("first", 20), prompt("missed", 30), prompt("last", 40)
	tell(first, false)
	a.awaitDepth(h, first, 20)
	tell(missed, true)
	tell(last, false)
	a.awaitDepth(h, last, 40)
	a.awaitDepth(h, missed, 30)
	if got := a.Status(); got.Gaps != 1 || got.Failures[Unreachable] != 0 {
		t.Errorf("%d gaps, failures: %v", got.Gaps, got.Failures)
	}
}

// TestPoolsThatFallBehind: one pool's stream is not to be written to, and that one alone is cut off.
func TestPoolsThatFallBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	for _, r := range []*replica{a, b} {
		r.add("b1:80")
		if _, err := r.Add("other b1:80 http://b1:80"); err != nil {
			t.Fatal(err)
		}
	}
	pools := func() map[string]router.Sharing { return a.Status().Pools }
	await(t, "both pools are shared", func() bool { return pools()["pool"] == router.Fresh && pools()["other"] == router.Fresh })
	await(t, "they hear of each other", func() bool { return a.Status().Peers == 1 && b.Status().Peers == 1 })
	// Nothing can be written to a stream that has used up its ids.
	server.Do("XSETID", "warmroute:1:{other}:stream", "18446744073709551615-18446744073709551615")
	await(t, "the pool is cut off", func() bool { return pools()["other"] == router.Cut })
	if got := pools()["pool"]; got != router.Fresh {
		t.Errorf("the other pool is %v", got)
	}
	if got := a.Status().Sharing; got != router.Cut {
		t.Errorf("all together are %v", got)
	}
	server.Do("DEL", "warmroute:1:{other}:stream")
	await(t, "both pools are shared again", func() bool { return pools()["pool"] == router.Fresh && pools()["other"] == router.Fresh })
}
