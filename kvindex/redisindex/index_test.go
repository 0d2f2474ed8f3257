package redisindex

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/indextest"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	began, number := time.Now(), 0
	var last *replica // the suite uses one at a time
	shared := func(t testing.TB, capacity int) *Index {
		if last != nil {
			last.stop()
		}
		number++
		x, err := New(Config{
			Addresses: []string{server.Addr}, Namespace: fmt.Sprint("suite", number),
			// Everything in the suite happens within the first second of 1970.
			Now: func() time.Time { return time.Unix(-3600, 0).Add(time.Since(began)) },
		}, kvindex.NewMemory(kvindex.MemoryConfig{Capacity: capacity}))
		if err != nil {
			t.Fatal(err)
		}
		last = &replica{Index: x, t: t}
		last.run()
		<-x.clock.ready // it is connected
		return x
	}
	indextest.Run(t, func(t testing.TB, capacity int) kvindex.Index { return shared(t, capacity) })
	indextest.RunRestore(t, func(t testing.TB, capacity int) indextest.Restorer { return shared(t, capacity) })
}

// TestConvergence: what one router learns, the other finds, and the other way round.
func TestConvergence(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	one, two := a.add("b1:80"), b.add("b1:80")
	a.awaitShared()
	b.awaitShared()
	first, second := prompt("first", 40), prompt("second", 9000)
	a.see(one, first)
	b.awaitDepth(two, first, 40)
	b.see(two, second)
	a.awaitDepth(one, second, maxPublished)
	await(t, "the other router's report is heard", func() bool { return a.Status().Peers == 1 })
	if got := a.Status(); got.Published != 1 || got.Received != 1 || got.Dropped != 0 {
		t.Errorf("status: %+v", got)
	}
}

// TestKeys looks at what lies in Redis: names, tags, members, scores, and that everything
// has a time to live.
func TestKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	keys := prompt("p", 64)
	a.see(h, keys)
	a.Forget(h, kvindex.Stamp(time.Now().Add(-time.Minute).UnixNano()))
	client := server.Client()
	await(t, "the set is there", func() bool {
		return client.Exists(t.Context(), "warmroute:1:{pool/0}:b1:80").Val() == 1
	})
	total := 0
	for shard := range shards {
		set := fmt.Sprintf("warmroute:1:{pool/%x}:b1:80", shard)
		for _, z := range client.ZRangeWithScores(t.Context(), set, 0, -1).Val() {
			key, ok := parseMember(z.Member.(string))
			if !ok || shardOf(key) != shard {
				t.Errorf("%s has %q", set, z.Member)
			}
			if age := time.Since(time.UnixMicro(int64(z.Score))); age < 0 || age > patience {
				t.Errorf("%s: the score %v is no last use", set, z.Score)
			}
			total++
		}
	}
	if total != len(keys) {
		t.Errorf("%d blocks in the sets, want %d", total, len(keys))
	}
	await(t, "all keys are there", func() bool {
		return client.Exists(t.Context(), "warmroute:1:{pool}:stream", "warmroute:1:{pool}:horizons", "warmroute:1:{pool}:epoch", "warmroute:1:backends").Val() == 4
	})
	await(t, "all keys have a time to live", func() bool {
		for _, key := range client.Keys(t.Context(), "*").Val() {
			if !strings.HasPrefix(key, "warmroute:1:") {
				t.Errorf("key %s is outside of the namespace", key)
			}
			if ttl := client.TTL(t.Context(), key).Val(); ttl <= 0 || ttl > time.Hour {
				return false
			}
		}
		return true
	})
}

