package redisindex

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
	"github.com/warmroute/warmroute/router"
)

// TestRD01StartWithoutRedis: a router that starts without Redis works, and shares once it is there,
// also what it learned before.
func TestRD01StartWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	keys := prompt("p", 40)
	a.see(h, keys)
	if got := a.depth(h, keys); got != 40 {
		t.Fatalf("without Redis the index finds %d blocks, want 40", got)
	}
	await(t, "the failure is noticed", func() bool {
		s := a.Status()
		return s.Failures[Unreachable] > 3 && s.Breaker == "open" && s.Sharing == router.Alone
	})
	server.Start()
	a.awaitShared()
	b := launch(t, server.Addr)
	b.awaitDepth(b.add("b1:80"), keys, 40)
}

// TestRD12FlushAll: Redis is emptied. What routers know is back in it soon, and so are horizons.
func TestRD12FlushAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	one, two := a.add("b1:80"), b.add("b1:80")
	a.awaitShared()
	b.awaitShared()
	old := prompt("old", 5)
	a.see(one, old)
	b.awaitDepth(two, old, 5)
	a.Forget(one, kvindex.Stamp(time.Now().UnixNano()))
	b.awaitDepth(two, old, 0)
	keys := prompt("p", 3000)
	a.see(one, keys)
	b.awaitDepth(two, keys, 3000)
	before := a.Status().Emptied + b.Status().Emptied
	server.Do("FLUSHALL")
	await(t, "both have noticed", func() bool { return a.Status().Emptied+b.Status().Emptied == before+2 })
	a.awaitShared()
	b.awaitShared()
	for _, key := range []string{"warmroute:1:{pool}:horizons", "warmroute:1:{pool/0}:b1:80"} {
		await(t, key+" is there again, with a time to live", func() bool { return server.Do("TTL", key).(int64) > 0 })
	}
	next := prompt("next", 30)
	b.see(two, next)
	a.awaitDepth(one, next, 30)
	c := launch(t, server.Addr)
	three := c.add("b1:80")
	c.awaitDepth(three, keys, 3000)
	c.awaitDepth(three, next, 30)
	c.awaitDepth(three, old, 0)
}

// TestRestartOfRedis: the server crashes and comes back empty.
func TestRestartOfRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	one, two := a.add("b1:80"), b.add("b1:80")
	first, during, after := prompt("first", 30), prompt("during", 30), prompt("after", 30)
	a.see(one, first)
	b.awaitDepth(two, first, 30)
	await(t, "they hear of each other", func() bool { return a.Status().Peers == 1 && b.Status().Peers == 1 })
	server.Kill()
	a.see(one, during)
	await(t, "they are cut off from each other", func() bool {
		return a.Status().Sharing == router.Cut && b.Status().Sharing == router.Cut
	})
	emptied := a.Status().Emptied
	server.Start()
	await(t, "it is found empty", func() bool { return a.Status().Emptied > emptied })
	a.awaitShared()
	b.awaitShared()
	b.awaitDepth(two, during, 30) // it waited in the queue
	b.see(two, after)
	a.awaitDepth(one, after, 30)
	c := launch(t, server.Addr)
	three := c.add("b1:80")
	for _, keys := range [][]kvindex.Key{first, during, after} {
		c.awaitDepth(three, keys, 30)
	}
}

