package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/warmroute/warmroute/feedback/advice"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// experience is what a router remembers of a strategy's run, in simulated time.
type experience struct {
	strategy string
	pool     advice.Pool
	window   *advice.Window
}

// advisedOn is the strategy on whose run advice is given.
func (c Config) advisedOn() string {
	if slices.Contains(c.Strategies, router.PrefixAware) {
		return router.PrefixAware
	}
	return c.Strategies[len(c.Strategies)-1]
}

// experience returns what the fleet's router remembers once it has that many requests: it notes
// one down after its client has read the answer's end. Of what it then still lacks it knows nothing.
func (f *fleet) experience(ctx context.Context, cfg Config, strategy string, answered int) *experience {
	pool := f.gateway.router.Pools()[0]
	f.noted(ctx, pool.Name(), answered)
	known := advice.Of(pool, time.Now())
	known.PrefillRate /= cfg.Speed
	known.CapacityTokens, known.Stated = cfg.KVTokens, true
	if profile, err := enginesim.ProfileByName(cfg.Profile); err == nil && cfg.KVTokens == 0 {
		known.CapacityTokens = profile.KVTokens
	}
	all := f.gateway.requests.Window(pool.Name(), func(recent.Prompt) bool { return true })
	return &experience{strategy, known, advice.Recent(simulated(all, pool.Name(), cfg.Speed), pool.Name(), 0)}
}

// noted waits until the router remembers so many requests, or [grace] has passed.
func (f *fleet) noted(ctx context.Context, pool string, answered int) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for f.gateway.requests.Added(pool) < uint64(max(0, answered)) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-look.C:
		}
	}
}

// simulated is requests as they would have been in simulated time.
func simulated(w *recent.Window, pool string, speed float64) *recent.Store {
	slow := func(d time.Duration) time.Duration { return time.Duration(float64(d) * speed) }
	s := recent.New(recent.DefaultBytes)
	for i := range w.Requests {
		p := &w.Requests[i]
		facts := p.Facts
		facts.Arrived = w.Requests[0].Arrived.Add(slow(p.Arrived.Sub(w.Requests[0].Arrived)))
		facts.Duration, facts.TTFT = slow(p.Duration), slow(p.TTFT)
		s.Add(&recent.Request{Pool: pool, Keys: keysOf(w, p), BlockBytes: w.BlockBytes, StreamBytes: int(p.StreamBytes), Facts: facts})
	}
	return s
}

// keysOf are the block keys of a prompt.
func keysOf(w *recent.Window, p *recent.Prompt) []kvindex.Key {
	keys := make([]kvindex.Key, p.Depth)
	for i, at := len(keys)-1, p.Last; at != recent.NoBlock; i, at = i-1, w.Blocks[at].Parent {
		keys[i] = w.Blocks[at].Key
	}
	return keys
}

// printAdvice gives advice from a run and prints what is to be set, and why.
func printAdvice(ctx context.Context, w io.Writer, e *experience) error {
	a, err := advice.Give(ctx, e.pool, e.window, advice.Options{Seed: 1, Knobs: []advice.Knob{}})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nAdvice on %s, from the %d requests of its run (`warmroute advise` gives it on a router that runs):\n", e.strategy, a.Evidence.Requests)
	if a.TooLittle != "" {
		fmt.Fprintf(w, "  none: %s.\n", a.TooLittle)
		return nil
	}
	for _, c := range a.Curves {
		value := c.Present
		if c.Verdict == advice.Set {
			value = c.Advised
		}
		fmt.Fprintf(w, "  %-21s %s %s: %s.\n", c.Knob, verdicts[c.Verdict], value, c.Reason)
	}
	return nil
}

// verdicts are the verdicts as they stand before a value.
var verdicts = map[advice.Verdict]string{ //nolint:gochecknoglobals // a constant
	advice.Set: "set to", advice.Keep: "keep", advice.Flat: "keep", advice.Unsure: "keep",
}
