package router

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
)

// Whatever the pool and the request, an explanation says what the decision then is, and
// leaves no trace.
func TestExplainSaysWhatRouteDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, p := testPool(t, drawConfig(rt), rapid.IntRange(1, 6).Draw(rt, "backends"))
		now := time.Unix(2000, 0)
		for range rapid.IntRange(0, 25).Draw(rt, "before") {
			_, _ = r.Route(drawRequest(rt, p, now))
		}
		req := drawRequest(rt, p, now)
		before := traces(r, p, now)
		e := r.Explain(req)
		if again := r.Explain(req); !cmp.Equal(again.Candidates, e.Candidates, cmp.Comparer(func(a, b *backends.Backend) bool { return a == b })) || again.Why != e.Why {
			rt.Fatalf("explained as %v and again as %v", e, again)
		}
		if diff := cmp.Diff(before, traces(r, p, now)); diff != "" {
			rt.Fatalf("explaining changed something (-before +after):\n%s", diff)
		}
		d, err := r.Route(req)
		switch {
		case fmt.Sprint(err) != fmt.Sprint(e.Err):
			rt.Fatalf("Route fails with %v, explained as %v", err, e.Err)
		case err != nil:
		case d.Backend != e.Backend, d.Reason != e.Reason, d.Explain() != e.Why, d.Strategy != e.Strategy:
			rt.Fatalf("decided %s (%s), explained %s (%s)", d.Backend.ID, d.Explain(), e.Backend.ID, e.Why)
		case e.Candidates[0].Backend != d.Backend || e.Candidates[0].Place != 1 || e.Candidates[0].InFlight != d.InFlight:
			rt.Fatalf("the first candidate is %+v, decided %s", e.Candidates[0], d.Backend.ID)
		}
	})
}

// traces is everything of a pool that a decision changes.
func traces(r *Router, p *Pool, now time.Time) string {
	var text strings.Builder
	fmt.Fprint(&text, r.ids.Load(), p.Waiting())
	for _, s := range p.Status(now) {
		fmt.Fprint(&text, s.Backend.ID, s.InFlight, s.Queued, s.Index, s.State)
	}
	for _, m := range *p.members.Load() {
		fmt.Fprint(&text, m.recent.level(), m.dispatched.Load(), len(m.flying))
	}
	return text.String()
}

// The alternatives are who takes the request when one after the other fails.
func TestAlternativesAreTheNextChoices(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, p := testPool(t, drawConfig(rt), rapid.IntRange(1, 6).Draw(rt, "backends"))
		now := time.Unix(2000, 0)
		for range rapid.IntRange(0, 25).Draw(rt, "before") {
			_, _ = r.Route(drawRequest(rt, p, now))
		}
		req := drawRequest(rt, p, now)
		req.Alternatives = 2
		var named []*backends.Backend
		for i := range 3 {
			d, err := r.Route(req)
			if i == 0 && err == nil {
				named = append(named, d.Backend)
				named = append(named, d.Alternatives...)
			}
			if err != nil {
				if i < len(named) {
					rt.Fatalf("named %s, but %v", named[i].ID, err)
				}
				return
			}
			if i >= len(named) || named[i] != d.Backend {
				rt.Fatalf("place %d: took %s (%s), named %v", i+1, d.Backend.ID, d.Explain(), ids(named))
			}
			r.Complete(d, feedback.Outcome{Now: now, Result: feedback.Unavailable})
			req.Tried = append(req.Tried, d.Backend)
		}
	})
}

func ids(list []*backends.Backend) []string {
	names := make([]string, len(list))
	for i, b := range list {
		names[i] = b.ID
	}
	return names
}

// Backends that take no part say why, after those that do.
func TestExplainExclusions(t *testing.T) {
	r := New(Options{})
	p, err := r.AddPool(spec("a", []ModelSpec{{Name: "m"}}, "http://b1:80", "http://b2:80", "http://b3:80", "http://b4:80"))
	if err != nil {
		t.Fatal(err)
	}
	b := p.Backends()
	b[0].Drain(true)
	b[1].SetModels([]backends.Model{model("other")})
	b[3].SetUnreachable(true)
	now := time.Unix(100, 0)
	got := make(map[string]string)
	e := r.Explain(&Request{Now: now, Pool: p, Model: "m", Random: rand.Uint64()})
	for _, c := range e.Candidates {
		got[c.Backend.ID] = c.Excluded
	}
	want := map[string]string{"b1:80": "draining", "b2:80": "does not serve the model", "b3:80": "", "b4:80": "unreachable"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exclusions (-want +got):\n%s", diff)
	}
	if e.Candidates[0].Backend != b[2] || e.Backend != b[2] || e.Reason != OnlyBackend {
		t.Errorf("got %+v", e)
	}
	e = r.Explain(&Request{Now: now, Pool: p, Model: "m", Tried: []*backends.Backend{b[2]}})
	if e.Err == nil || e.Backend != nil || e.Candidates[2].Excluded != "failed this request" {
		t.Errorf("with everybody out: got %+v", e)
	}
}
