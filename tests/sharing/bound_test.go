//go:build !race

// The race detector takes too much of the machine for sizes and times like these.

package sharing

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/warmroute/warmroute/kvindex/redisindex"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// sets is over how many sets the blocks of one backend are spread.
const sets = 16

// contents is what a server has.
type contents struct {
	keys, blocks int64
	memory       int64 // bytes in use
}

func contentsOf(t testing.TB, client *redis.Client, backends ...string) (c contents) {
	t.Helper()
	ctx := context.Background()
	c.keys = client.DBSize(ctx).Val()
	for _, backend := range backends {
		for shard := range sets {
			c.blocks += client.ZCard(ctx, fmt.Sprintf("warmroute:1:{default/%x}:%s", shard, backend)).Val()
		}
	}
	for line := range strings.Lines(client.Info(ctx, "memory").Val()) {
		if text, found := strings.CutPrefix(line, "used_memory:"); found {
			if _, err := fmt.Sscan(text, &c.memory); err != nil {
				t.Error(err)
			}
		}
	}
	return c
}

func (c contents) String() string {
	return fmt.Sprintf("%d keys, %d blocks, %.1f MB", c.keys, c.blocks, float64(c.memory)/1e6)
}

// askMany asks prompts of four blocks that nobody has asked before, as fast as they are
// written.
func (r *replica) askMany(from, to int, now func() time.Time) {
	r.t.Helper()
	for i := from; i < to; i++ {
		if i%500 == 0 {
			r.awaitWritten(8000)
		}
		r.askAt(chain(uint64(i), 4), now())
	}
	r.awaitWritten(0)
}

// awaitWritten waits until no more than so many uses wait to be written.
func (r *replica) awaitWritten(atMost int) {
	r.t.Helper()
	await(r.t, "what waits is written", func() bool {
		s := r.index.Status()
		return s.Queued <= atMost && (atMost > 0 || s.Written == s.Published)
	})
}

// TestRD07KeysLevelOff: of a million different prompts, Redis keeps what the engines hold.
func TestRD07KeysLevelOff(t *testing.T) {
	t.Parallel()
	asked, capacity := 60_000, 5000
	if full() {
		asked, capacity = 1_000_000, 100_000
	}
	server := redistest.Start(t)
	client := server.Client()
	// A router trims nothing in its first minute: its clock is set, which does not matter
	// otherwise.
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	c := settings(server.Addr)
	c.Now = now
	r := launch(t, c, capacity)
	r.add("b0:80", "b1:80")
	r.awaitShared()
	ahead.Store(int64(2 * time.Minute))
	await(t, "the clocks are compared again", func() bool { return r.index.Status().ClockOffset < -time.Minute })

	const parts = 20
	bound, most := int64(2*sets*(capacity/sets*11/10+64)), int64(0)
	for part := range parts {
		r.askMany(part*asked/parts, (part+1)*asked/parts, now)
		most = max(most, contentsOf(t, client, "b0:80", "b1:80").blocks)
		if (part+1)%5 != 0 {
			continue
		}
		t.Logf("after %d prompts of 4 blocks: %v", (part+1)*asked/parts, contentsOf(t, client, "b0:80", "b1:80"))
	}
	t.Logf("at most %d blocks, %.1f times the bound of %d", most, float64(most)/float64(bound), bound)
	took := await(t, "sets are trimmed", func() bool { return contentsOf(t, client, "b0:80", "b1:80").blocks <= bound })
	end := contentsOf(t, client, "b0:80", "b1:80")
	t.Logf("%v later, with room for %d blocks: %v", took.Round(time.Second), 2*capacity, end)
	if end.blocks < int64(2*capacity) || end.keys > 2*sets+8 {
		t.Errorf("want %d to %d blocks in at most %d keys", 2*capacity, bound, 2*sets+8)
	}
	if trimmed := r.index.Status().Trimmed; trimmed == 0 {
		t.Error("nothing was trimmed")
	}
}

// TestRD07NothingStays: what nobody uses for the time to live is gone, while routers run and
// keep what they need to find each other.
func TestRD07NothingStays(t *testing.T) {
	t.Parallel()
	asked, age := 5000, redisindex.MinTTL-4*time.Second // by default, most of the time is over
	if full() {
		asked, age = 200_000, 0
	}
	server := redistest.Start(t)
	client := server.Client()
	before := contentsOf(t, client)
	c := settings(server.Addr)
	c.TTL = redisindex.MinTTL
	r := launch(t, c, 10*asked)
	r.add("b0:80")
	r.awaitShared()
	r.askMany(0, asked, func() time.Time { return time.Now().Add(-age) })
	used := contentsOf(t, client, "b0:80")
	if used.blocks != int64(4*asked) {
		t.Errorf("%d blocks are written, want %d", used.blocks, 4*asked)
	}
	<-time.After(redisindex.MinTTL - age)
	took := await(t, "the blocks are gone", func() bool { return contentsOf(t, client, "b0:80").blocks == 0 })
	end := contentsOf(t, client, "b0:80")
	t.Logf("at first %v; with traffic %v; %v after the time to live %v", before, used, took.Round(time.Second), end)
	if end.keys > 5 {
		t.Errorf("%d keys are left, want the stream and a few", end.keys)
	}
	for _, key := range client.Keys(t.Context(), "*").Val() {
		if ttl := client.TTL(t.Context(), key).Val(); ttl <= 0 || ttl > redisindex.MinTTL {
			t.Errorf("%s has %v to live", key, ttl)
		}
	}
}

