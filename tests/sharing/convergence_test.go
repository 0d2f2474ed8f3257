package sharing

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// told is a prompt that one router had answered at a moment.
type told struct {
	keys []kvindex.Key
	at   time.Time
}

// converge asks one router at a rate and returns how long it takes until another one
// knows of each prompt.
func converge(from, to *replica, n, rate int) *hdrhistogram.Histogram {
	times := hdrhistogram.New(1, int64(time.Minute), 3)
	asked := make(chan told, n)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for one := range asked {
			await(from.t, "the other router knows of the prompt", func() bool { return to.matched(one.keys) == len(one.keys) })
			_ = times.RecordValue(int64(time.Since(one.at)))
		}
	}()
	paced(n, rate, func(i int) {
		one := told{keys: chain(uint64(i), 32), at: time.Now()}
		from.ask(one.keys)
		asked <- one
	})
	close(asked)
	<-watched
	return times
}

// TestConvergence: what one router learns, another one knows soon.
func TestConvergence(t *testing.T) {
	t.Parallel()
	const rate = 500
	server := redistest.Start(t)
	a, b := launch(t, settings(server.Addr), 100_000), launch(t, settings(server.Addr), 100_000)
	for _, r := range []*replica{a, b} {
		r.add("b0:80", "b1:80")
		r.awaitShared()
	}
	times := converge(a, b, 2*rate, rate)
	p50, p99 := time.Duration(times.ValueAtQuantile(50)), time.Duration(times.ValueAtQuantile(99))
	t.Logf("until the other router knows, at %d requests/s: p50 %v, p99 %v", rate, p50, p99)
	if most := within(time.Second); p99 > most {
		t.Errorf("p99 %v, want at most %v", p99, most)
	}
}
