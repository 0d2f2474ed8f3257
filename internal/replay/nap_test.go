package replay

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/workload"
)

// pausing is a fleet with all that repeats, one engine of which restarts in the middle of the
// last of three pauses, and who asks before and after each.
func pausing(t *testing.T, pause time.Duration, routers int) (*Fleet, workload.Source) {
	t.Helper()
	c := smallConfig(1)
	c.Audit, c.Routers, c.ShareDelay = false, routers, 50*time.Millisecond
	c.Faults = []Fault{{At: 5 * pause / 2, Backend: 1, Kind: Restart}}
	return mustNew(t, c), &script{asks: []workload.Request{docAsk(1, 0), docAsk(1, 1), docAsk(2, 2), docAsk(1, 3)}, gap: pause}
}

// What is passed over in a pause has no effect.
func TestNapsChangeNothing(t *testing.T) {
	for _, routers := range []int{1, 3} {
		const pause = 20 * time.Minute
		napping, source := pausing(t, pause, routers)
		got := mustRun(t, napping, source)

		watching, source := pausing(t, pause, routers)
		watching.source = source
		watching.fetch()
		watching.begin()
		for watching.agenda.work > 0 {
			m, _ := watching.agenda.next()
			if err := watching.handle(m); err != nil {
				t.Fatal(err)
			}
		}
		want := &watching.result
		if diff := cmp.Diff(want.Samples, got.Samples); diff != "" || len(got.Samples) != 4 {
			t.Errorf("%d routers: requests without naps and with them (-without +with):\n%s", routers, diff)
		}
		if diff := cmp.Diff(want.Moves, got.Moves); diff != "" || len(got.Moves) == 0 {
			t.Errorf("%d routers: moves of horizons (-without +with):\n%s", routers, diff)
		}
		if watching.agenda.order < 2*napping.agenda.order {
			t.Errorf("%d routers: %d moments without naps, %d with them", routers, watching.agenda.order, napping.agenda.order)
		}
	}
}

// A pause of 80 days has as many moments as one of an hour: its engines are not scraped
// millions of times, nor do its routers speak.
func TestNapsHaveNoLength(t *testing.T) {
	moments := func(pause time.Duration) int {
		f, source := pausing(t, pause, 3)
		mustRun(t, f, source)
		return int(f.agenda.order)
	}
	if hour, long := moments(time.Hour), moments(80*24*time.Hour); long > hour*11/10 {
		t.Errorf("%d moments with pauses of 80 days, %d with pauses of an hour", long, hour)
	}
}
