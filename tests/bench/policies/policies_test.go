package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/comparison"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// tinyWorld is half a minute of a few documents.
func tinyWorld(name string) world {
	return world{
		name: name, kvTokens: 40_000, stated: 0.5, threshold: 8, overhead: time.Millisecond,
		asked: func(string) (*workload.Workload, error) {
			c := workload.DefaultDocsConfig()
			c.Documents, c.DocumentTokens, c.Duration = 20, 1000, 30*time.Second
			return c.Workload()
		},
	}
}

func TestPlay(t *testing.T) {
	chosen := []world{tinyWorld("small"), tinyWorld("again")}
	all, err := play(t.Context(), chosen, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all["small"][router.PrefixAware].Samples, all["again"][router.PrefixAware].Samples); diff != "" {
		t.Errorf("two worlds alike differ:\n%s", diff)
	}
	verdicts := judge([]relation{
		{"hits", []string{"small", "absent"}, hits(router.PrefixAware), "%", 0, 100},
		{"hits all", []string{"again"}, hits(router.PrefixAware), "%", 101, unbounded},
	}, all)
	var page, table bytes.Buffer
	writeMarkdown(&page, chosen, all, verdicts)
	for _, want := range []string{
		"\n## small\n\n40000 tokens of KV each, stated × 0.5; 1ms of overhead a request; `concurrency_threshold: 8`.\n",
		"\n| `LONGEST_MATCH` | ", "\n1 of 2 hold.\n", "| hits | small | ", " | 0…100 % | holds |\n", " | ≥ 101 % | **does not hold** |\n",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, &page)
		}
	}
	if n := strings.Count(page.String(), "\n| `"); n != 2*len(comparison.Strategies()) {
		t.Errorf("%d rows of strategies", n)
	}
	if err := csvReport(chosen, all).CSV(&table); err != nil || strings.Count(table.String(), "\nworld,small,") != len(comparison.Strategies()) {
		t.Errorf("%v in\n%s", err, &table)
	}
}

// Worlds have names of their own, and every relation is about worlds that there are.
func TestWorldsAndRelations(t *testing.T) {
	var names []string
	for _, w := range worlds() {
		if slices.Contains(names, w.name) {
			t.Errorf("two worlds are %q", w.name)
		}
		names = append(names, w.name)
		c := w.fleet(1)
		if err := errors.Join(c.Validate(), c.Engine.Validate(), c.Router.Validate()); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
	for _, r := range relations() {
		if len(r.worlds) == 0 || math.IsInf(r.least, -1) && math.IsInf(r.most, 1) {
			t.Errorf("%q says nothing", r.claim)
		}
		for _, name := range r.worlds {
			if !slices.Contains(names, name) {
				t.Errorf("%q is about %q, which is no world", r.claim, name)
			}
		}
	}
}

// answered is a result with times to first token in milliseconds, and one sample that
// hits a part of 100 tokens.
func answered(cached int, ttfts ...time.Duration) *outcome {
	r := &replay.Result{Backends: []int{3, 1}, Samples: []replay.Sample{{Prompt: 100, Cached: cached}}}
	for _, t := range ttfts {
		r.TTFTs = append(r.TTFTs, t*time.Millisecond)
	}
	return together([]*replay.Result{r})
}

func TestFigures(t *testing.T) {
	all := map[string]results{
		"a": {"X": answered(80, 10, 20, 30), "Y": answered(90, 10, 10, 40)},
		"b": {"X": answered(70, 10)},
	}
	for _, tc := range []struct {
		name   string
		figure figure
		want   float64
	}{
		{"hits", hits("X"), 80},
		{"behind the best", behind("X"), 10},
		{"the best", behind("Y"), 0},
		{"against another world", against("X", "b"), 10},
		{"against none", against("X", "c"), math.NaN()},
		{"P50 against another world", laterThan("X", "b", .5), 100},
		{"P50 against none", laterThan("X", "c", .5), math.NaN()},
		{"smallest share", share("X", false), 25},
		{"largest share", share("X", true), 75},
		{"P50", later("X", "Y", .5), 100},
		{"P90", later("X", "Y", .9), -25},
		{"worst", slower("X", "Y"), 100},
	} {
		if got := tc.figure(all, "a"); math.Abs(got-tc.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	// What cannot be compared does not hold.
	if v := judge([]relation{{"x", []string{"a"}, against("X", "c"), "%", -3, unbounded}}, all); v[0].holds {
		t.Errorf("%+v", v)
	}
}

func TestRunFails(t *testing.T) {
	if err := run(t.Context(), "", "(", "", nil); err == nil || !strings.Contains(err.Error(), "-only") {
		t.Errorf("a pattern that is none: %v", err)
	}
	if err := run(t.Context(), "", "^conversation", "", nil); err == nil || !strings.Contains(err.Error(), tracesVariable) {
		t.Errorf("no traces: %v", err)
	}
	if err := run(t.Context(), "", "^conversation", t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "mooncake") {
		t.Errorf("no trace: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, "", "^docs", "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A world of several seeds is played with each of them, and counts all their requests.
func TestSeedsTogether(t *testing.T) {
	w := tinyWorld("seeds")
	w.runs, w.only = 3, []string{router.PrefixAware}
	all, err := play(t.Context(), []world{w}, "")
	if err != nil {
		t.Fatal(err)
	}
	got := all["seeds"][router.PrefixAware]
	if len(got.bySeed) != 3 || got.bySeed[0].HitRate() == got.bySeed[1].HitRate() {
		t.Fatalf("%d runs, or two alike", len(got.bySeed))
	}
	requests, tokens, cached := 0, 0, 0
	for _, r := range got.bySeed {
		requests += r.Requests
		for _, s := range r.Samples {
			tokens += s.Prompt
			cached += s.Cached
		}
	}
	if got.Requests != requests || len(got.TTFTs) != requests || !slices.IsSorted(got.TTFTs) {
		t.Errorf("%d requests and %d times, want %d", got.Requests, len(got.TTFTs), requests)
	}
	if want := float64(cached) / float64(tokens); got.HitRate() != want {
		t.Errorf("hit rate %v, want %v", got.HitRate(), want)
	}
	var page, table bytes.Buffer
	writeMarkdown(&page, []world{w}, all, nil)
	if want := "; the requests of seeds 1 to 3 together.\n"; !strings.Contains(page.String(), want) {
		t.Errorf("no %q in\n%s", want, &page)
	}
	if err := csvReport([]world{w}, all).CSV(&table); err != nil || strings.Count(table.String(), "\nworld,seeds,") != 3 {
		t.Errorf("%v in\n%s", err, &table)
	}
}
