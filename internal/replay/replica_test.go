//go:build !race

// Minutes of a fleet in virtual time, in one goroutine: the race detector would make half a
// minute of a second and have nothing to see.

package replay

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// routersWorld is five minutes of a hundred documents on three engines that hold them all.
func routersWorld(routers int, delay time.Duration) (Config, workload.DocsConfig) {
	c := smallConfig(1)
	c.Audit, c.Routers, c.ShareDelay = false, routers, delay
	d := workload.DefaultDocsConfig()
	d.Documents, d.Duration, d.Rate = 100, 5*time.Minute, 3
	return c, d
}

// Several routers that share find what one finds; those that do not, compute the same
// documents on several engines.
func TestRouters(t *testing.T) {
	play := func(routers int, delay time.Duration) *Result {
		c, d := routersWorld(routers, delay)
		return mustRun(t, mustNew(t, c), workload.NewDocs(d, c.Seed))
	}
	one, shared, apart := play(1, 0), play(4, 50*time.Millisecond), play(4, 0)
	t.Logf("              %s", Header)
	t.Logf("one router    %s", one.Row())
	t.Logf("four, sharing %s", shared.Row())
	t.Logf("four, apart   %s", apart.Row())
	if shared.Requests != one.Requests || apart.Requests != one.Requests {
		t.Errorf("%d, %d and %d requests", one.Requests, shared.Requests, apart.Requests)
	}
	if got, want := shared.HitRate(), one.HitRate(); got < want-0.01 {
		t.Errorf("sharing: hit rate %.4f, one router %.4f", got, want)
	}
	// Until the first byte the others do not know where a document is being computed.
	if got, want := shared.Mean(), one.Mean(); got > want+want/6 {
		t.Errorf("sharing: mean TTFT %v, one router %v", got, want)
	}
	if got, want := apart.HitRate(), one.HitRate(); got > want-0.1 {
		t.Errorf("apart: hit rate %.4f, one router %.4f", got, want)
	}
	if again := play(4, 50*time.Millisecond); !gocmp.Equal(again.Samples, shared.Samples) {
		t.Error("two runs of one seed differ")
	}
}

// What one router finds to be gone, all do, and none tells of it twice.
func TestRoutersShareHorizons(t *testing.T) {
	c, d := routersWorld(3, 50*time.Millisecond)
	c.Faults = []Fault{{At: 3 * time.Minute, Backend: 1, Kind: Restart}}
	c.ScrapeEvery = 0 // only answers tell, to one router each
	c.StatedCapacity = 0
	f := mustNew(t, c)
	r := mustRun(t, f, workload.NewDocs(d, c.Seed))
	first := -1
	for i, m := range r.Moves {
		if m.Backend == 1 && m.At > 3*time.Minute {
			first = i
			break
		}
	}
	if first < 0 || len(r.Moves) < first+3 {
		t.Fatalf("moves: %+v", r.Moves)
	}
	own, peers := r.Moves[first], r.Moves[first+1:first+3]
	if own.Cause == "peer" {
		t.Errorf("nobody found out: %+v", own)
	}
	for _, m := range peers {
		if m.Cause != "peer" || m.Backend != 1 || m.At != own.At+c.ShareDelay {
			t.Errorf("%+v is followed by %+v", own, m)
		}
	}
	for _, v := range f.replicas {
		if v.horizons[f.nodes[1].holder] == 0 {
			t.Error("a router knows of no horizon")
		}
	}
}

// staleness is for how long a router may not know of a request that another one sent: until
// that one tells, until it is heard, and until this one takes it in.
const staleness = 2*shareLoadsEvery + 50*time.Millisecond

// crowded watches how far engines go beyond a threshold.
type crowded struct {
	workload.Source
	fleet *Fleet
	limit int
	most  int // in flight on one engine
	// beyond is by how many requests an engine was too full that the router which sent the
	// last one could know of.
	beyond int
}

// Next implements Source.
func (c *crowded) Next() (workload.Request, bool) {
	for _, n := range c.fleet.nodes {
		if len(n.flights) == 0 {
			continue
		}
		last := slices.MaxFunc(n.flights, func(a, b *flight) int { return cmp.Compare(a.at, b.at) })
		unheard := 0
		for _, fl := range n.flights {
			if fl.via != last.via && fl.at >= last.at-staleness {
				unheard++
			}
		}
		c.most = max(c.most, len(n.flights))
		c.beyond = max(c.beyond, len(n.flights)-unheard-c.limit)
	}
	return c.Source.Next()
}

// Others' requests count against the threshold: all but those that a router cannot have
// heard of yet.
func TestRoutersShareLoad(t *testing.T) {
	const threshold = 8
	play := func(delay time.Duration) *crowded {
		c, d := routersWorld(2, delay)
		c.Router.Strategy, c.Router.ConcurrencyThreshold, c.Router.OnSaturation = router.LeastOutstanding, threshold, router.Reject
		d.Rate = 8
		f := mustNew(t, c)
		watched := &crowded{Source: workload.NewDocs(d, c.Seed), fleet: f, limit: threshold}
		mustRun(t, f, watched)
		return watched
	}
	shared, apart := play(50*time.Millisecond), play(0)
	t.Logf("in flight on one engine: %d at most sharing, %d apart", shared.most, apart.most)
	if shared.most < threshold || shared.beyond > 0 {
		t.Errorf("sharing: %d in flight, %d more than a router could know of", shared.most, shared.beyond)
	}
	if apart.most != 2*threshold {
		t.Errorf("apart: %d in flight, want %d", apart.most, 2*threshold)
	}
}

func TestRoutersConfig(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Routers = -1 },
		func(c *Config) { c.ShareDelay = -1 },
		func(c *Config) { c.ShareDelay = 2 * time.Second },
		func(c *Config) { c.Audit = true },
	} {
		c, _ := routersWorld(2, time.Second)
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if change(&c); c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
}
