package main

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/feedback/advice"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// A small world from a bad start: the page says that it is recognised, and what it brings.
func TestCompare(t *testing.T) {
	w := world{
		name: "small", kvTokens: 60_000, runs: 2, starts: []start{asUsual, short},
		asked: func(string) (*workload.Workload, error) {
			c := workload.DefaultDocsConfig()
			c.Documents, c.DocumentTokens, c.Rate, c.Duration, c.OutputMean = 300, 1000, 10, 150*time.Second, 20
			inner, err := c.Workload()
			play := inner.Play
			inner.Play = func(seed uint64) workload.Source { return &headed{play(seed), workload.Segment{ID: 1, Tokens: 512}} }
			return inner, err
		},
	}
	c, err := w.compare(t.Context(), "", 0, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	writeMarkdown(&page, []*trial{c}, 0)
	for _, want := range []string{"\n2 of 2 hold.\n", "\n| small | as usual | ", "\n| small | `prefix_length` 1,024 | ", " | **4,096** | ", "| 1500 | +"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, &page)
		}
	}
	bad := c.starts[1]
	if gain := bad.after.hits - bad.before.hits; gain < .1 || math.Abs(gain-bad.advice.Change.HitRate.Estimate) > .1 {
		t.Errorf("%.3f more hits, foretold %+v", gain, bad.advice.Change.HitRate)
	}
}

func TestBest(t *testing.T) {
	all := []tried{
		{1024, 128, figures{.60, 100 * time.Millisecond}},
		{2048, 128, figures{.805, 120 * time.Millisecond}},
		{4096, 128, figures{.795, 110 * time.Millisecond}},
		{8192, 128, figures{.81, 140 * time.Millisecond}},
		{1024, 4, figures{.95, 160 * time.Millisecond}}, // too slow to be considered
	}
	if got := best(all); got != all[1] {
		t.Errorf("the best is %+v", got)
	}
	j := judged{best: all[1], after: figures{.796, 125 * time.Millisecond}}
	if !j.holds() {
		t.Error("0.9 points and 5 % are too much")
	}
	if j.after.hits = .79; j.holds() {
		t.Error("1.5 points are not too much")
	}
}

// Worlds have names of their own, fleets that can be, and starts.
func TestWorlds(t *testing.T) {
	names := make(map[string]bool)
	for _, w := range worlds() {
		if names[w.name] || len(w.starts) == 0 {
			t.Errorf("%s: %d starts", w.name, len(w.starts))
		}
		names[w.name] = true
		for _, s := range w.starts {
			c := w.fleet(w.config(s), 1)
			if err := errors.Join(c.Validate(), c.Engine.Validate(), c.Router.Validate()); err != nil {
				t.Errorf("%s, %s: %v", w.name, s.name, err)
			}
		}
	}
	if _, err := recorded(workload.KindWeka, "none", 1)(""); err == nil || !strings.Contains(err.Error(), tracesVariable) {
		t.Errorf("no directory: %v", err)
	}
}

func TestWords(t *testing.T) {
	for n, want := range map[int]string{4: "4", 1024: "1,024", 1 << 20: "1,048,576"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is written %s", n, got)
		}
	}
	curve := advice.Curve{Knob: advice.PrefixLength, Present: advice.Value{Number: 1 << 20}, Advised: advice.Value{Number: 4096}, Verdict: advice.Keep}
	j := judged{advice: &advice.Advice{Curves: []advice.Curve{curve}, Present: router.DefaultConfig()}}
	if got := j.advised(advice.PrefixLength); got != "keep; 4,096 would do" {
		t.Errorf("a smaller value that would do: %s", got)
	}
	j.advice.TooLittle = "too little"
	if got := j.advised(advice.PrefixLength); got != "too little" {
		t.Errorf("no advice: %s", got)
	}
}
