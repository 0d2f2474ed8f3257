//go:build !race

// Hours of a fleet in virtual time, in one goroutine: the race detector would make minutes
// of seconds and have nothing to see.

package replay

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// TestOrder: on busy docs, of which the engines hold five of six, mean times to first token
// fall by what the rule knows: nothing, the load, what waits, prefixes, prefixes and load.
func TestOrder(t *testing.T) {
	c := Config{
		Backends: 3, Engine: enginesim.Config{Profile: ReferenceProfile(600_000)},
		Router: router.DefaultConfig(), ScrapeEvery: 5 * time.Second, StatedCapacity: 1, Seed: 1,
	}
	d := workload.DefaultDocsConfig()
	d.Documents, d.Rate, d.Duration = 270, 3.77, 6*time.Minute
	plays := everyRule(c, func() workload.Source { return workload.NewDocs(d, c.Seed) })
	playAll(t, plays...)

	t.Logf("%-26s %s", "", Header)
	mean := make(map[string]float64)
	for _, p := range plays {
		t.Logf("%-26s %s", p.name, p.result.Row())
		mean[p.name] = p.result.Mean().Seconds()
	}
	falling := []string{
		router.Random, router.LeastOutstanding, string(LeastQueuedTokens), string(BoundedHash), string(LongestMatch),
	}
	for i := range len(falling) - 1 {
		if slow, fast := falling[i], falling[i+1]; mean[fast] > 0.95*mean[slow] {
			t.Errorf("mean TTFT by %s %.3f s, by %s %.3f s", slow, mean[slow], fast, mean[fast])
		}
	}
	for _, best := range []string{router.PrefixAware, router.LeastExpectedTTFT, string(WeightedScore), string(Oracle)} {
		if slow := string(LongestMatch); mean[best] > 0.8*mean[slow] {
			t.Errorf("mean TTFT by %s %.3f s, by %s %.3f s", slow, mean[slow], best, mean[best])
		}
	}
}
