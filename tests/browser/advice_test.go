package browser

import (
	"slices"
	"testing"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/advice"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/gateway"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// TestAdvice looks at a router that is badly configured for what it remembers, and wants a key,
// and at one that remembers too little.
func TestAdvice(t *testing.T) {
	s := newStage(t)
	c := newConfig(t)
	c.Pools[0].Routing.PrefixLength, c.Pools[0].Routing.ConcurrencyThreshold = 1024, 4
	c.AdminKeys = adminKeys(operatorKey)
	g, admin := serve(t, c)
	remember(t, g, c, 6*time.Minute)
	scraped(t, g.Router().Pools()[0])
	few := newConfig(t)
	g, fewAdmin := serve(t, few)
	remember(t, g, few, 30*time.Second)
	s.play(t, "advice.mjs", map[string]any{"admin": admin, "key": operatorKey, "few": fewAdmin}, 5)
}

// instructed are questions about documents, all of which begin with the same instructions.
type instructed struct{ *workload.Docs }

// Next implements [workload.Source].
func (s instructed) Next() (workload.Request, bool) {
	r, ok := s.Docs.Next()
	r.Prompt = append([]workload.Segment{{ID: 1 << 40, Tokens: 512}}, r.Prompt...)
	return r, ok
}

// remember has a router remember questions that came for so long and ended a moment ago, with
// the answers that its engines would have given, routed as it is configured. No cache holds all
// documents, all of them together do.
func remember(t *testing.T, g *gateway.Gateway, c *config.Config, lasted time.Duration) {
	t.Helper()
	pool := &c.Pools[0]
	var requests []recent.Request
	fleet, err := replay.New(replay.Config{
		Backends: engines, Engine: enginesim.Config{Profile: profile()}, Router: pool.Routing.Router(),
		ScrapeEvery: 5 * time.Second, StatedCapacity: 1, Seed: 1,
		Observe: func(r *feedback.Record) {
			if q, ok := recent.Of(r); ok {
				q.Keys = slices.Clone(q.Keys)
				requests = append(requests, q)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	docs := workload.DefaultDocsConfig()
	docs.Documents, docs.DocumentTokens, docs.OutputMean, docs.Rate, docs.Duration = 48, 4000, 60, 5, lasted
	if _, err := fleet.Run(instructed{workload.NewDocs(docs, 1)}); err != nil {
		t.Fatal(err)
	}
	since := time.Since(requests[len(requests)-1].Arrived)
	for _, q := range requests {
		q.Pool, q.Arrived = pool.Name, q.Arrived.Add(since)
		g.Requests().Add(&q)
	}
}

// scraped waits until all engines of a pool have said how large their caches are.
func scraped(t *testing.T, p *router.Pool) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(30 * time.Second); !advice.Of(p, time.Now()).Stated; <-look.C {
		if time.Now().After(end) {
			t.Fatal("not all engines have said how large their caches are")
		}
	}
}
