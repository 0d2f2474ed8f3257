package sharing

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

const (
	// outageRate is the traffic that outages have to go unnoticed in, in requests a second.
	outageRate = 50
	// resyncTime is how soon after an outage routers are to be alike again.
	resyncTime = 5 * time.Second
	// password is what the servers of outage tests want.
	password = "right"
)

// outageLength is how long each outage lasts: by default long enough for routers to stop
// counting on each other.
func outageLength(t *testing.T) time.Duration {
	text := os.Getenv("WARMROUTE_OUTAGE")
	if text == "" {
		return 2500 * time.Millisecond
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("WARMROUTE_OUTAGE: %v", err)
	}
	return d
}

// traffic is requests that go through several routers in turn until it is stopped. The
// prompts are the same over and over, so that nothing has a reason to grow.
type traffic struct {
	sent, failed atomic.Int64
	stop         func()
}

// prompts is how many different ones the traffic has, stubCount how many engines there are.
const (
	prompts   = 100
	stubCount = 4
)

func flow(t *testing.T, doors ...*door) *traffic {
	t.Helper()
	f := new(traffic)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(time.Second / outageRate)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			running.Go(func() {
				f.sent.Add(1)
				if r, err := doors[i%len(doors)].chat(question(uint64(i*7%prompts), 2600)); err != nil || r.status != http.StatusOK {
					t.Errorf("request %d: %d, %v", i, r.status, err)
					f.failed.Add(1)
				}
			})
			<-tick.C
		}
	})
	f.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(f.stop)
	return f
}

// fresh numbers prompts that nobody has asked before.
var fresh atomic.Uint64

// awaitSync waits until routers share again: each knows of the others, has read what there
// was, and finds at once what another one learns.
func awaitSync(t *testing.T, doors ...*door) time.Duration {
	t.Helper()
	return await(t, "routers are alike again", func() bool {
		for _, d := range doors {
			if !d.shares() {
				return false
			}
		}
		for i, from := range doors {
			turn := question(1_000_000+fresh.Add(1), 2600)
			before := from.mustChat(turn)
			<-time.After(100 * time.Millisecond)
			after := doors[(i+1)%len(doors)].mustChat(turn)
			if after.predicted == 0 || after.backend != before.backend {
				return false
			}
		}
		return true
	})
}

// footprint is what a process that is idle has in use.
type footprint struct {
	goroutines int
	heap       int64 // bytes
}

func measureFootprint() footprint {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return footprint{goroutines: runtime.NumGoroutine(), heap: int64(m.HeapAlloc)}
}

// outage is something that happens to Redis.
type outage struct {
	name string
	// begin and end make it happen, and pass.
	begin, end func(t *testing.T)
	// momentary says that it is over as soon as it began.
	momentary bool
	// held, where it is not nil, is how many blocks are in Redis: all of them come back.
	held func() int64
}

// command sends a command to a server, which is tried again over a new connection.
func command(t *testing.T, client *redis.Client, args ...any) any {
	t.Helper()
	answer, err := client.Do(context.Background(), args...).Result()
	if err != nil {
		t.Errorf("redis %v: %v", args, err)
	}
	return answer
}

