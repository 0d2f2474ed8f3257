package redisindex

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestLateNewsHaveTheirTrueAge: what was told while this router did not listen is older than
// what it has seen itself since, and is not believed where a horizon has passed it.
func TestLateNewsHaveTheirTrueAge(t *testing.T) {
	t.Parallel()
	r := prepare(t, "127.0.0.1:1") // it does not run
	defer r.Close()
	now := time.Now()
	r.clock.measured.Store(&measurement{local: now, fleet: now})
	h := r.add("b1:80")
	own, early, gone, live := prompt("own", 10), prompt("early", 10), prompt("gone", 10), prompt("live", 10)
	ago := func(d time.Duration) moment { return moment(now.Add(-d).UnixMicro()) }
	r.seeAt(h, own, now.Add(-time.Second))

	reads := newReader(r.Index, r.holder(h).home)
	reads.until = "5-0"
	record := func(id string, m *message) {
		m.replica = 7
		reads.take(redis.XMessage{ID: id, Values: map[string]any{streamField: string(pack(m)[0])}})
	}
	record("4-0", &message{chains: []chain{{backend: "b1:80", last: ago(20 * time.Second), keys: gone}, {backend: "b1:80", last: ago(10 * time.Second), keys: early}}})
	record("5-0", &message{horizons: []horizon{{"b1:80", ago(15 * time.Second)}}})
	if got := r.depth(h, early); got != 0 {
		t.Errorf("%d blocks are there before all that was told has been read", got)
	}
	reads.mergeLate(reads.late)
	record("6-0", &message{chains: []chain{{backend: "b1:80", last: ago(0), keys: live}}})
	for name, tc := range map[string]struct{ got, want int }{
		"early": {r.depth(h, early), 10}, "gone": {r.depth(h, gone), 0}, "own": {r.depth(h, own), 10}, "live": {r.depth(h, live), 10},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %d blocks, want %d", name, tc.got, tc.want)
		}
	}
	r.SetCapacity(h, 25) // the oldest go, tails first
	if a, b, c := r.depth(h, early), r.depth(h, own), r.depth(h, live); a != 5 || b != 10 || c != 10 {
		t.Errorf("with room for 25: %d of the early one, %d of the own, %d of the live one", a, b, c)
	}
}
