package router

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
	"pgregory.net/rapid"
)

func testPool(t testing.TB, config Config, count int) (*Router, *Pool) {
	t.Helper()
	r := New(Options{Epoch: time.Unix(1000, 0), Seed: 7})
	spec := PoolSpec{Name: "pool", Config: config, Ejection: backends.DefaultEjection()}
	for i := range count {
		spec.Backends = append(spec.Backends, backends.Spec{
			URL: fmt.Sprintf("http://b%d:80", i), Rank: backends.NoRank, Weight: float64(1 + i%3), ConcurrencyThreshold: i % 4 * 2,
		})
	}
	p, err := r.AddPool(spec)
	if err != nil {
		t.Fatal(err)
	}
	return r, p
}

// drawConfig draws any valid configuration of small thresholds.
func drawConfig(rt *rapid.T) Config {
	c := DefaultConfig()
	c.Strategy = rapid.SampledFrom(Strategies()).Draw(rt, "strategy")
	c.ConcurrencyThreshold = rapid.IntRange(1, 6).Draw(rt, "threshold")
	c.MinMatchRatio = rapid.Float64Range(0, 1).Draw(rt, "ratio")
	c.LoadFactor = rapid.SampledFrom([]float64{0, 1, 1.5, 4}).Draw(rt, "load_factor")
	c.QueueGuard = rapid.SampledFrom([]float64{0, 1, 4}).Draw(rt, "guard")
	c.OnSaturation = rapid.SampledFrom([]OnSaturation{LeastLoaded, Queue, Reject}).Draw(rt, "saturation")
	c.Replicas = rapid.IntRange(1, 3).Draw(rt, "replicas")
	return c
}

func drawRequest(rt *rapid.T, p *Pool, now time.Time) *Request {
	keys := promptKeys(fmt.Sprintf("head:%d+doc%d:%d",
		rapid.IntRange(0, 12).Draw(rt, "head"), rapid.IntRange(0, 5).Draw(rt, "doc"), rapid.IntRange(0, 30).Draw(rt, "blocks")))
	req := &Request{
		Now: now, Random: rapid.Uint64().Draw(rt, "random"), Pool: p, Model: "m", Blocks: keys,
		StreamBytes: len(keys)*256 + 100, HashedBytes: len(keys)*256 + 100,
		N: rapid.SampledFrom([]int{0, 1, 1, 1, 2, 9}).Draw(rt, "n"), Streamed: rapid.Bool().Draw(rt, "streamed"),
	}
	if len(keys) > 0 {
		req.Prefix = keys[len(keys)-1]
	}
	req.Rendezvous, req.HasPrefix = kvindex.RendezvousKey(keys, 256, "")
	return req
}

// TestRouteInvariants runs random traffic, failures and operators' wishes through a
// pool. Never is a backend chosen that may not be, nor one above its threshold unless
// the pool says so; in-flight, queue and index return to what they were.
func TestRouteInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		config := drawConfig(rt)
		r, p := testPool(t, config, rapid.IntRange(1, 7).Draw(rt, "backends"))
		now := time.Unix(2000, 0)
		var open []*Decision
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(rt, "ms")) * time.Millisecond)
			b := rapid.SampledFrom(p.Backends()).Draw(rt, "backend")
			switch op := rapid.SampledFrom([]string{"route", "route", "route", "complete", "complete", "drain", "unreachable"}).Draw(rt, "op"); op {
			case "drain":
				b.Drain(rapid.Bool().Draw(rt, "on"))
			case "unreachable":
				b.SetUnreachable(rapid.Bool().Draw(rt, "on"))
			case "route":
				req := drawRequest(rt, p, now)
				if rapid.Bool().Draw(rt, "retry") {
					req.Tried = append(req.Tried, b)
				}
				if d := checkedRoute(rt, r, p, req); d != nil {
					open = append(open, d)
				}
			case "complete":
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(rt, "which")
					checkedComplete(rt, r, open[i], now)
					open = slices.Delete(open, i, i+1)
				}
			}
			total := 0
			for _, d := range open {
				total += d.slot.Count()
			}
			if got := inFlight(p); got != total {
				rt.Fatalf("in flight: %d, want %d", got, total)
			}
		}
		for _, d := range open {
			checkedComplete(rt, r, d, now)
		}
		for _, status := range p.Status(now) {
			if status.InFlight != 0 || status.Queued != 0 {
				rt.Fatalf("%s after the last request: %d in flight, %d tokens queued", status.Backend.ID, status.InFlight, status.Queued)
			}
		}
	})
}

