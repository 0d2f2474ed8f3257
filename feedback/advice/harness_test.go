package advice

import (
	"context"
	"testing"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// fleet is what a test's requests are really sent to.
type fleet struct {
	asked    func() workload.Source
	backends int
	kvTokens int
	config   router.Config
}

const pool = "replay"

// play sends the requests to the fleet as it is configured. observe may be nil.
func (f fleet) play(t *testing.T, config router.Config, observe func(*feedback.Record)) *replay.Result {
	t.Helper()
	fleet, err := replay.New(replay.Config{
		Backends: f.backends, Engine: enginesim.Config{Profile: replay.ReferenceProfile(f.kvTokens)}, Router: config,
		ScrapeEvery: 5 * time.Second, StatedCapacity: 1, Seed: 1, Observe: observe,
	})
	if err != nil {
		t.Fatal(err)
	}
	result, err := fleet.Run(f.asked())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// remember plays the requests and returns what a router remembers of them.
func (f fleet) remember(t *testing.T) *recent.Store {
	t.Helper()
	store := recent.New(recent.DefaultBytes)
	f.play(t, f.config, func(r *feedback.Record) {
		if q, ok := recent.Of(r); ok {
			store.Add(&q)
		}
	})
	return store
}

// pool is what the router knows of the fleet.
func (f fleet) pool() Pool {
	return Pool{Name: pool, Config: f.config, Backends: f.backends, CapacityTokens: f.kvTokens, Stated: true}
}

// advice plays the requests and gives advice from what is remembered of them.
func (f fleet) advice(t *testing.T) *Advice {
	t.Helper()
	a, err := Give(t.Context(), f.pool(), Recent(f.remember(t), pool, 0), Options{Seed: 1, Knobs: []Knob{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range a.Curves {
		t.Logf("%s: %s: %s (%s)", c.Knob, c.Verdict, c.Advised, c.Reason)
	}
	return a
}

// curveOf returns one of the curves.
func (a *Advice) curveOf(knob Knob) Curve {
	for _, c := range a.Curves {
		if c.Knob == knob {
			return c
		}
	}
	return Curve{}
}

// docs are questions about a few documents, for ten minutes.
func docs(zipf, rate float64) func() workload.Source {
	c := workload.DefaultDocsConfig()
	c.Documents, c.DocumentTokens, c.Zipf, c.Rate, c.Duration = 240, 4000, zipf, rate, 10*time.Minute
	return func() workload.Source { return workload.NewDocs(c, 1) }
}

// chat are conversations for ten minutes.
func chat() workload.Source {
	c := workload.DefaultChatConfig()
	c.Rate, c.Duration = 6, 10*time.Minute
	return workload.NewChat(c, 1)
}

// headed are requests with one head in common.
type headed struct {
	source workload.Source
	head   workload.Segment
}

// withHead puts a head of so many tokens before every prompt.
func withHead(asked func() workload.Source, tokens int) func() workload.Source {
	return func() workload.Source { return &headed{asked(), workload.Segment{ID: 1 << 40, Tokens: tokens}} }
}

func (h *headed) add(r workload.Request, ok bool) (workload.Request, bool) {
	r.Prompt = append([]workload.Segment{h.head}, r.Prompt...)
	return r, ok
}

func (h *headed) Next() (workload.Request, bool) { return h.add(h.source.Next()) }

func (h *headed) Ended(r *workload.Request, at time.Duration, answered bool) (workload.Request, bool) {
	bare := *r
	bare.Prompt = bare.Prompt[1:]
	return h.add(h.source.Ended(&bare, at, answered))
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// essays are long questions about a few documents of which some are asked about most of the
// time: what is computed for each is more than what is shared.
func essays() workload.Source {
	c := workload.DefaultDocsConfig()
	c.Documents, c.DocumentTokens, c.Zipf, c.Rate, c.Duration = 240, 1000, 1.3, 9, 10*time.Minute
	c.QuestionMean, c.QuestionSpread, c.OutputMean = 2000, 300, 100
	return workload.NewDocs(c, 1)
}
