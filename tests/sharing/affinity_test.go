package sharing

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// followed asks the first turn of many conversations of one router and, 200 ms after the
// answer, the second of another. It returns the share whose turns went to one backend.
func followed(first, second *door, conversations, rate int) float64 {
	var same atomic.Int64
	paced(conversations, rate, func(i int) {
		turn := question(uint64(i), 3000)
		before := first.mustChat(turn)
		<-time.After(200 * time.Millisecond)
		if after := second.mustChat(further(turn)); after.backend == before.backend {
			same.Add(1)
		}
	})
	return float64(same.Load()) / float64(conversations)
}

// TestRD10TurnsThroughTwoRouters: the next turn goes where the first one went, whichever
// router it comes through, also through one that starts afterwards (HA-08).
func TestRD10TurnsThroughTwoRouters(t *testing.T) {
	t.Parallel()
	const conversations, rate, least = 1000, 250, 0.99
	server := redistest.Start(t)
	behind := stubs(t, 8, briefly)
	a, b := open(t, behind, over(server)), open(t, behind, over(server))
	awaitShared(t, a, b)
	shared := followed(a, b, conversations, rate)
	b.stop()
	c := open(t, behind, over(server))
	awaitShared(t, c)
	found := 0
	for i := range 100 {
		if c.mustChat(further(question(uint64(i), 3000))).reason == "longest_match" {
			found++
		}
	}
	apart := followed(open(t, behind, nil), open(t, behind, nil), conversations/5, rate)
	t.Logf("second turn on the first one's backend: %.1f %% of %d conversations; without Redis %.1f %%", 100*shared, conversations, 100*apart)
	t.Logf("a router that starts knows %d of 100 of them", found)
	if shared < least || found < 99 {
		t.Errorf("want %.0f %%, also of the router that starts", 100*least)
	}
}

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
