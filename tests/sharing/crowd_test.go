//go:build !race

// The race detector takes too much of the machine for rates like these.

package sharing

import (
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// TestRD14RedisThatNeverAnswers: every call to Redis blocks, and every decision is made, of
// many at a time.
func TestRD14RedisThatNeverAnswers(t *testing.T) {
	t.Parallel()
	const askers, each = 500, 40
	r := launch(t, settings(deaf(t)), 100_000)
	r.add("b0:80", "b1:80", "b2:80", "b3:80")
	await(t, "the router has given up on Redis", func() bool { return r.index.Status().Breaker == "open" })
	var mu sync.Mutex
	times := hdrhistogram.New(1, int64(time.Minute), 3)
	var asking sync.WaitGroup
	for asker := range askers {
		asking.Go(func() {
			for i := range each {
				began := time.Now()
				if r.ask(chain(uint64(asker*each+i), 32)) == nil {
					return
				}
				mu.Lock()
				_ = times.RecordValue(int64(time.Since(began)))
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	s := r.index.Status()
	t.Logf("%d decisions, %d at a time: p50 %v, p99 %v; %d uses wait, %d do not fit", times.TotalCount(), askers,
		time.Duration(times.ValueAtQuantile(50)), time.Duration(times.ValueAtQuantile(99)), s.Queued, s.Dropped)
	if times.TotalCount() != askers*each {
		t.Errorf("%d decisions, want %d", times.TotalCount(), askers*each)
	}
	if s.Dropped == 0 {
		t.Error("nothing is counted of what did not fit into the queue")
	}
}
