package advice

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// scrapeEvery is how often the modelled engines are asked for their metrics.
const scrapeEvery = 5 * time.Second

// sweep plays one window in many worlds, each once.
type sweep struct {
	pool     *Pool
	asked    *workload.Workload
	engine   enginesim.Config
	perToken float64 // bytes
	longest  int
	from, to time.Duration // what counts
	options  Options
	drawing  drawing

	mu       sync.Mutex
	outcomes map[world]*outcome
	drawn    map[*outcome]drawn
	through  int // replays
	wanted   int // replays that are sure to be wanted
}

func newSweep(p *Pool, w *Window, o Options) *sweep {
	s := &sweep{
		pool: p, engine: p.engine(w, p.step(w)), perToken: p.bytesPerToken(w), longest: w.longest(), options: o,
		drawing: newDrawing(o.Seed), outcomes: make(map[world]*outcome), drawn: make(map[*outcome]drawn),
	}
	s.from, s.to = w.counts()
	s.asked = w.asked(s.perToken)
	return s
}

// same returns the world that stands for all in which the same happens: beyond the longest
// prompt no prefix_length is another.
func (s *sweep) same(w world) world {
	if w.config.PrefixLength = w.config.HashLength(); w.config.PrefixLength >= s.longest {
		w.config.PrefixLength = router.MaxPrefixLength
	}
	return w
}

// find returns what came of a world, or of one in which the same happened; nil when that is
// not known yet. A threshold that is twice what any backend ever had in flight, or more, is
// like any other.
func (s *sweep) find(w world) *outcome {
	w = s.same(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.outcomes[w]; o != nil {
		return o
	}
	for known, o := range s.outcomes {
		threshold := w.config.ConcurrencyThreshold
		if known.config.ConcurrencyThreshold >= 2*o.busiest && threshold >= 2*o.busiest && known.with(ConcurrencyThreshold, number(threshold)) == w {
			return o
		}
	}
	return nil
}

// play makes what comes of worlds known. The first that fails, or the end of the context, ends
// it.
func (s *sweep) play(ctx context.Context, worlds ...world) error {
	todo := make(map[world]bool)
	for _, w := range worlds {
		if s.find(w) == nil {
			todo[s.same(w)] = true
		}
	}
	s.tell(len(todo))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work := make(chan world)
	var workers sync.WaitGroup
	for range min(s.options.Parallel, len(todo)) {
		workers.Go(func() {
			for w := range work {
				if err := s.one(ctx, w); err != nil {
					stop(err)
				}
				s.tell(0)
			}
		})
	}
	for w := range maps.Keys(todo) {
		if ctx.Err() == nil {
			work <- w
		}
	}
	close(work)
	workers.Wait()
	return context.Cause(ctx)
}

// tell says how far it is, with so many replays more that are wanted.
func (s *sweep) tell(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted += more
	if s.options.Progress != nil {
		s.options.Progress(s.through, s.wanted)
	}
}

// one plays one world. Advice is made beside a router: what goes wrong in a replay must not end
// the process.
func (s *sweep) one(ctx context.Context, w world) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("advice: a replay panicked: %v\n%s", cause, debug.Stack())
		}
	}()
	c := replay.Config{
		Backends: w.backends, Engine: s.engine, Router: w.config, BytesPerToken: s.perToken,
		ScrapeEvery: scrapeEvery, Unreported: s.pool.Silent, Seed: s.options.Seed,
		Progress: func(int) error {
			runtime.Gosched() // whoever is on a request's way comes first
			return ctx.Err()
		},
	}
	if s.pool.Stated {
		c.StatedCapacity = 1
	}
	if c.Router.OnSaturation == router.Queue {
		c.Router.OnSaturation = router.LeastLoaded // a replay has no waiting line
	}
	fleet, err := replay.New(c)
	if err != nil {
		return fmt.Errorf("advice: %w", err)
	}
	result, err := fleet.Run(s.asked.Play(s.options.Seed))
	if err != nil {
		return err
	}
	o := take(result, s.from, s.to)
	all := s.drawing.of(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[w], s.drawn[o] = o, all
	s.through++
	return nil
}

// forget lets go of what came of worlds of other engines.
func (s *sweep) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.outcomes)
	clear(s.drawn)
}

// change compares two worlds that were played.
func (s *sweep) change(before, after world) Change {
	a, b := s.find(before), s.find(after)
	return change(a, b, s.drawn[a], s.drawn[b])
}

// hitRate is that of a world that was played, with its interval.
func (s *sweep) hitRate(w world) Interval {
	o := s.find(w)
	return interval(o.HitRate, slices.Clone(s.drawn[o].hitRates))
}

// curve is the values of a knob that were tried, all else as in a world.
type curve struct {
	*sweep
	knob  Knob
	world world
	tried []Value // in order
}

// at is the world with a value.
func (c *curve) at(v Value) world { return c.world.with(c.knob, v) }

// outcome is what came of a value that was tried.
func (c *curve) outcome(v Value) *outcome { return c.find(c.at(v)) }

// change compares two values that were tried.
func (c *curve) change(before, after Value) Change { return c.sweep.change(c.at(before), c.at(after)) }

// try plays values.
func (c *curve) try(ctx context.Context, values ...Value) error {
	var worlds []world
	for _, v := range values {
		worlds = append(worlds, c.at(v))
	}
	if err := c.play(ctx, worlds...); err != nil {
		return err
	}
	c.tried = append(c.tried, values...)
	slices.SortFunc(c.tried, Value.compare)
	c.tried = slices.Compact(c.tried)
	return nil
}

// search tries every other of some values, in order, and those of must, and then the
// neighbours of what choose prefers until they were all tried.
func (c *curve) search(ctx context.Context, values, must []Value, choose func() Value) (Value, error) {
	first := slices.Clone(must)
	for i := len(values) - 1; i >= 0; i -= 2 {
		first = append(first, values[i])
	}
	if err := c.try(ctx, append(first, values[0])...); err != nil {
		return Value{}, err
	}
	for {
		best := choose()
		var next []Value
		for _, v := range values {
			if !slices.Contains(c.tried, v) && c.neighbour(values, v, best) {
				next = append(next, v)
			}
		}
		if len(next) == 0 {
			return best, nil
		}
		if err := c.try(ctx, next...); err != nil {
			return Value{}, err
		}
	}
}

// neighbour reports whether no other of the values lies between two.
func (c *curve) neighbour(values []Value, a, b Value) bool {
	return !slices.ContainsFunc(values, func(v Value) bool {
		return v.compare(a)*v.compare(b) < 0
	})
}

// doubled are the values from least up, each twice the one before, until most is reached.
func doubled(least, most int) []Value {
	var all []Value
	for n := least; ; n *= 2 {
		all = append(all, number(n))
		if n >= most {
			return all
		}
	}
}

// prefixLengths are those that are tried: up to the first that no prompt is longer than.
func (s *sweep) prefixLengths() []Value {
	return doubled(router.MinPrefixLength, min(s.longest, router.MaxPrefixLength))
}

// thresholds are those that are tried.
func thresholds() []Value {
	return doubled(leastThreshold, router.MaxConcurrencyThreshold)
}

// leastThreshold is the lowest threshold that is tried: a batch of fewer wastes any engine.
const leastThreshold = 4
