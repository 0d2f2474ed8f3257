package sharing

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// BenchmarkConvergence measures how long it takes until one router knows what another one
// learned, at 500 requests a second.
//
//	go test -run='^$' -bench=Convergence -benchtime=5000x ./tests/sharing
func BenchmarkConvergence(b *testing.B) {
	server := redistest.Start(b)
	from, to := launch(b, settings(server.Addr), 500_000), launch(b, settings(server.Addr), 500_000)
	for _, r := range []*replica{from, to} {
		r.add("b0:80", "b1:80")
		r.awaitShared()
	}
	b.ResetTimer()
	times := converge(from, to, b.N, 500)
	b.ReportMetric(float64(times.ValueAtQuantile(50))/1e6, "p50-ms")
	b.ReportMetric(float64(times.ValueAtQuantile(99))/1e6, "p99-ms")
}

// BenchmarkDecision measures a decision and its end, of a prompt of 128 blocks that is known,
// by turns without Redis, with one, and with one that never answers.
//
//	go test -run='^$' -bench=Decision -benchtime=20000x ./tests/sharing
func BenchmarkDecision(b *testing.B) {
	server := redistest.Start(b)
	kinds := []struct {
		name    string
		address string
		router  *replica
		times   *hdrhistogram.Histogram
	}{
		{name: "apart", address: "127.0.0.1:1"}, // nobody listens there, and it does not run
		{name: "shared", address: server.Addr},
		{name: "hung", address: deaf(b)},
	}
	for i := range kinds {
		k := &kinds[i]
		k.times = hdrhistogram.New(1, int64(time.Minute), 3)
		k.router = launch(b, settings(k.address), 100_000)
		k.router.add("b0:80", "b1:80", "b2:80", "b3:80", "b4:80", "b5:80", "b6:80", "b7:80")
		k.router.ask(chain(1, 128))
	}
	kinds[0].router.stop()
	kinds[1].router.awaitShared()
	await(b, "the router has given up on Redis", func() bool { return kinds[2].router.index.Status().Breaker == "open" })
	prompt := chain(1, 128)
	for b.Loop() {
		for _, k := range kinds {
			began := time.Now()
			k.router.ask(prompt)
			_ = k.times.RecordValue(int64(time.Since(began)))
		}
	}
	for _, k := range kinds {
		b.ReportMetric(float64(k.times.ValueAtQuantile(50))/1e3, k.name+"-p50-µs")
		b.ReportMetric(float64(k.times.ValueAtQuantile(99))/1e3, k.name+"-p99-µs")
	}
	b.ReportMetric(float64(kinds[2].times.ValueAtQuantile(50))/float64(kinds[0].times.ValueAtQuantile(50)), "hung/apart")
}
