package redisindex

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/indextest"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// tidyAll looks at every set of a backend, as a keeper does that has run for long.
func tidyAll(t *testing.T, r *replica, h kvindex.Holder) {
	t.Helper()
	k := &keeper{Index: r.Index}
	b := r.holder(h)
	for _, set := range b.sets {
		l := &look{backend: b, set: set}
		if err := k.find(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if err := k.tidy(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
}

// size is how many blocks a backend has in Redis.
func size(server *redistest.Server, id string) (n int64) {
	for shard := range shards {
		n += server.Do("ZCARD", fmt.Sprintf("warmroute:1:{pool/%x}:%s", shard, id)).(int64)
	}
	return n
}

// TestRD07SetsAreTrimmed: sets level off at what the backend's engine holds, and what a router
// reads from trimmed ones has no holes.
func TestRD07SetsAreTrimmed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	const capacity, length, prompts = 16_000, 400, 150
	began := time.Now().Add(-time.Minute)
	all := make([][]kvindex.Key, prompts)
	for i := range all {
		all[i] = indextest.Chain("f", fmt.Sprint(i), 50, length)
		a.seeAt(h, all[i], began.Add(time.Duration(i)*100*time.Millisecond))
	}
	a.awaitShared()
	await(t, "everything is written", func() bool { return a.Status().Written == prompts })
	if got := size(server, "b1:80"); got != 50+prompts*(length-50) {
		t.Fatalf("%d blocks in Redis, want %d", got, 50+prompts*(length-50))
	}
	a.SetCapacity(h, capacity)
	tidyAll(t, a, h)
	tidyAll(t, a, h) // what one set was trimmed to goes for all
	bound := int64(shards * a.setBound(a.holder(h)))
	if got := size(server, "b1:80"); got > bound || got < capacity {
		t.Errorf("%d blocks left in Redis, want %d to %d", got, capacity, bound)
	}

	b := launch(t, server.Addr)
	two := b.add("b1:80")
	b.SetCapacity(two, 10*capacity)
	b.awaitShared()
	b.awaitDepth(two, all[prompts-1], length)
	held := make(map[kvindex.Key]bool)
	b.Resident(two).Entries(func(entries []kvindex.Entry) bool {
		for _, e := range entries {
			held[e.Key] = true
		}
		return true
	})
	if len(held) < capacity {
		t.Errorf("%d blocks were restored, want %d", len(held), capacity)
	}
	for i, keys := range all {
		whole := b.depth(two, keys)
		for j, key := range keys {
			if j >= whole && held[key] {
				t.Fatalf("prompt %d: block %d is held, and block %d is not", i, j, whole)
			}
		}
	}
}

// TestUnevenSets: where a set lost its old end and the loss was noted, nothing below it is
// read from the others.
func TestUnevenSets(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	began := time.Now().Add(-time.Minute)
	all := make([][]kvindex.Key, 20)
	for i := range all {
		all[i] = prompt(fmt.Sprint(i), 200)
		a.seeAt(h, all[i], began.Add(time.Duration(i)*time.Second))
	}
	a.awaitShared()
	await(t, "everything is written", func() bool { return a.Status().Written == 20 })
	k := &keeper{Index: a.Index}
	b := a.holder(h)
	l := &look{backend: b, set: b.sets[7]}
	if err := k.find(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	before := l.size
	if err := k.condemn(t.Context(), l, before/2); err != nil {
		t.Fatal(err)
	}
	if err := k.tidy(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if l.size > before/2+1 {
		t.Errorf("%d of %d blocks are left in the set, want half", l.size, before)
	}
	a.stop()
	server.Do("DEL", "warmroute:1:{pool}:stream") // it still tells of everything
	c := launch(t, server.Addr)
	h = c.add("b1:80")
	c.awaitDepth(h, all[19], 200)
	c.awaitShared()
	blocks := 0
	for _, keys := range all {
		blocks += c.depth(h, keys)
	}
	if got := c.Memory.Stats(h).Blocks; got != blocks || got < 1500 || got > 2500 {
		t.Errorf("%d blocks restored, %d of them in whole prefixes, want about half of 4000", got, blocks)
	}
}

// TestWhatIsDeadIsRemoved: sets that nobody used for the time to live, and blocks up to a
// horizon, go before they expire; so do backends that no router has.
func TestWhatIsDeadIsRemoved(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr, func(c *Config) { c.TTL = 10 * time.Minute })
	idle, half, gone := a.add("idle:80"), a.add("half:80"), a.add("gone:80")
	now := time.Now()
	for i := range 12 {
		keys := prompt(fmt.Sprint(i), 500)
		a.seeAt(idle, keys, now.Add(-20*time.Minute))
		a.seeAt(half, keys, now.Add(time.Duration(i-12)*time.Second))
		a.seeAt(gone, keys, now)
	}
	a.awaitShared()
	await(t, "everything is written", func() bool { return a.Status().Written == 36 })
	tidyAll(t, a, idle)
	if got := size(server, "idle:80"); got != 0 {
		t.Errorf("%d blocks that are idle are left", got)
	}
	a.Forget(half, kvindex.Stamp(now.Add(-6500*time.Millisecond).UnixNano()))
	tidyAll(t, a, half)
	if got := size(server, "half:80"); got != 3000 {
		t.Errorf("%d blocks are left, want the 3000 after the horizon", got)
	}
	for _, ttl := range []string{"PERSIST", "EXPIRE"} {
		args := []any{ttl, "warmroute:1:{pool/0}:half:80"}
		if ttl == "EXPIRE" {
			args = append(args, 100)
		}
		server.Do(args...)
		tidyAll(t, a, half)
		if got := server.Do("TTL", "warmroute:1:{pool/0}:half:80").(int64); got < 500 || got > 600 {
			t.Errorf("after %s: %d s to live, want 600", ttl, got)
		}
	}

	a.mu.Lock() // as if nobody had it any more, and nobody had dropped it
	b := a.holder(gone)
	a.setHolder(gone, nil)
	delete(b.home.backends, b.label)
	a.mu.Unlock()
	server.Do("ZADD", "warmroute:1:backends", now.Add(-6*time.Minute).UnixMicro(), "pool gone:80")
	k := &keeper{Index: a.Index}
	if err := k.list(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := size(server, "gone:80"); got != 0 {
		t.Errorf("%d blocks of a backend that nobody has are left", got)
	}
	if got := server.Do("ZSCORE", "warmroute:1:backends", "pool gone:80"); got != nil {
		t.Errorf("it is still listed: %v", got)
	}
}

// TestTheKeeperGetsRound: every set is looked at, and none is too often.
func TestTheKeeperGetsRound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	for i := range 7 {
		h := a.add(fmt.Sprintf("b%d:80", i))
		a.see(h, prompt(fmt.Sprint(i), 200))
	}
	a.awaitShared()
	await(t, "everything is written", func() bool { return a.Status().Written == 7 })
	a.stop() // its own keeper

	client := server.Client()
	b := launch(t, server.Addr)
	for i := range 7 {
		b.add(fmt.Sprintf("b%d:80", i))
	}
	b.awaitShared()
	keys := client.Keys(t.Context(), "warmroute:1:{pool/*").Val()
	for _, key := range keys {
		client.Persist(t.Context(), key)
	}
	k := &keeper{Index: b.Index}
	for range int(setEvery/keepEvery) * (1 + b.peers.replicas()) {
		k.lookAtSets(t.Context())
	}
	for _, key := range keys {
		if client.TTL(t.Context(), key).Val() <= 0 {
			t.Errorf("%s was not looked at", key)
		}
	}
}

// TestOldNotesGo: of backends that are long gone, and of what lies ahead, nothing stays among
// the horizons and what was trimmed, and what this router knows is always there.
func TestOldNotesGo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	a.awaitShared()
	b := a.holder(h)
	now := time.Now()
	keys := []string{b.home.horizons, b.home.trimmed}
	for _, key := range keys {
		for i := range 3000 {
			server.Do("ZADD", key, now.Add(-time.Hour-time.Duration(i)*time.Second).UnixMicro(), fmt.Sprintf("gone%d:80", i))
		}
		server.Do("ZADD", key, now.Add(time.Hour).UnixMicro(), "ahead:80", "+inf", "somebody", now.Add(-time.Minute).UnixMicro(), "other:80")
	}
	a.Forget(h, kvindex.Stamp(now.Add(-2*time.Minute).UnixNano()))
	b.trimmed.Store(now.Add(-3 * time.Minute).UnixMicro())
	a.unlisted.Store(true)
	for _, key := range keys {
		await(t, "only what still says something is left in "+key, func() bool { return server.Do("ZCARD", key) == int64(2) })
		server.Do("DEL", key)
	}
	a.unlisted.Store(true)
	for _, key := range keys {
		await(t, "what this router knows is there again", func() bool {
			return server.Do("ZSCORE", key, "b1:80") != nil
		})
		await(t, "it has a time to live", func() bool {
			if server.Do("TTL", key).(int64) > 0 {
				return true
			}
			b.home.horizonsRenewed.forget() // nobody takes the key away but this test
			b.home.trimmedRenewed.forget()
			a.unlisted.Store(true)
			return false
		})
	}
}