func inFlight(p *Pool) int {
	total := 0
	for _, b := range p.Backends() {
		total += b.InFlight()
	}
	return total
}

func checkedRoute(rt *rapid.T, r *Router, p *Pool, req *Request) *Decision {
	config := p.Config()
	state, load, limit := map[*backends.Backend]backends.State{}, map[*backends.Backend]int{}, map[*backends.Backend]int{}
	up := 0
	for _, s := range p.Status(req.Now) {
		state[s.Backend], load[s.Backend], limit[s.Backend] = s.State, s.InFlight, s.Limit
		if s.State == backends.Up && !req.tried(s.Backend) {
			up++
		}
	}
	d, err := r.Route(req)
	var none *NoBackendError
	var full *SaturatedError
	switch {
	case errors.As(err, &none):
		for b, s := range state {
			if s < backends.Draining && !req.tried(b) {
				rt.Fatalf("no backend (%v), but %s is %v", err, b.ID, s)
			}
		}
		return nil
	case errors.As(err, &full):
		if config.OnSaturation == LeastLoaded {
			rt.Fatalf("least_loaded turned a request away: %v", err)
		}
		for b, s := range state {
			if s == backends.Up && !req.tried(b) && load[b]+max(req.N, 1) <= limit[b] {
				rt.Fatalf("saturated, but %s has %d of %d in flight", b.ID, load[b], limit[b])
			}
		}
		return nil
	case err != nil:
		rt.Fatalf("Route: %v", err)
	}
	if s := state[d.Backend]; req.tried(d.Backend) || s >= backends.Draining || up > 0 && s != backends.Up {
		rt.Fatalf("chose %s, which is %v (tried: %v)", d.Backend.ID, s, req.tried(d.Backend))
	}
	over := load[d.Backend] > 0 && load[d.Backend]+max(req.N, 1) > limit[d.Backend]
	if over && (d.Reason != Saturated || config.OnSaturation != LeastLoaded) {
		rt.Fatalf("%s was taken over its threshold: %d of %d in flight, reason %v", d.Backend.ID, load[d.Backend], limit[d.Backend], d.Reason)
	}
	if d.MatchedBlocks > d.AvailableBlocks || d.AvailableBlocks > d.PromptBlocks || d.PredictedCached > d.AvailableCached || d.PredictedCached > d.PromptTokens {
		rt.Fatalf("numbers out of order: %+v", d)
	}
	if d.Explain() == "" || len(d.ID()) != 16 {
		rt.Fatalf("decision %q: %q", d.ID(), d.Explain())
	}
	return d
}

func checkedComplete(rt *rapid.T, r *Router, d *Decision, now time.Time) {
	if rapid.Bool().Draw(rt, "first token") {
		r.FirstToken(d, now)
	}
	o := feedback.Outcome{
		Now:       now,
		Result:    rapid.SampledFrom(feedback.Results()).Draw(rt, "result"),
		Blame:     rapid.SampledFrom([]feedback.Blame{feedback.Neutral, feedback.Healthy, feedback.Strike, feedback.Overloaded}).Draw(rt, "blame"),
		FirstByte: rapid.Bool().Draw(rt, "first byte"),
	}
	if !r.Complete(d, o) {
		rt.Fatal("the first Complete returned false")
	}
	if r.Complete(d, o) {
		rt.Fatal("the second Complete returned true")
	}
}

// TestOrderOfCandidates: every strategy chooses the same whatever order the
// candidates are in.
func TestOrderOfCandidates(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, p := testPool(t, drawConfig(rt), rapid.IntRange(2, 7).Draw(rt, "backends"))
		now := time.Unix(2000, 0)
		for range rapid.IntRange(0, 20).Draw(rt, "before") {
			_, _ = r.Route(drawRequest(rt, p, now))
		}
		req := drawRequest(rt, p, now)
		var v view
		if none := v.look(p, req); none != nil {
			rt.Fatal(none)
		}
		first, _ := v.choose(p)
		want := fmt.Sprint(describeChoice(first))
		for range 5 {
			seed := rapid.Uint64().Draw(rt, "shuffle")
			rng := rand.New(rand.NewPCG(seed, seed))
			rng.Shuffle(len(v.candidates), func(i, j int) { v.candidates[i], v.candidates[j] = v.candidates[j], v.candidates[i] })
			again, _ := v.choose(p)
			if got := fmt.Sprint(describeChoice(again)); got != want {
				rt.Fatalf("%s: %s in one order, %s in another", v.config.Strategy, want, got)
			}
		}
	})
}

