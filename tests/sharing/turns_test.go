//go:build !race

// The race detector takes too much of the machine for rates like these.

package sharing

import (
	"sync/atomic"
	"testing"
	"time"

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
	const conversations, rate, least = 1000, 125, 0.99
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
