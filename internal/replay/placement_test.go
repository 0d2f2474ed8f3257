package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// TestPolicies: which of a few engines each policy takes.
func TestPolicies(t *testing.T) {
	for _, tc := range []struct {
		name    string
		policy  Placement
		engines []candidate
		want    int
	}{
		{"the shortest backlog, whatever is cached or in flight", LeastQueuedTokens, []candidate{
			{backlog: 900, share: 1}, {backlog: 300, inFlight: 9}, {backlog: 500},
		}, 1},
		{"equal backlogs go at random", LeastQueuedTokens, []candidate{
			{backlog: 300, draw: 7}, {backlog: 900, draw: 1}, {backlog: 300, draw: 5},
		}, 2},

		{"the first in the prefix's order, whatever is cached", BoundedHash, []candidate{
			{affinity: 5, share: 1}, {affinity: 9}, {affinity: 7},
		}, 1},
		// With this request 12 are in flight, 4 an engine, and 1.25 × 4 is 5.
		{"the next in its order at the bound", BoundedHash, []candidate{
			{affinity: 5, inFlight: 2}, {affinity: 9, inFlight: 5}, {affinity: 7, inFlight: 4},
		}, 2},
		{"not yet at the bound", BoundedHash, []candidate{
			{affinity: 5, inFlight: 3}, {affinity: 9, inFlight: 4}, {affinity: 7, inFlight: 4},
		}, 1},

		// The queues score 0, 0.5 and 1.
		{"2 × 0.6 + 0 beats 2 × 0.3 + 0.5 and 1", WeightedScore, []candidate{
			{share: 0.6, waiting: 4}, {share: 0.3, waiting: 2}, {},
		}, 0},
		{"1 beats 2 × 0.4 + 0", WeightedScore, []candidate{
			{share: 0.4, waiting: 4}, {waiting: 2}, {},
		}, 2},
		{"2 × 0.4 + 0.5 beats both", WeightedScore, []candidate{
			{share: 0.6, waiting: 4}, {share: 0.4, waiting: 2}, {},
		}, 1},
		{"equal queues say nothing", WeightedScore, []candidate{
			{share: 0.1, waiting: 3, inFlight: 3}, {share: 0.2, waiting: 3, inFlight: 90}, {waiting: 3},
		}, 1},
		{"equal scores go at random", WeightedScore, []candidate{
			{share: 0.5, draw: 4}, {share: 0.5, draw: 3}, {draw: 1},
		}, 1},

		{"the longest match", LongestMatch, []candidate{
			{share: 0.3, inFlight: 1}, {share: 0.8, inFlight: 1, waiting: 1, backlog: 9000}, {share: 0.7},
		}, 1},
		{"the next longest where that is at the bound", LongestMatch, []candidate{
			{share: 0.3, inFlight: 4}, {share: 0.8, inFlight: 5}, {inFlight: 2},
		}, 0},
		{"a match below a quarter is none", LongestMatch, []candidate{
			{share: 0.24, inFlight: 2}, {inFlight: 1}, {inFlight: 3},
		}, 1},
		{"equal matches go to the fewest in flight", LongestMatch, []candidate{
			{share: 0.5, inFlight: 2}, {share: 0.5, inFlight: 1}, {},
		}, 1},
		{"then at random", LongestMatch, []candidate{{draw: 6}, {draw: 2}, {draw: 4}}, 1},
	} {
		t.Run(string(tc.policy)+" "+tc.name, func(t *testing.T) {
			for i := range tc.engines {
				tc.engines[i].node = &node{number: i}
			}
			if got := policies[tc.policy](tc.engines).node.number; got != tc.want {
				t.Errorf("engine %d, want %d", got, tc.want)
			}
		})
	}
}

