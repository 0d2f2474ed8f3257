package advice

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/warmroute/warmroute/router"
)

// Options say how advice is made. The zero value works.
type Options struct {
	// Seed makes it repeatable.
	Seed uint64
	// Parallel is how many replays go on at once, each on a core of its own with some hundred
	// MiB of memory; 0 is two, or one where there is no second core.
	Parallel int
	// Knobs are those that are varied; nil is all. Advice on prefix_length and
	// concurrency_threshold is always given.
	Knobs []Knob
	// Progress, where it is set, is told how many replays are through and how many are known to
	// be wanted so far, which grows while the search goes on. It is called from several
	// goroutines, one at a time.
	Progress func(through, wanted int)
}

// Advice is what should be set, and why.
type Advice struct {
	// Pool is the pool's name.
	Pool string
	// Evidence is what it rests on.
	Evidence Evidence
	// TooLittle says why there is no advice, empty where there is.
	TooLittle string
	// Present is how the pool is routed, Advised how it should be: they differ in
	// prefix_length and concurrency_threshold alone, and in those only where the verdict
	// is [Set].
	Present, Advised router.Config
	// Now and Then are what comes of the two, Change what that changes.
	Now, Then Measure
	Change    Change
	// Curves are the knobs that were varied, each with all else as advised.
	Curves []Curve
	// Cautions are what would make it wrong.
	Cautions []string
}

// Curve is what comes of the values of a knob.
type Curve struct {
	Knob Knob
	// Points are the values that were tried, in order.
	Points []Point
	// Present is the value in force.
	Present Value
	// Advised is the value that the rule prefers, whatever the verdict: the smallest
	// prefix_length, the concurrency_threshold of the lowest P90. It is the present one where
	// nothing is advised of the knob.
	Advised Value
	// Verdict says whether to set it; empty where nothing is advised of the knob.
	Verdict Verdict
	// Change is what the advised value changes against the present one.
	Change Change
	// Reason says it in words.
	Reason string
}

// Point is a value that was tried.
type Point struct {
	Value Value
	Measure
	// Change is against the present value.
	Change Change
}

// advised are the knobs on which advice is given.
var advised = []Knob{PrefixLength, ConcurrencyThreshold} //nolint:gochecknoglobals // a constant