// TestHangingRedis: the server takes connections and answers nothing. All methods return,
// what does not fit into the queue is counted, and once the server answers, everything
// that is known is written.
func TestHangingRedis(t *testing.T) {
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	a.awaitShared()
	goroutines := runtime.NumGoroutine()
	server.Stop()
	t.Cleanup(server.Continue)
	const prompts = 3 * maxQueued / 2
	keys := make([]kvindex.Key, 3)
	for i := range prompts {
		keys[0], keys[1], keys[2] = kvindex.Key(i+1)*0x9E3779B97F4A7C15, kvindex.Key(i+1)*0xBF58476D1CE4E5B9, kvindex.Key(i+1)*0x94D049BB133111EB
		a.see(h, keys)
		if got := a.depth(h, keys); got != 3 {
			t.Fatalf("match: %d blocks, want 3", got)
		}
	}
	other := a.add("b2:80")
	a.Drop(other)
	a.Forget(h, 1)
	if got := a.Status(); got.Dropped == 0 || got.Queued > maxQueued {
		t.Errorf("%d dropped, %d wait of at most %d", got.Dropped, got.Queued, maxQueued)
	}
	await(t, "the breaker opens", func() bool { return a.Status().Breaker == "open" })
	await(t, "no goroutines pile up", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	server.Continue()
	a.awaitShared()
	total := func() (n int64) {
		for shard := range shards {
			n += server.Do("ZCARD", fmt.Sprintf("warmroute:1:{pool/%x}:b1:80", shard)).(int64)
		}
		return n
	}
	await(t, "everything is written", func() bool { return total() == 3*prompts })
	await(t, "no goroutines are left", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
}

// TestServersThatRefuse: a server that says no is asked again, and nothing is lost.
func TestServersThatRefuse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		kind         Failure
		break_, mend [][]any
	}{
		{
			"RD-04: a replica behind the same address", ReadOnly,
			[][]any{{"CONFIG", "SET", "min-replicas-to-write", "0"}, {"REPLICAOF", "127.0.0.1", "1"}},
			[][]any{{"REPLICAOF", "NO", "ONE"}},
		},
		{
			"out of memory", OutOfMemory,
			[][]any{{"CONFIG", "SET", "maxmemory", "1"}},
			[][]any{{"CONFIG", "SET", "maxmemory", "0"}},
		},
		{
			"no permission", Denied,
			[][]any{{"ACL", "SETUSER", "default", "-xadd"}},
			[][]any{{"ACL", "SETUSER", "default", "+xadd"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			a, b := launch(t, server.Addr), launch(t, server.Addr)
			one, two := a.add("b1:80"), b.add("b1:80")
			a.awaitShared()
			b.awaitShared()
			await(t, "they hear of each other", func() bool { return a.Status().Peers == 1 })
			for _, command := range tc.break_ {
				server.Do(command...)
			}
			keys := prompt("p", 100)
			a.see(one, keys)
			await(t, "the refusal is counted", func() bool { return a.Status().Failures[tc.kind] > 0 })
			if tc.kind == OutOfMemory { // one is enough: it takes its time
				await(t, "it shows", func() bool { return a.Status().Sharing == router.Cut })
			}
			for _, command := range tc.mend {
				server.Do(command...)
			}
			b.awaitDepth(two, keys, 100)
			a.awaitShared()
			if tc.kind == ReadOnly && a.Status().Renewals == 0 {
				t.Error("the connections to the replica are still in use")
			}
		})
	}
}

// TestWrongPassword: nothing is shared with wrong credentials, and requests do not notice.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "right")
	a := launch(t, server.Addr, func(c *Config) { c.Password = "wrong" })
	b := launch(t, server.Addr, func(c *Config) { c.Password = "right" })
	h := a.add("b1:80")
	b.add("b1:80")
	keys := prompt("p", 10)
	a.see(h, keys)
	b.awaitShared()
	await(t, "it is denied", func() bool { return a.Status().Failures[Denied] > 0 })
	if got := a.Status(); got.Sharing != router.Alone || a.depth(h, keys) != 10 {
		t.Errorf("%+v", got)
	}
}

