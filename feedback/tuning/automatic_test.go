//go:build !race

// Some hundred replays take the race detector minutes, and all of it is one goroutine.

package tuning_test

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/advice"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/feedback/tuning"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// fleet is engines and what is asked of them.
type fleet struct {
	asked  func() workload.Source
	config router.Config
}

// observation is how long steps are watched.
const observation = 14 * time.Minute

// work is what advice replays at most: a few minutes of requests.
const work = 8_000_000

// lookEvery is how often the tuner is asked.
const lookEvery = 5 * time.Second

// watched is what was delivered while a fleet was looked after, part by part.
type watched struct {
	*replay.Result
	steps  []tuning.Step
	config router.Config
	parts  []tuning.Delivered // of two minutes each
}

// run plays the requests, looked after by a tuner that is advised, or by nobody.
func (f fleet) run(t *testing.T, automatic bool) *watched {
	t.Helper()
	out := new(watched)
	store := recent.New(recent.DefaultBytes)
	tuner := tuning.New(tuning.Rules{Observation: observation})
	var current tuning.Sum
	var ends time.Time
	c := replay.Config{
		Backends: 4, Engine: enginesim.Config{Profile: replay.ReferenceProfile(200_000)}, Router: f.config,
		ScrapeEvery: 5 * time.Second, StatedCapacity: 1, Seed: 1,
		Observe: func(r *feedback.Record) {
			if ends.IsZero() {
				ends = r.Start.Add(observation / (tuning.Parts + 1))
			}
			if r.Start.After(ends) {
				ends = ends.Add(observation / (tuning.Parts + 1))
				out.parts = append(out.parts, current.Delivered())
				current = tuning.Sum{}
			}
			current.Add(r)
			if q, ok := recent.Of(r); ok && automatic {
				store.Add(&q)
				tuner.Add(r)
			}
		},
		Steer: func(now time.Time, p *router.Pool) {
			out.config = p.Config()
			if !automatic {
				return
			}
			m := tuner.Look(now, p.Config(), true)
			if m.Ask {
				a, err := advice.Give(t.Context(), advice.Of(p, now), advice.Recent(store, p.Name(), work).Since(m.Since), advice.Options{Seed: 1, Knobs: []advice.Knob{}})
				if err != nil {
					t.Error(err)
				}
				tuner.Advised(now, a.Present, a.Proposals(), a.TooLittle)
			}
			if m.Step != nil {
				s := m.Step
				t.Logf("%s: %s %s %d → %d: %s; %.1f %% and %v, then %.1f %% and %v", now.UTC().Format(time.TimeOnly), s.Fate, s.Setting, s.From, s.To, s.Why,
					100*s.Before.HitRate, s.Before.P90, 100*s.After.HitRate, s.After.P90)
			}
			if m.Set {
				if err := p.SetConfig(m.Config); err != nil {
					t.Error(err)
				}
			}
		},
		SteerEvery: lookEvery,
	}
	played, err := replay.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if out.Result, err = played.Run(f.asked()); err != nil {
		t.Fatal(err)
	}
	out.steps = tuner.Status().Steps
	return out
}

// docs are questions about documents for so long, each of so many tokens behind a head that all
// have.
func docs(seed uint64, length time.Duration, change func(*workload.DocsConfig), head int) func() workload.Source {
	c := workload.DefaultDocsConfig()
	c.Documents, c.DocumentTokens, c.Rate, c.Duration = 240, 4000, 6, length
	change(&c)
	return func() workload.Source { return &headed{workload.NewDocs(c, seed), head} }
}

// headed is requests with one head in common.
type headed struct {
	workload.Source
	tokens int
}

func (h *headed) Next() (workload.Request, bool) {
	r, ok := h.Source.Next()
	if h.tokens > 0 {
		r.Prompt = append([]workload.Segment{{ID: 1 << 40, Tokens: h.tokens}}, r.Prompt...)
	}
	return r, ok
}

// then is one source after the other.
type then struct {
	first, second workload.Source
	at            time.Duration // when the second begins
	late          bool
}

func (s *then) Next() (workload.Request, bool) {
	if !s.late {
		if r, ok := s.first.Next(); ok {
			return r, true
		}
		s.late = true
	}
	r, ok := s.second.Next()
	r.At += s.at
	return r, ok
}

func (*then) Ended(*workload.Request, time.Duration, bool) (workload.Request, bool) {
	return workload.Request{}, false // nobody waits for answers
}