// Give gives advice on a pool from its latest requests. The error is the context's, or names
// what makes no sense of the pool.
func Give(ctx context.Context, p Pool, w *Window, o Options) (*Advice, error) {
	if o.Parallel <= 0 {
		o.Parallel = min(runtime.GOMAXPROCS(0), 2)
	}
	a := &Advice{Pool: p.Name, Present: p.Config, Advised: p.Config, Evidence: w.evidence()}
	if a.TooLittle = a.Evidence.tooLittle(); a.TooLittle != "" {
		return a, nil
	}
	m := &making{advice: a, window: w, sweep: newSweep(&p, w, o), present: world{p.Config, p.Backends}}
	if err := m.make(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// making is advice as far as it is made.
type making struct {
	advice *Advice
	window *Window
	*sweep
	present, best world
}

// rounds is how often each of the two settings is looked for in the light of the other.
const rounds = 3

func (m *making) make(ctx context.Context) error {
	a := m.advice
	if err := m.fit(ctx); err != nil {
		return err
	}
	a.Now = m.measure(m.present)
	curves, err := m.settle(ctx)
	if err != nil {
		return err
	}
	a.Advised, a.Then, a.Change = m.best.config, m.measure(m.best), m.change(m.present, m.best)
	for _, knob := range Knobs() {
		c, ok := curves[knob]
		if !ok && m.options.Knobs != nil && !slices.Contains(m.options.Knobs, knob) {
			continue
		}
		if !ok {
			if c, err = m.show(ctx, knob); err != nil {
				return err
			}
		}
		a.Curves = append(a.Curves, c)
	}
	a.Cautions = m.cautions()
	return nil
}

// settle looks for the best values of both settings, and returns their curves. Where one of them
// should be set, which is looked for first may decide what is found: then the other comes first,
// too, and the better of the two ways is taken.
func (m *making) settle(ctx context.Context) (map[Knob]Curve, error) {
	curves, err := m.climb(ctx, advised)
	if err != nil || m.best == m.present {
		return curves, err
	}
	first := m.best
	others, err := m.climb(ctx, []Knob{advised[1], advised[0]})
	if err != nil {
		return nil, err
	}
	if m.better(m.best, first) {
		return others, nil
	}
	m.best = first
	return curves, nil
}

// climb looks for the best value of each of some knobs, one after the other, until nothing moves.
func (m *making) climb(ctx context.Context, knobs []Knob) (map[Knob]Curve, error) {
	m.best = m.present
	curves := make(map[Knob]Curve)
	for range rounds {
		before := m.best
		for _, knob := range knobs {
			c, err := m.advise(ctx, knob)
			if err != nil {
				return nil, err
			}
			curves[knob] = c
		}
		if m.best == before {
			break
		}
	}
	return curves, nil
}

// advise looks for the best value of a knob, all else being as best, and takes it where it
// surely is better than the present one.
func (m *making) advise(ctx context.Context, knob Knob) (Curve, error) {
	c := &curve{sweep: m.sweep, knob: knob, world: m.best}
	values, choose := m.prefixLengths(), c.smallest
	if knob == ConcurrencyThreshold {
		values, choose = thresholds(), c.usual
	}
	present := m.present.value(knob)
	preferred, err := c.search(ctx, values, []Value{present}, choose)
	if err != nil {
		return Curve{}, err
	}
	verdict := c.judge(present, preferred)
	m.best = m.best.with(knob, Value{Number: float64(m.configured(knob))})
	if verdict == Set {
		m.best = m.best.with(knob, preferred)
	} else if knob == ConcurrencyThreshold {
		preferred = present
	}
	curve := m.tell(c, present, preferred)
	curve.Verdict = verdict
	curve.Reason = c.reason(verdict, present, preferred)
	return curve, nil
}

// configured is the present configuration's value of a knob, which may be 0 for its default.
func (m *making) configured(knob Knob) int {
	if knob == PrefixLength {
		return m.present.config.PrefixLength
	}
	return m.present.config.ConcurrencyThreshold
}

// show varies a knob on which nothing is advised.
func (m *making) show(ctx context.Context, knob Knob) (Curve, error) {
	c := &curve{sweep: m.sweep, knob: knob, world: m.best}
	present := m.best.value(knob)
	values := []Value{present}
	switch knob {
	case MinMatchRatio:
		values = append(values, number(0.1), number(0.25), number(0.5), number(0.75))
	case Strategy:
		for _, name := range router.Strategies() {
			values = append(values, Value{Name: name})
		}
	case Backends:
		n := m.best.backends
		values = append(values, number(max(n-1, 1)), number(n+1), number(n+2), number(2*n))
	case PrefixLength, ConcurrencyThreshold:
	}
	if err := c.try(ctx, values...); err != nil {
		return Curve{}, err
	}
	return m.tell(c, present, present), nil
}

// tell makes what was tried public.
func (m *making) tell(c *curve, present, preferred Value) Curve {
	told := Curve{Knob: c.knob, Present: present, Advised: preferred, Change: c.change(present, preferred)}
	for _, v := range c.tried {
		told.Points = append(told.Points, Point{Value: v, Measure: m.measure(c.at(v)), Change: c.change(present, v)})
	}
	return told
}

// measure is what came of a world.
func (m *making) measure(w world) Measure {
	measure := m.find(w).Measure
	measure.DistinctPrefixes = m.window.distinct(w.config.HashLength())
	return measure
}

// Evidence is what advice rests on.
type Evidence struct {
	// Requests are replayed, Counted of them arrived after the caches were warm.
	Requests, Counted int
	// From and To are when the first and the last of them arrived.
	From, To time.Time
	// Whole says that nothing older is remembered; else more would have taken too long.
	Whole bool
	// Reported is the part of the answers that reported cached tokens, HitRate what they
	// reported, P90 that of the times to first token; both of the time that counts.
	Reported float64
	HitRate  float64
	P90      time.Duration
	// Reckoned is the part of the prompts whose length was not reported.
	Reckoned float64
	// LongestStream is the longest prompt, in bytes of key stream.
	LongestStream int
}