// fill adds recent blocks to one set of a backend, in the server.
const fill = `for i = 1, tonumber(ARGV[3]) do
	local r = math.random
	redis.call('ZADD', KEYS[1], ARGV[2] - i, struct.pack('>I2I2I2I2', ARGV[1] * 4096 + r(0, 4095), r(0, 65535), r(0, 65535), r(0, 65535)))
end`

// TestRD13RemovingABackend: a backend with very many entries leaves under traffic. No command
// takes 10 ms, none walks the keys, and nothing is sent there from the next decision on.
func TestRD13RemovingABackend(t *testing.T) {
	t.Parallel()
	const slow = 10 * time.Millisecond
	entries := 250_000
	if full() {
		entries = 1_000_000
	}
	server := redistest.Start(t)
	client := server.Client()
	ctx := t.Context()
	for shard := range sets {
		key := fmt.Sprintf("warmroute:1:{default/%x}:b1:80", shard)
		if err := client.Eval(ctx, fill, []string{key}, shard, time.Now().UnixMicro(), entries/sets).Err(); err != nil && err != redis.Nil {
			t.Fatal(err)
		}
	}
	command(t, client, "SET", "warmroute:1:{default}:epoch", "test", "EX", 3600) // or routers would write everything again
	filled, usage := contentsOf(t, client, "b1:80"), int64(0)
	for shard := range sets {
		usage += client.MemoryUsage(ctx, fmt.Sprintf("warmroute:1:{default/%x}:b1:80", shard), 1000).Val()
	}
	t.Logf("%v; MEMORY USAGE of the backend's sets is %.1f MB", filled, float64(usage)/1e6)
	began := time.Now()
	r := launch(t, settings(server.Addr), entries+entries/4)
	r.add("b0:80", "b1:80")
	r.awaitShared()
	await(t, "the router has read it all", func() bool { return r.index.Status().Restored >= uint64(filled.blocks) })
	t.Logf("a router that starts has read it in %v", time.Since(began).Round(10*time.Millisecond))

	command(t, client, "CONFIG", "SET", "slowlog-log-slower-than", slow.Microseconds())
	command(t, client, "SLOWLOG", "RESET")
	command(t, client, "CONFIG", "RESETSTAT")
	var left atomic.Bool
	await(t, "both are used", func() bool {
		return r.ask(chain(fresh.Add(1), 40)).Backend.ID == "b1:80"
	})
	removed := make(chan struct{})
	go func() {
		defer close(removed)
		<-time.After(500 * time.Millisecond)
		r.specs = r.specs[:1]
		if _, err := r.pool.SetBackends(r.specs); err != nil {
			t.Error(err)
		}
		left.Store(true)
	}()
	paced(300, 200, func(i int) {
		gone := left.Load()
		if d := r.ask(chain(uint64(i)<<32, 40)); gone && d.Backend.ID == "b1:80" {
			t.Errorf("request %d went to the backend that had left", i)
		}
	})
	<-removed
	took := await(t, "its sets are gone", func() bool { return contentsOf(t, client, "b1:80").blocks == 0 })
	t.Logf("removed, at most %v after the traffic", took.Round(time.Millisecond))
	for _, entry := range client.SlowLogGet(ctx, -1).Val() {
		if strings.Contains(strings.Join(entry.Args, " "), ":b0:80") {
			t.Logf("%.60q took %v, on a machine that is busy", entry.Args, entry.Duration) // a few blocks of a request
			continue
		}
		t.Errorf("%.60q took %v, want under %v", entry.Args, entry.Duration, slow)
	}
	stats := client.Info(ctx, "commandstats").Val()
	for _, walks := range []string{"keys", "scan", "zscan", "del"} {
		if strings.Contains(stats, "cmdstat_"+walks+":") {
			t.Errorf("the removal used %s", strings.ToUpper(walks))
		}
	}
	for line := range strings.Lines(stats) {
		if strings.HasPrefix(line, "cmdstat_unlink:") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// TestHA08WarmStart: a router that starts over 100,000 entries hits as often as the one
// before it, within two seconds.
func TestHA08WarmStart(t *testing.T) {
	const count, length, least = 1000, 100, 0.95
	most := within(2 * time.Second)
	server := redistest.Start(t)
	backends := []string{"b0:80", "b1:80", "b2:80", "b3:80"}
	// rate is the share of all blocks that some backend is known to hold.
	rate := func(r *replica) float64 {
		hits := 0
		for i := range count {
			hits += r.matched(chain(uint64(i), length))
		}
		return float64(hits) / (count * length)
	}
	a := launch(t, settings(server.Addr), 100_000)
	a.add(backends...)
	a.awaitShared()
	for i := range count {
		a.ask(chain(uint64(i), length))
	}
	a.awaitWritten(0)
	before := rate(a)
	a.stop()
	began := time.Now()
	b := launch(t, settings(server.Addr), 100_000)
	b.add(backends...)
	await(t, "the new router knows as much", func() bool { return rate(b) >= least*before })
	took := time.Since(began)
	t.Logf("%d entries: hit rate %.1f %% before, %.1f %% %v after the start", count*length, 100*before, 100*rate(b), took.Round(time.Millisecond))
	if took > most {
		t.Errorf("want at least %.0f %% of it within %v", 100*least, most)
	}
}