// TestCandidates: one of two engines has answered a question about a document 2 s ago and
// got two more, 1 s and 0.5 s ago, of which nothing has come back.
func TestCandidates(t *testing.T) {
	c := smallConfig(1)
	c.Backends, c.Placement = 2, LongestMatch
	f := mustNew(t, c)
	f.source = new(script)
	f.route(0, docAsk(1, 0))
	for len(f.agenda.heap) > 0 {
		m, _ := f.agenda.next()
		if err := f.handle(m); err != nil {
			t.Fatal(err)
		}
	}
	f.route(2*time.Second, docAsk(1, 1))
	f.route(2500*time.Millisecond, docAsk(1, 2))

	fl := f.take(3*time.Second, docAsk(1, 3))
	fl.via = f.pick()
	fl.describe()
	all := f.candidates(fl, &router.Request{Now: clock(3 * time.Second), Random: 1})
	if len(all) != 2 {
		t.Fatalf("%d candidates, want 2", len(all))
	}
	asked, idle := all[0], all[1]
	if idle.inFlight > 0 {
		asked, idle = idle, asked
	}
	// The document is 125 blocks of 256 bytes, the prompt 8,100 tokens of 4 bytes. Of the
	// two prompts 2,000 tokens are presumed prefilled in the second since the first came.
	want := candidate{share: 32_000. / 32_400, inFlight: 2, waiting: 2, backlog: 2*8100 - 2000}
	for _, side := range []struct {
		name      string
		got, want candidate
	}{{"asked", asked, want}, {"idle", idle, candidate{}}} {
		got := side.got
		got.node, got.affinity, got.draw = nil, 0, 0
		if got != side.want {
			t.Errorf("%s engine: %+v, want %+v", side.name, got, side.want)
		}
	}
	if asked.affinity == idle.affinity || asked.draw == idle.draw {
		t.Error("nothing orders the engines")
	}
}

// TestPlacements: whoever chooses, the router knows of every request, learns from every
// answer, and expects what the engines find.
func TestPlacements(t *testing.T) {
	for _, placement := range Placements() {
		c, d := beliefConfig()
		c.Backends, c.Placement = 3, placement
		d.Documents, d.Rate, d.Duration = 60, 2, 3*time.Minute
		r := mustRun(t, mustNew(t, c), workload.NewDocs(d, c.Seed))
		if r.Answered != r.Requests || len(r.Samples) != r.Requests {
			t.Errorf("%s: %d of %d requests answered, %d admitted", placement, r.Answered, r.Requests, len(r.Samples))
		}
		if r.HitRate() < 0.2 || r.Recall() < 0.95 || r.Precision() < 0.95 {
			t.Errorf("%s: hit rate %.3f, recall %.3f, precision %.3f", placement, r.HitRate(), r.Recall(), r.Precision())
		}
	}
}

// TestPlacementOutOfRotation: an engine that is being drained is nobody's candidate, and
// when all are the choice is left to the router.
func TestPlacementOutOfRotation(t *testing.T) {
	c := smallConfig(1)
	c.Placement = LeastQueuedTokens
	f := mustNew(t, c)
	fl := f.take(0, docAsk(1, 0))
	fl.via = f.pick()
	fl.describe()
	req := router.Request{Now: clock(0), Random: 1}
	for left := len(f.nodes); left > 0; left-- {
		chosen := f.place(fl, &req)
		if got := len(f.candidates(fl, &req)); got != left || chosen == "" {
			t.Errorf("%d candidates and the choice %q, want %d", got, chosen, left)
		}
		for _, n := range f.nodes {
			if n.backend.ID == chosen {
				n.backend.Drain(true)
			}
		}
	}
	if got := f.place(fl, &req); got != "" {
		t.Errorf("the choice is %q, want none", got)
	}
}

func TestPlacementNames(t *testing.T) {
	c := smallConfig(1)
	for _, c.Placement = range append(Placements(), ByRouter) {
		if err := c.Validate(); err != nil {
			t.Errorf("%q: %v", c.Placement, err)
		}
	}
	c.Placement = "FASTEST"
	err := c.Validate()
	if err == nil {
		t.Fatal("an unknown placement is accepted")
	}
	for _, name := range append(Placements(), c.Placement) {
		if !strings.Contains(err.Error(), string(name)) {
			t.Errorf("error %q does not name %s", err, name)
		}
	}
}
