package sharing

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// TestThresholdCountsAllRouters: with a threshold of 12 and 10 requests in flight through one
// router, it is the third through the other that goes elsewhere, not the thirteenth.
func TestThresholdCountsAllRouters(t *testing.T) {
	t.Parallel()
	const threshold, held = 12, 10
	release := make(chan struct{})
	var once sync.Once
	letGo := func() { once.Do(func() { close(release) }) }
	t.Cleanup(letGo)
	behind := stubs(t, 2, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil && r.Header.Get("X-Hold") != "" {
			<-release
		}
		briefly(w, r)
	})
	server := redistest.Start(t)
	limited := func(c *config.Config) {
		over(server)(c)
		routing := &c.Pools[0].Routing
		routing.ConcurrencyThreshold, routing.LoadFactor, routing.QueueGuard = threshold, 0, 0
	}
	a, b := open(t, behind, limited), open(t, behind, limited)
	awaitShared(t, a, b)
	turn := question(1, 4000)
	holder := a.mustChat(turn).backend
	await(t, "the other router knows the prompt", func() bool { return b.mustChat(turn).predicted > 0 })

	var asked sync.WaitGroup
	defer asked.Wait()
	defer letGo()
	ask := func(d *door, turn []message) <-chan reply {
		went := make(chan reply, 1)
		asked.Go(func() { went <- d.mustChat(turn, "X-Hold", "yes") })
		return went
	}
	for range held {
		ask(a, further(turn))
	}
	await(t, "the other router counts them", func() bool { return b.inFlight(holder) == held })
	elsewhere := func() int { return b.inFlight("b0:80") + b.inFlight("b1:80") - b.inFlight(holder) }
	overflowed := 0 // the number of the first request that went elsewhere
	for n := 1; n <= threshold+1 && overflowed == 0; n++ {
		ask(b, further(turn))
		await(t, "it is in flight", func() bool { return b.inFlight(holder)+elsewhere() == held+n })
		if elsewhere() > 0 {
			overflowed = n
		}
	}
	t.Logf("threshold %d, %d in flight through the other router: request %d overflows", threshold, held, overflowed)
	if overflowed != 3 {
		t.Error("want the third")
	}
}
