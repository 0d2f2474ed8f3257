package recent

import (
	"math/rand/v2"
	"testing"

	"github.com/warmroute/warmroute/kvindex"
)

// BenchmarkAdd adds requests of 128 blocks to a store of the default size that is full, so that
// every one of them drives out others: prompts of which the last two blocks are new, or all.
// The budget is 10 µs.
//
//	go test -run='^$' -bench=Add ./feedback/recent
func BenchmarkAdd(b *testing.B) {
	const blocks = 128
	for _, traffic := range []struct {
		name   string
		shared int
		heads  uint64
	}{{"shared", blocks - 2, 1400}, {"new", 0, 1}} {
		b.Run(traffic.name, func(b *testing.B) {
			s := New(DefaultBytes)
			heads := make([][]kvindex.Key, traffic.heads)
			for i := range heads {
				heads[i] = chain(uint64(i)+1, 0, 0, blocks)
			}
			rng, number := rand.New(rand.NewPCG(1, 1)), uint64(0)
			q := request("p", 0, make([]kvindex.Key, blocks))
			add := func() {
				number++
				copy(q.Keys, heads[number*7919%traffic.heads])
				for i := traffic.shared; i < blocks; i++ {
					q.Keys[i] = kvindex.Key(rng.Uint64())
				}
				s.Add(q)
			}
			for s.held == int(number) {
				add()
			}
			b.ReportAllocs()
			for b.Loop() {
				add()
			}
			b.ReportMetric(float64(s.held), "requests")
		})
	}
}

// BenchmarkWindow copies a full store of the default size.
func BenchmarkWindow(b *testing.B) {
	s := New(DefaultBytes)
	for number := 0; s.held == number; number++ {
		s.Add(request("p", number, chain(uint64(number*7919%1400), uint64(number)<<8, 126, 128)))
	}
	for b.Loop() {
		s.Window("p", everything)
	}
	b.ReportMetric(float64(s.held), "requests")
}