// single are the outages of a single server.
func single(server *redistest.Server) []outage {
	ours := server.Client(password)
	do := func(args ...any) func(*testing.T) {
		return func(t *testing.T) { t.Helper(); command(t, ours, args...) }
	}
	held := func() (sum int64) {
		for backend := range stubCount {
			for shard := range 16 {
				sum += ours.ZCard(context.Background(), fmt.Sprintf("warmroute:1:{default/%x}:b%d:80", shard, backend)).Val()
			}
		}
		return sum
	}
	return []outage{
		{
			name:  "killed, restarted empty",
			begin: func(*testing.T) { server.Kill() },
			end:   func(*testing.T) { server.Start() },
			held:  held,
		},
		{
			name:  "hangs",
			begin: func(*testing.T) { server.Stop() },
			end:   func(*testing.T) { server.Continue() },
		},
		{name: "READONLY", begin: do("REPLICAOF", "127.0.0.1", "1"), end: do("REPLICAOF", "NO", "ONE")},
		{name: "out of memory", begin: do("CONFIG", "SET", "maxmemory", "1"), end: do("CONFIG", "SET", "maxmemory", "0")},
		{
			name: "password changed",
			begin: func(t *testing.T) {
				do("CONFIG", "SET", "requirepass", "other")(t)
				do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")(t)
			},
			end: func(t *testing.T) { command(t, server.Client("other"), "CONFIG", "SET", "requirepass", password) },
		},
		{name: "FLUSHALL", begin: do("FLUSHALL"), end: func(*testing.T) {}, momentary: true, held: held},
		{
			name: "loads its data",
			begin: func(t *testing.T) {
				do("SAVE")(t)
				server.Kill()
				server.Start()
			},
			end: func(t *testing.T) {
				await(t, "the server has loaded its data", func() bool { return ours.Ping(t.Context()).Err() == nil })
			},
		},
	}
}

// TestOutages: under traffic, whatever happens to Redis, FLUSHALL (RD-12) and failovers behind
// one address (RD-04) among it, no request fails, routers are alike
// again soon after, and nothing is left over.
func TestOutages(t *testing.T) {
	// A thousand bytes at a time, and some 25 ms for each key: loading takes its time.
	server := redistest.Start(t, "--requirepass", password,
		"--key-load-delay", "25000", "--loading-process-events-interval-bytes", "1024")
	withPassword := func(c *config.Config) {
		over(server)(c)
		c.Redis.Password = password
	}
	behind := stubs(t, stubCount, briefly)
	a, b := open(t, behind, withPassword), open(t, behind, withPassword)
	awaitShared(t, a, b)
	suffer(t, single(server), a, b)
}

// suffer has outages happen to routers under traffic, one after the other.
func suffer(t *testing.T, outages []outage, doors ...*door) {
	t.Helper()
	length := outageLength(t)
	f := flow(t, doors...)
	await(t, "every prompt has been asked", func() bool { return f.sent.Load() > prompts })
	before := measureFootprint()
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			sent, failed, held := f.sent.Load(), f.failed.Load(), int64(0)
			failures := doors[0].state().Sharing.Failures
			if o.held != nil {
				held = o.held()
			}
			o.begin(t)
			if !o.momentary {
				<-time.After(length)
			}
			o.end(t)
			resync := awaitSync(t, doors...)
			t.Logf("%d requests, %d of them failed; alike again %v after; Redis failed: %s",
				f.sent.Load()-sent, f.failed.Load()-failed, resync.Round(10*time.Millisecond), newFailures(failures, doors[0].state().Sharing.Failures))
			if most := within(resyncTime); resync > most {
				t.Errorf("it took %v, want at most %v", resync, most)
			}
			if o.held != nil {
				took := await(t, "what was in Redis is there again", func() bool { return o.held() >= held })
				t.Logf("%d blocks are in Redis again %v later", held, took.Round(10*time.Millisecond))
			}
		})
	}
	var after footprint
	await(t, "goroutines are no more than before", func() bool {
		after = measureFootprint()
		return after.goroutines <= before.goroutines+10
	})
	f.stop()
	const mostGrowth = 16 << 20
	t.Logf("%d requests, %d failed; goroutines %d before, %d after; heap %.1f MB before, %.1f MB after",
		f.sent.Load(), f.failed.Load(), before.goroutines, after.goroutines, float64(before.heap)/1e6, float64(after.heap)/1e6)
	if after.heap > before.heap+mostGrowth {
		t.Errorf("the heap grew by %d MB", (after.heap-before.heap)>>20)
	}
}

// newFailures is what was counted between two states.
func newFailures(before, after map[string]int) string {
	grown := make(map[string]int)
	for kind, n := range after {
		if n > before[kind] {
			grown[kind] = n - before[kind]
		}
	}
	return fmt.Sprint(grown)
}