// TestWarmStart is HA-08 and more: a router that starts finds what others learned before,
// in the right order.
func TestWarmStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	prompts := make([][]kvindex.Key, 40)
	began := time.Now().Add(-time.Second)
	for i := range prompts {
		prompts[i] = indextest.Chain("f", fmt.Sprint(i), 10, 200)
		a.seeAt(h, prompts[i], began.Add(time.Duration(i)*10*time.Millisecond))
	}
	a.awaitShared()
	await(t, "everything is written", func() bool { return a.Status().Written == 40 })
	a.stop()

	b := launch(t, server.Addr)
	h = b.add("b1:80")
	early := prompt("early", 20)
	b.see(h, early)
	for _, keys := range prompts {
		b.awaitDepth(h, keys, 200)
	}
	if got := b.Memory.Stats(h).Blocks; got != 10+40*190+20 {
		t.Errorf("%d blocks, want %d", got, 10+40*190+20)
	}
	b.SetCapacity(h, 20+200) // what is newest is what this router saw itself, then the last prompt
	b.awaitDepth(h, early, 20)
	b.awaitDepth(h, prompts[39], 200)
	b.awaitDepth(h, prompts[38], 10)
}

// TestWarmStartOfABackendThatComesLater: what Redis knows of it comes in when it is added.
func TestWarmStartOfABackendThatComesLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	a.add("b1:80")
	b.add("b1:80")
	b.awaitShared()
	h := a.add("b2:80")
	keys := prompt("p", 50)
	a.see(h, keys)
	await(t, "it is written", func() bool { return a.Status().Written == 1 })
	b.awaitDepth(b.add("b2:80"), keys, 50)
}

// TestHorizon: what one router finds to be gone is gone on the others and in Redis.
func TestHorizon(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	one, two := a.add("b1:80"), b.add("b1:80")
	old, recent := prompt("old", 30), prompt("recent", 20)
	a.see(one, old)
	b.awaitDepth(two, old, 30)
	at := time.Now()
	horizon := kvindex.Stamp(at.UnixNano())
	await(t, "time passes", func() bool { return time.Since(at) > 5*time.Millisecond })
	a.see(one, recent)
	b.awaitDepth(two, recent, 20)
	if got := a.Forget(one, horizon); got != 30 {
		t.Fatalf("Forget: %d blocks, want 30", got)
	}
	b.awaitDepth(two, old, 0)
	b.awaitDepth(two, recent, 20)
	c := launch(t, server.Addr)
	three := c.add("b1:80")
	c.awaitDepth(three, recent, 20)
	if got := c.depth(three, old); got != 0 {
		t.Errorf("a router that starts believes %d blocks from before the horizon", got)
	}
	moves := b.Status().Horizons
	a.Forget(one, horizon)
	b.Forget(two, horizon)
	a.see(one, prompt("more", 5))
	b.awaitDepth(two, prompt("more", 5), 5)
	if got := b.Status().Horizons; got != moves {
		t.Errorf("a horizon that was known was told again")
	}
}

// TestDrop: when the last router drops a backend, its keys go, and when it returns, nothing
// from before is believed.
func TestDrop(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	one := a.add("b1:80")
	keys := prompt("p", 60)
	a.see(one, keys)
	a.awaitShared()
	await(t, "it is written, and listed", func() bool {
		return size(server, "b1:80") == 60 && server.Do("ZSCORE", "warmroute:1:backends", "pool b1:80") != nil
	})
	a.Drop(one)
	again := a.add("b1:80")
	a.awaitShared()
	b := a.holder(again)
	await(t, "it is known that nobody has had it meanwhile", func() bool { return b.claimed.Load() })
	if got := a.depth(again, keys); got != 0 {
		t.Errorf("a backend that returns is believed to hold %d blocks from before", got)
	}
	c := launch(t, server.Addr)
	three := c.add("b1:80")
	c.awaitShared()
	if got := c.depth(three, keys); got != 0 {
		t.Errorf("another router believes %d blocks from before", got)
	}
	a.see(again, keys)
	c.awaitDepth(three, keys, 60)
	c.stop()
	await(t, "the other router is not heard any more", func() bool { return a.Status().Peers == 0 })
	a.Drop(again)
	await(t, "its sets are gone", func() bool { return size(server, "b1:80") == 0 })
	if got := server.Do("ZSCORE", "warmroute:1:backends", "pool b1:80"); got != nil {
		t.Errorf("it is still listed: %v", got)
	}
}