// Bad starts are put right, step by step: what is delivered in the end is as good as with what
// is set where nothing is known of the traffic.
func TestBadStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("some hundred replays")
	}
	plain := func(*workload.DocsConfig) {}
	for name, c := range map[string]struct {
		asked func() workload.Source
		bad   func(*router.Config)
		good  func(*router.Config)
	}{
		"prefix_length 1024 behind a head": {
			docs(1, 75*time.Minute, plain, 512),
			func(c *router.Config) { c.PrefixLength = 1024 }, func(*router.Config) {},
		},
		"threshold 4": {
			docs(1, 75*time.Minute, plain, 0),
			func(c *router.Config) { c.Strategy, c.ConcurrencyThreshold = router.PrefixHash, 4 },
			func(c *router.Config) { c.Strategy = router.PrefixHash },
		},
		"threshold 1024": {
			docs(1, 75*time.Minute, func(c *workload.DocsConfig) {
				c.DocumentTokens, c.Zipf, c.Rate, c.QuestionMean, c.QuestionSpread, c.OutputMean = 1000, 1.3, 9, 2000, 300, 100
			}, 0),
			func(c *router.Config) { c.Strategy, c.ConcurrencyThreshold = router.PrefixHash, 1024 },
			func(c *router.Config) { c.Strategy, c.ConcurrencyThreshold = router.PrefixHash, 4 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, good := router.DefaultConfig(), router.DefaultConfig()
			c.bad(&bad)
			c.good(&good)
			was, is, could := fleet{c.asked, bad}.run(t, false), fleet{c.asked, bad}.run(t, true), fleet{c.asked, good}.run(t, false)
			from, to := time.Hour, 75*time.Minute
			before, now, best := was.Window(from, to), is.Window(from, to), could.Window(from, to)
			t.Logf("at the end: %.1f %% and %v; nobody: %.1f %% and %v; from the start: %.1f %% and %v; %+v", 100*now.HitRate(), now.Quantile(.9),
				100*before.HitRate(), before.Quantile(.9), 100*best.HitRate(), best.Quantile(.9), is.config)
			if now.HitRate() < best.HitRate()-.02 || now.Quantile(.9) > best.Quantile(.9)*11/10 {
				t.Error("it is not put right")
			}
			if before.HitRate() >= best.HitRate()-.02 && before.Quantile(.9) < best.Quantile(.9)*11/10 {
				t.Error("it was not wrong")
			}
			for _, s := range is.steps {
				if s.To > tuning.StepFactor*s.From || s.From > tuning.StepFactor*s.To {
					t.Errorf("%d → %d is more than a step", s.From, s.To)
				}
			}
		})
	}
}

// When traffic changes at mid-run, what was set before never costs more than 2 points of what
// would have been delivered without for longer than an observation.
func TestShapeChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("some hundred replays")
	}
	long := docs(2, 50*time.Minute, func(c *workload.DocsConfig) { c.Documents, c.DocumentTokens, c.Rate = 60, 6000, 6 }, 0)
	hot := docs(3, 50*time.Minute, func(c *workload.DocsConfig) {
		c.DocumentTokens, c.Zipf, c.Rate, c.QuestionMean, c.QuestionSpread, c.OutputMean = 1000, 1.3, 9, 2000, 300, 100
	}, 0)
	plain := docs(1, 50*time.Minute, func(*workload.DocsConfig) {}, 512)
	for name, c := range map[string]struct {
		first, second func() workload.Source
		start         func(*router.Config)
	}{
		"hot, then long":           {hot, long, func(c *router.Config) { c.Strategy, c.ConcurrencyThreshold = router.PrefixHash, 1024 }},
		"behind a head, then long": {plain, long, func(c *router.Config) { c.PrefixLength = 1024 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := router.DefaultConfig()
			c.start(&config)
			f := fleet{func() workload.Source { return &then{first: c.first(), second: c.second(), at: 50 * time.Minute} }, config}
			alone, automatic := f.run(t, false), f.run(t, true)
			longest, low := 0, 0
			for i := range min(len(alone.parts), len(automatic.parts)) {
				if low++; automatic.parts[i].HitRate >= alone.parts[i].HitRate-tuning.FallOfHits {
					low = 0
				}
				longest = max(longest, low)
			}
			t.Logf("%d parts, the most in a row in which more than 2 points less was delivered: %d; %.1f %% and %v in all, %.1f %% and %v without", len(automatic.parts), longest,
				100*automatic.HitRate(), automatic.Quantile(.9), 100*alone.HitRate(), alone.Quantile(.9))
			if longest > tuning.Parts+1 {
				t.Error("that is longer than an observation")
			}
			if len(automatic.steps) == 0 {
				t.Error("nothing was done")
			}
		})
	}
}
