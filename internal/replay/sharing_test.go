package replay

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/kvindex"
)

// sharingFleet is two routers in front of three engines.
func sharingFleet(t *testing.T, change func(*Config)) *Fleet {
	t.Helper()
	c := smallConfig(1)
	c.Audit, c.Routers, c.ShareDelay, c.ScrapeEvery = false, 2, 50*time.Millisecond, 5*time.Second
	if change != nil {
		change(&c)
	}
	f := mustNew(t, c)
	f.source = new(script)
	return f
}

// advance lets a fleet do what is due before a moment.
func advance(t *testing.T, f *Fleet, until time.Duration) {
	t.Helper()
	for len(f.agenda.heap) > 0 && f.agenda.heap[0].at < until {
		m, _ := f.agenda.next()
		if err := f.handle(m); err != nil {
			t.Fatal(err)
		}
	}
}

// A chain that is heard after a horizon counts only if it was used since.
func TestChainsBehindTheHorizon(t *testing.T) {
	const horizon kvindex.Stamp = 100
	for _, tc := range []struct {
		used kvindex.Stamp
		want bool
	}{{horizon - 1, false}, {horizon, false}, {horizon + 1, true}} {
		f := sharingFleet(t, nil)
		from, to := f.replicas[0], f.replicas[1]
		holder, keys := f.nodes[1].holder, []kvindex.Key{7, 8}
		(&sharedIndex{auditedIndex: from.index, replica: from}).Publish(holder, keys, tc.used, 0)
		to.hearHorizon(holder, horizon, 0)
		advance(t, f, time.Second)
		if got := to.index.believes(holder, keys[0]); got != tc.want {
			t.Errorf("a chain used at %d is believed: %v, the horizon is %d", tc.used, got, horizon)
		}
	}
}

// What another router promised is believed until it is withdrawn, unless somebody uses it
// meanwhile; what was kept stays.
func TestPromises(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(x *sharedIndex, h kvindex.Holder, keys []kvindex.Key, p kvindex.Promise)
		use  bool
		want bool
	}{
		{name: "open", end: func(*sharedIndex, kvindex.Holder, []kvindex.Key, kvindex.Promise) {}, want: true},
		{name: "kept", end: func(x *sharedIndex, h kvindex.Holder, keys []kvindex.Key, p kvindex.Promise) {
			x.Publish(h, keys, 200, p)
		}, want: true},
		{name: "broken", end: func(x *sharedIndex, _ kvindex.Holder, _ []kvindex.Key, p kvindex.Promise) { x.Withdraw(p) }, want: false},
		{name: "broken, used by others", end: func(x *sharedIndex, _ kvindex.Holder, _ []kvindex.Key, p kvindex.Promise) { x.Withdraw(p) }, use: true, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := sharingFleet(t, nil)
			from, to := f.replicas[0], f.replicas[1]
			holder, keys := f.nodes[1].holder, []kvindex.Key{7, 8}
			x := &sharedIndex{auditedIndex: from.index, replica: from}
			p := x.Promise(holder, keys, 100)
			advance(t, f, time.Second)
			if !to.index.believes(holder, keys[1]) {
				t.Fatal("the promise is not believed")
			}
			if tc.use {
				to.index.Record(holder, keys, 150, kvindex.Predicted)
			}
			f.now = time.Second
			tc.end(x, holder, keys, p)
			advance(t, f, 2*time.Second)
			if got := to.index.believes(holder, keys[1]); got != tc.want {
				t.Errorf("believed: %v, want %v", got, tc.want)
			}
			if open := len(to.promised); (open == 1) != (tc.name == "open") {
				t.Errorf("%d promises are open", open)
			}
		})
	}
}

// Routers that share nothing know of their own requests alone; those that share, of all that
// have been told.
func TestUnansweredOfRouters(t *testing.T) {
	const requests, now = 12, 300 * time.Millisecond // before any first token
	sum := func(delay time.Duration, v int) (sum unanswered) {
		f := sharingFleet(t, func(c *Config) { c.ShareDelay, c.Placement = delay, LeastQueuedTokens })
		f.begin()
		for i := range requests {
			f.route(0, docAsk(i, i))
		}
		advance(t, f, now)
		for _, n := range f.nodes {
			u := f.replicas[v].allUnanswered(n)
			sum.requests += u.requests
			sum.backlog.Tokens += u.backlog.Tokens
		}
		return sum
	}
	apart := []unanswered{sum(0, 0), sum(0, 1)}
	if apart[0].requests == 0 || apart[1].requests == 0 || apart[0].requests+apart[1].requests != requests {
		t.Errorf("apart, routers know of %d and %d requests, want %d together", apart[0].requests, apart[1].requests, requests)
	}
	for v := range 2 {
		if got := sum(50*time.Millisecond, v); got.requests != requests || got.backlog.Tokens != 8100*requests {
			t.Errorf("sharing, router %d knows of %d requests and %d tokens, want %d and %d",
				v, got.requests, got.backlog.Tokens, requests, 8100*requests)
		}
		if got := apart[v]; got.backlog.Tokens != int64(8100*got.requests) {
			t.Errorf("apart, router %d knows of %d tokens of %d requests", v, got.backlog.Tokens, got.requests)
		}
	}
}

// No two scrapes, and no two reports of load, are in step.
func TestRoutersTakeTurns(t *testing.T) {
	f := sharingFleet(t, nil)
	f.begin()
	taken := make(map[time.Duration]momentKind)
	kinds := make(map[momentKind]int)
	for len(f.agenda.heap) > 0 {
		m, _ := f.agenda.next()
		if kind, ok := taken[m.at]; ok && kind == m.kind {
			t.Errorf("two moments of kind %d at %v", kind, m.at)
		}
		taken[m.at] = m.kind
		kinds[m.kind]++
	}
	if kinds[momentScrape] != 6 || kinds[momentHear] != 2 {
		t.Errorf("%d scrapes and %d reports, want 6 and 2", kinds[momentScrape], kinds[momentHear])
	}
}
