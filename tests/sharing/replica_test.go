package sharing

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/redisindex"
	"github.com/warmroute/warmroute/router"
)

// replica is a router whose index is shared, without the network towards clients and
// engines.
type replica struct {
	*router.Router

	t     testing.TB
	index *redisindex.Index
	pool  *router.Pool
	specs []backends.Spec
	stop  func()
}

// settings name a server.
func settings(address string) redisindex.Config {
	return redisindex.Config{Addresses: []string{address}}
}

// launch runs a router without backends until the test ends, or before. Each backend holds
// capacity blocks.
func launch(t testing.TB, c redisindex.Config, capacity int) *replica {
	t.Helper()
	x, err := redisindex.New(c, kvindex.NewMemory(kvindex.MemoryConfig{Capacity: capacity, MaxBlocks: 8 << 20}))
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{Router: router.New(router.Options{Index: x, Epoch: time.Now(), Seed: rand.Uint64()}), t: t, index: x}
	x.Share(r.Router)
	if r.pool, err = r.AddPool(router.PoolSpec{Name: "default", Config: router.DefaultConfig(), Ejection: backends.DefaultEjection()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("index: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// add adds backends, by host:port.
func (r *replica) add(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		r.specs = append(r.specs, backends.Spec{URL: "http://" + id, Rank: backends.NoRank})
	}
	if _, err := r.pool.SetBackends(r.specs); err != nil {
		r.t.Fatal(err)
	}
}

// awaitShared waits until the router knows of the others, and has read what there was.
func (r *replica) awaitShared() time.Duration {
	r.t.Helper()
	return await(r.t, "the index is shared", func() bool {
		s := r.index.Status()
		return s.Sharing == router.Fresh && s.Restoring == 0
	})
}

// request is a prompt as the router sees it.
func (r *replica) request(keys []kvindex.Key, now time.Time) *router.Request {
	bytes := len(keys) * kvindex.DefaultBlockBytes
	return &router.Request{
		Now: now, Pool: r.pool, Model: "sim", Blocks: keys, StreamBytes: bytes, HashedBytes: bytes,
		Prefix: keys[len(keys)-1], Rendezvous: keys[len(keys)-1], HasPrefix: true,
	}
}

// ask routes a prompt that is answered at once, and returns the decision.
func (r *replica) ask(keys []kvindex.Key) *router.Decision { return r.askAt(keys, time.Now()) }

func (r *replica) askAt(keys []kvindex.Key, now time.Time) *router.Decision {
	d, err := r.Route(r.request(keys, now))
	if err != nil {
		r.t.Errorf("Route: %v", err)
		return nil
	}
	r.Complete(d, feedback.Outcome{Now: now, Result: feedback.Success, Blame: feedback.Healthy, FirstByte: true})
	return d
}

// matched is how many blocks of a prompt some backend is known to hold.
func (r *replica) matched(keys []kvindex.Key) int {
	depths := make([]int, r.index.Holders())
	r.index.Match(keys, depths)
	best := 0
	for _, d := range depths {
		best = max(best, d)
	}
	return best
}

// chain is a prompt of its own.
func chain(seed uint64, length int) []kvindex.Key {
	source := rand.NewPCG(seed, 99)
	keys := make([]kvindex.Key, length)
	for i := range keys {
		keys[i] = kvindex.Key(source.Uint64())
	}
	return keys
}