func describeChoice(c choice) (string, Reason, bool) {
	if c.candidate == nil {
		return "nobody", c.reason, c.over
	}
	return c.candidate.member.backend.ID, c.reason, c.over
}

// TestRouteConcurrently takes decisions from many goroutines while the pool changes
// (ML-07): no threshold is passed and every slot comes back.
func TestRouteConcurrently(t *testing.T) {
	config := DefaultConfig()
	config.ConcurrencyThreshold, config.OnSaturation = 4, Reject
	r, p := testPool(t, config, 4)
	specs := make([]backends.Spec, 0, 5)
	for i := range 5 {
		specs = append(specs, backends.Spec{URL: fmt.Sprintf("http://b%d:80", i), Rank: backends.NoRank})
	}
	if _, err := p.SetBackends(specs[:4]); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(2000, 0)
	var wg sync.WaitGroup
	for worker := range 6 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			for i := range 400 {
				keys := promptKeys(fmt.Sprintf("head:4+doc%d:%d", i%9, i%20))
				req := &Request{Now: now, Random: rng.Uint64(), Pool: p, Model: "m", Blocks: keys, StreamBytes: len(keys) * 256, HashedBytes: len(keys) * 256}
				d, err := r.Route(req)
				if err != nil {
					continue
				}
				if n := d.Backend.InFlight(); n > 4 {
					t.Errorf("%s: %d in flight with a threshold of 4", d.Backend.ID, n)
				}
				r.FirstToken(d, now)
				r.Complete(d, feedback.Outcome{Now: now, Result: feedback.Success, Blame: feedback.Healthy, FirstByte: true})
			}
		})
	}
	wg.Go(func() {
		for i := range 200 {
			if _, err := p.SetBackends(specs[:3+i%3]); err != nil {
				t.Error(err)
			}
			c := config
			c.Strategy = Strategies()[i%5]
			if err := p.SetConfig(c); err != nil {
				t.Error(err)
			}
			p.Status(now)
		}
	})
	wg.Wait()
	if got := inFlight(p); got != 0 {
		t.Errorf("in flight at the end: %d", got)
	}
}

// TestRB11: 1,000 distinct prefixes over 10 equal backends spread evenly. PREFIX_HASH,
// the baseline, spreads only as evenly as hashing does.
func TestRB11(t *testing.T) {
	for _, strategy := range []string{PrefixAware, LeastExpectedTTFT} {
		config := DefaultConfig()
		config.Strategy = strategy
		r := New(Options{Epoch: time.Unix(1000, 0)})
		spec := PoolSpec{Name: "pool", Config: config, Ejection: backends.DefaultEjection()}
		for i := range 10 {
			spec.Backends = append(spec.Backends, backends.Spec{URL: fmt.Sprintf("http://10.0.0.%d:8000", i), Rank: backends.NoRank})
		}
		p, err := r.AddPool(spec)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(2000, 0)
		share := make(map[string]int)
		var open []*Decision
		for i := range 1000 {
			keys := promptKeys(fmt.Sprintf("doc%d:20", i))
			req := &Request{Now: now, Pool: p, Model: "m", Blocks: keys, StreamBytes: 20 * 256, HashedBytes: 20 * 256, Prefix: keys[19], Streamed: true}
			req.Rendezvous, req.HasPrefix = kvindex.RendezvousKey(keys, 256, "")
			d, err := r.Route(req)
			if err != nil {
				t.Fatal(err)
			}
			share[d.Backend.ID]++
			open = append(open, d)
			now = now.Add(50 * time.Millisecond)
			if len(open) > 20 { // a steady load of 20 requests
				r.Complete(open[0], feedback.Outcome{Now: now, Result: feedback.Success, FirstByte: true})
				open = open[1:]
			}
		}
		most := 0
		for _, n := range share {
			most = max(most, n)
		}
		t.Logf("%s: largest share %.2f times the mean", strategy, float64(most)/100)
		if most >= 125 {
			t.Errorf("%s: the largest share is %d of 1,000, want below 125: %v", strategy, most, share)
		}
	}
}