// TestDeniedIsSaidOnce: what an operator has to mend is not tried over and over, and said once,
// with what to change.
func TestDeniedIsSaidOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		password string
		break_   []any
		want     string
	}{
		"wrong password": {"wrong", []any{"CONFIG", "SET", "requirepass", "right"}, "WRONGPASS"},
		"no permission":  {"", []any{"ACL", "SETUSER", "default", "-xadd"}, "NOPERM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			server.Do(tc.break_...)
			var text lockedBuffer
			a := launch(t, server.Addr, func(c *Config) {
				c.Password, c.Logger = tc.password, slog.New(slog.NewTextHandler(&text, nil))
			})
			for i := range 3 {
				a.see(a.add(fmt.Sprintf("b%d:80", i)), prompt("p", 10))
			}
			denied := func() uint64 { return a.Status().Failures[Denied] }
			await(t, "it is denied", func() bool { return denied() > 0 })
			before := denied()
			<-time.After(3 * deniedPause)
			// At each try there may be a few exchanges side by side.
			if got := denied() - before; got == 0 || got > 40 {
				t.Errorf("%d commands were denied in %v", got, 3*deniedPause)
			}
			log := text.String()
			if strings.Count(log, "access is denied") != 1 || !strings.Contains(log, tc.want) || !strings.Contains(log, "redis.password") {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestWrongTypes: somebody else keeps other things under our keys. They are replaced.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ours := []string{
		"warmroute:1:backends", "warmroute:1:{pool}:stream", "warmroute:1:{pool}:horizons", "warmroute:1:{pool}:trimmed",
	}
	for shard := range shards {
		ours = append(ours, fmt.Sprintf("warmroute:1:{pool/%x}:b1:80", shard))
	}
	spoil := func() {
		for _, key := range ours {
			server.Do("SET", key, "something")
		}
		server.Do("LPUSH", "something", "something")
		server.Do("RENAME", "something", "warmroute:1:{pool}:epoch") // nobody gets in between
	}
	spoil()
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	one, two := a.add("b1:80"), b.add("b1:80")
	for _, name := range []string{"first", "second"} {
		keys := prompt(name, 200)
		a.see(one, keys)
		a.Forget(one, kvindex.Stamp(time.Now().Add(-time.Minute).UnixNano()))
		b.awaitDepth(two, keys, 200)
		a.awaitShared()
		b.awaitShared()
		spoil() // while they run
	}
	await(t, "all sets are sets again", func() bool {
		for _, key := range ours[4:] {
			if kind := server.Do("TYPE", key); kind != "zset" && kind != "none" {
				a.see(one, prompt("third", 300))
				return false
			}
		}
		return true
	})
	if got := a.Status(); got.Replaced == 0 || got.Abandoned != 0 {
		t.Errorf("%d replaced, %d commands given up", got.Replaced, got.Abandoned)
	}
}

// TestForeignMembers: what is among ours and of somebody else does no harm.
func TestForeignMembers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	old, keys := prompt("old", 50), prompt("p", 400)
	a.see(h, old)
	a.see(h, keys)
	a.awaitShared()
	await(t, "it is written", func() bool { return a.Status().Written == 2 })
	a.stop()
	for shard := range shards {
		server.Do("ZADD", fmt.Sprintf("warmroute:1:{pool/%x}:b1:80", shard), "inf", "short", "+inf", "8 bytes!", "-5", "another8", "1e300", "x")
	}
	for _, kind := range []string{"horizons", "trimmed"} {
		server.Do("ZADD", "warmroute:1:{pool}:"+kind, "inf", "somebody", "-5", "b2:80", "inf", "b3:80")
	}
	server.Do("ZADD", "warmroute:1:{pool}:horizons", "inf", "b1:80")
	server.Do("ZADD", "warmroute:1:backends", "1", "garbage", "2", "", "3", "a b c")
	server.Do("XADD", "warmroute:1:{pool}:stream", "*", "m", "garbage", "x", "y")
	server.Do("XADD", "warmroute:1:{pool}:stream", "*", "x", "y")
	b := launch(t, server.Addr)
	h = b.add("b1:80")
	b.awaitDepth(h, keys, 400)
	b.awaitDepth(h, old, 50)
	b.awaitShared()
	if got := b.Status().Malformed; got == 0 {
		t.Error("nothing was found malformed")
	}
	await(t, "backends that nobody has are removed", func() bool { return server.Do("ZCARD", "warmroute:1:backends") == int64(1) })
}