// dropped makes it seem that a router has dropped a backend some time ago.
func (r *replica) dropped(id string, ago time.Duration) {
	at := placeOf("pool " + id + " http://" + id)
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.Index.dropped[at]
	d.at -= kvindex.Stamp(ago)
	r.Index.dropped[at] = d
}

// TestOneRouterDrops: what one router drops, the others have as before, in their memories and
// in Redis, and so has that router when it comes back. When the last one drops it, it goes.
func TestOneRouterDrops(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	one, two := a.add("b1:80"), b.add("b1:80")
	keys := prompt("p", 60)
	a.see(one, keys)
	b.awaitDepth(two, keys, 60)
	await(t, "it is written", func() bool { return size(server, "b1:80") == 60 })
	await(t, "they hear of each other", func() bool { return a.Status().Peers == 1 && b.Status().Peers == 1 })
	await(t, "it is listed", func() bool { return server.Do("ZSCORE", "warmroute:1:backends", "pool b1:80") != nil })
	settled := func(r *replica) func() bool {
		return func() bool {
			r.mu.RLock()
			defer r.mu.RUnlock()
			return r.Index.dropped[place{"pool", "b1:80", "b1:80"}].settled
		}
	}
	a.Drop(one)
	again := a.add("b1:80") // at once: it does not show yet whether the other one has it
	a.see(again, prompt("meanwhile", 5))
	b.awaitDepth(two, prompt("meanwhile", 5), 5)
	a.Drop(again)
	a.dropped("b1:80", departWait)
	await(t, "the first router knows that the other one has it", settled(a))
	if got := b.depth(two, keys); got != 60 {
		t.Errorf("the other router has %d blocks left", got)
	}
	if got := size(server, "b1:80"); got != 65 {
		t.Errorf("%d blocks are left in Redis", got)
	}
	again = a.add("b1:80")
	a.awaitDepth(again, keys, 60)
	a.Drop(again)
	b.Drop(two)
	// Nobody lists it any more. The first router looks as if the other one still did.
	a.dropped("b1:80", departWait)
	await(t, "the first router leaves it to the last", settled(a))
	server.Do("ZADD", "warmroute:1:backends", time.Now().Add(-2*departWait).UnixMicro(), "pool b1:80")
	b.dropped("b1:80", departWait)
	await(t, "its sets are gone", func() bool { return size(server, "b1:80") == 0 })
	await(t, "it is not listed any more", func() bool {
		return server.Do("ZSCORE", "warmroute:1:backends", "pool b1:80") == nil
	})
}

// TestNamespaces: fleets with namespaces of their own, and routers whose keys have another
// version, do not touch each other's.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	named := func(name string) func(*Config) { return func(c *Config) { c.Namespace = name } }
	a, b, c := launch(t, server.Addr, named("one")), launch(t, server.Addr, named("two")), launch(t, server.Addr, named("one"))
	one, two, three := a.add("b1:80"), b.add("b1:80"), c.add("b1:80")
	later := fmt.Sprintf("one:%d:{pool/0}:b1:80", kvindex.KeyVersion+1)
	server.Do("ZADD", later, time.Now().UnixMicro(), "8 bytes!")
	a.awaitShared()
	b.awaitShared()
	c.awaitShared()
	keys := prompt("p", 50)
	a.see(one, keys)
	c.awaitDepth(three, keys, 50)
	if got := b.Status(); b.depth(two, keys) != 0 || got.Received+got.Ignored != 0 || got.Peers != 0 {
		t.Errorf("another fleet's router heard of it: %+v", got)
	}
	a.Forget(one, kvindex.Stamp(time.Now().UnixNano()))
	c.awaitDepth(three, keys, 0)
	if server.Do("ZCARD", later) != int64(1) {
		t.Error("what belongs to another version is gone")
	}
}
