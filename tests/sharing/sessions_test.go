package sharing

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// TestSessionsThroughTwoRouters: a session's next request goes where the one before went, through
// whichever router it comes and whatever its prompt is, also through a router that starts
// afterwards.
func TestSessionsThroughTwoRouters(t *testing.T) {
	t.Parallel()
	const sessions = 60
	server := redistest.Start(t)
	behind := stubs(t, 8, briefly)
	a, b := open(t, behind, over(server)), open(t, behind, over(server))
	awaitShared(t, a, b)
	homes := make([]string, sessions)
	in := func(d *door, i, turn int) reply {
		return d.mustChat(question(uint64(1000*turn+i), 2000), "X-Amzn-SageMaker-Session-Id", fmt.Sprint("session-", i))
	}
	for i := range sessions {
		homes[i] = in(a, i, 0).backend
	}
	<-time.After(200 * time.Millisecond)
	check := func(d *door, turn int, who string) {
		t.Helper()
		for i := range sessions {
			if r := in(d, i, turn); r.backend != homes[i] || r.reason != "pinned" {
				t.Errorf("session %d through %s: %s (%s), want %s", i, who, r.backend, r.reason, homes[i])
			}
		}
	}
	check(b, 1, "the other router")
	a.stop()
	c := open(t, behind, over(server))
	awaitShared(t, c)
	check(c, 2, "a router that starts")
}
