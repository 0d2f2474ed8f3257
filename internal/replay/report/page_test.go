package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/router"
)

func page(t *testing.T, r *Report) string {
	t.Helper()
	var out strings.Builder
	if err := r.HTML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// element is one element of a page.
type element struct {
	name   string
	attrs  map[string]string
	inside []string // the names of what it stands in
}

// elements takes a page apart. It fails where tags do not match.
func elements(t *testing.T, text string) (all []element, content string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.AutoClose = []string{"meta"}
	d.Strict = false
	var open []string
	var words strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, words.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attrs: make(map[string]string), inside: slices.Clone(open)}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			all = append(all, e)
			open = append(open, e.name)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			words.Write(token)
		}
	}
}

func count(all []element, holds func(element) bool) int {
	n := 0
	for _, e := range all {
		if holds(e) {
			n++
		}
	}
	return n
}

func TestPage(t *testing.T) {
	faulty := plain()
	faulty.Faults = []replay.Fault{{At: 50 * time.Second, Backend: 1, Kind: replay.Restart}}
	for _, tc := range []struct {
		name           string
		report         *Report
		figures, lines int
	}{
		// Two diagrams with a line for each run, two of points; a line in each sample of
		// the legend and the table.
		{"plain", plain(), 4, 2*3 + 3 + 3},
		{"faults", faulty, 4, 2*3 + 3 + 3},
		// Four diagrams over the values, then those for each of the two.
		{"sweep", swept("prefix_length", true), 4 + 2*4, 4*3 + 2*2*3 + 3 + 6},
		{"nothing", &Report{Title: "nothing"}, 0, 0},
	} {
		all, text := elements(t, page(t, tc.report))
		if got := count(all, func(e element) bool { return e.name == "figure" }); got != tc.figures {
			t.Errorf("%s: %d figures, want %d", tc.name, got, tc.figures)
		}
		if got := count(all, func(e element) bool { return e.name == "path" && e.attrs["class"] == "line" }); got != tc.lines {
			t.Errorf("%s: %d lines, want %d", tc.name, got, tc.lines)
		}
		for _, e := range all {
			switch {
			case e.name == "script" || e.attrs["src"] != "" || e.attrs["href"] != "":
				t.Errorf("%s: the page runs or loads something: %v", tc.name, e)
			case e.name == "path" && !strings.HasPrefix(e.attrs["d"], "M") || strings.ContainsAny(e.attrs["d"], "NIe"):
				t.Errorf("%s: a path is %q", tc.name, e.attrs["d"])
			case e.name == "path" && !slices.Contains(e.inside, "svg"):
				t.Errorf("%s: a path stands in %v", tc.name, e.inside)
			}
		}
		for _, want := range append(tc.report.remarks(), tc.report.Title) {
			if !strings.Contains(strings.ReplaceAll(text, "\u00a0", " "), want) {
				t.Errorf("%s: the page does not say %q", tc.name, want)
			}
		}
	}
}

func TestPageRules(t *testing.T) {
	r := plain()
	r.Faults = []replay.Fault{{At: 50 * time.Second, Backend: 1, Kind: replay.Restart}}
	if _, text := elements(t, page(t, r)); !strings.Contains(text, "restart of backend 1") {
		t.Error("the page does not show the fault")
	}
}

// Names of files and models are somebody else's words.
func TestPageEscapes(t *testing.T) {
	const hostile = `</title><script>alert(1)</script>"'&`
	r := swept(hostile, false)
	r.Title, r.Facts, r.Remarks = hostile, []string{hostile}, []string{hostile}
	r.Runs[0].Row.SweepValue, r.Runs[0].Row.Strategy = hostile, hostile
	all, text := elements(t, page(t, r))
	if n := count(all, func(e element) bool { return e.name == "script" }); n > 0 {
		t.Errorf("%d scripts", n)
	}
	if n := strings.Count(text, hostile); n < 8 {
		t.Errorf("the name is there %d times as it is", n)
	}
}

// A run without any answer still has a page.
func TestPageWithoutAnswers(t *testing.T) {
	r := &Report{Title: "none", Runs: []Run{Summarize(router.Random, &replay.Result{Requests: 3, Rejected: 3, Backends: []int{0, 0}})}}
	all, _ := elements(t, page(t, r))
	if got := count(all, func(e element) bool { return e.name == "figure" }); got != 3 {
		t.Errorf("%d figures, want all but the times", got)
	}
}

// The same report is the same page, whatever the machine.
func TestPageRepeats(t *testing.T) {
	first, second := page(t, swept("w", true)), page(t, swept("w", true))
	if first != second {
		t.Error("two pages of one report differ")
	}
}

// A run that is over within one window is a dot.
func TestLineOfOnePoint(t *testing.T) {
	var out strings.Builder
	p := newPlot(&out, "", standardFrame, axis{most: 1}, axis{most: 1})
	out.Reset()
	p.line(styleOf(router.Random), []float64{0, .5, 1}, []float64{math.NaN(), .5, math.NaN()})
	if want := `d="M301 142h2"`; !strings.Contains(out.String(), want) {
		t.Errorf("no %s in %s", want, out.String())
	}
	out.Reset()
	p.line(styleOf(router.Random), []float64{0, .5, 1}, []float64{0, math.NaN(), 1})
	if want := `d="M60 254L542 30"`; !strings.Contains(out.String(), want) {
		t.Errorf("no %s in %s", want, out.String())
	}
}

// A page of curves marks the values, loads nothing, and takes nothing for markup.
func TestCurvePage(t *testing.T) {
	page := CurvePage{Title: "<Advice>", Pools: []CurvePool{{
		Name: "Pool <p>", Facts: []string{"<facts>"}, Table: [][]string{{"setting"}, {"<b>"}}, Cautions: []string{"a < b"},
		Curves: []Curve{
			{Setting: "one", Values: []string{"1", "2"}, Present: 0, Advised: 1, HitRates: []float64{.1, .9}, Overflow: []float64{0, 0}, P50s: []float64{.1, .05}, P90s: []float64{1, .5}},
			{Setting: "two", Values: []string{"x"}, Present: 0, Advised: 0, HitRates: []float64{0}, Overflow: []float64{0}, P50s: []float64{0}, P90s: []float64{0}},
		},
	}}}
	var out strings.Builder
	if err := page.HTML(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for part, n := range map[string]int{"<figure>": 4, ">now</text>": 4, ">advised</text>": 2, "NaN": 0, "Inf": 0, "<script": 0, "<b>": 0, "<p>": 0, "<facts>": 0, "hit rate, one 2: 90.0 %": 1} {
		if got := strings.Count(text, part); got != n {
			t.Errorf("%d times %s, want %d", got, part, n)
		}
	}
	if !strings.Contains(text, "default-src &#39;none&#39;") {
		t.Error("the page may load something")
	}
}
