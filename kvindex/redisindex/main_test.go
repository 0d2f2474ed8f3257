package redisindex

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/indextest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait. It is for machines that are very busy.
const patience = 30 * time.Second

// await waits for something that comes about by itself.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come about in %v that %s", patience, what)
		}
		<-tick.C
	}
}

// replica is an index that runs.
type replica struct {
	*Index

	t    testing.TB
	stop func()
}

// launch runs an index over a server until the test ends.
func launch(t testing.TB, address string, change ...func(*Config)) *replica {
	t.Helper()
	r := prepare(t, address, change...)
	r.run()
	return r
}

// prepare makes an index that does not run yet.
func prepare(t testing.TB, address string, change ...func(*Config)) *replica {
	t.Helper()
	c := Config{Addresses: []string{address}}
	if os.Getenv("REDIS_TEST_LOG") != "" {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	for _, f := range change {
		f(&c)
	}
	x, err := New(c, kvindex.NewMemory(kvindex.MemoryConfig{Capacity: 50_000}))
	if err != nil {
		t.Fatal(err)
	}
	return &replica{Index: x, t: t}
}

func (r *replica) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := r.Run(ctx); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}()
	var once atomic.Bool
	r.stop = func() {
		if !once.Swap(true) {
			cancel()
			<-ended
		}
	}
	r.t.Cleanup(r.stop)
}

// add adds a backend of the pool "pool".
func (r *replica) add(id string) kvindex.Holder {
	r.t.Helper()
	h, err := r.Add("pool " + id + " http://" + id)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// see records and publishes that a backend holds a chain, as a router does.
func (r *replica) see(h kvindex.Holder, keys []kvindex.Key) { r.seeAt(h, keys, r.config.Now()) }

func (r *replica) seeAt(h kvindex.Holder, keys []kvindex.Key, at time.Time) {
	now := kvindex.Stamp(at.UnixNano())
	r.Record(h, keys, now, kvindex.Observed)
	r.Publish(h, keys, now, 0)
}

func (r *replica) depth(h kvindex.Holder, keys []kvindex.Key) int {
	depths := make([]int, r.Holders())
	r.Match(keys, depths)
	return depths[h]
}

// awaitDepth waits until a backend is found to hold so many blocks of a chain.
func (r *replica) awaitDepth(h kvindex.Holder, keys []kvindex.Key, want int) {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			r.t.Logf("it holds %d of %d blocks; %+v", r.depth(h, keys), len(keys), r.Status())
		}
	}()
	await(r.t, "a backend is found to hold the chain", func() bool { return r.depth(h, keys) == want })
}

// awaitShared waits until the replica is connected, and has read what there is.
func (r *replica) awaitShared() {
	r.t.Helper()
	await(r.t, "the index is shared", func() bool {
		s := r.Status()
		return !s.LastEcho.IsZero() && r.config.Now().Sub(s.LastEcho) < freshFor && s.Restoring == 0
	})
}

// prompt is a chain of its own.
func prompt(name string, length int) []kvindex.Key { return indextest.Chain(name, "", 0, length) }
