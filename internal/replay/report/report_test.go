package report

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/router"
)

var rewrite = flag.Bool("rewrite", false, "write the expected outputs in testdata anew")

// result is a run of a hundred seconds on two backends: four requests, of which the
// first hit parts of their 1,000 tokens of prompt, and whose answers took ttft, twice as
// long from one to the next.
func result(ttft time.Duration, cached ...int) *replay.Result {
	r := &replay.Result{Duration: 100 * time.Second, Backends: []int{3, 1}, Overflow: 1}
	for i, tokens := range cached {
		r.Requests++
		r.Answered++
		r.Samples = append(r.Samples, replay.Sample{
			At: time.Duration(i) * 25 * time.Second, TTFT: ttft << i, Backend: i / 3,
			Prompt: 1000, Cached: tokens, Expected: 500,
		})
		r.TTFTs = append(r.TTFTs, ttft<<i)
	}
	return r
}

// plain is a report of a product's strategy, a baseline and the oracle.
func plain() *Report {
	r := &Report{Title: "docs: 4 requests", Facts: []string{"2 backends", "seed 7"}, Remarks: []string{"Said by the caller."}}
	random := Summarize(router.Random, result(time.Second, 0, 0, 400, 0))
	random.Unanswered = Unanswered{Refused: 2, Aborted: 1}
	aware := Summarize(router.PrefixAware, result(100*time.Millisecond, 800, 0, 960, 640))
	oracle := Summarize(string(replay.Oracle), result(80*time.Millisecond, 800, 800, 960, 640))
	r.Runs = []Run{random, aware, oracle}
	for i := range r.Runs {
		r.Runs[i].Row.Seed = 7
	}
	return r
}

// swept is the same for two values of a key.
func swept(key string, setting bool) *Report {
	r := plain()
	slower := plain().Runs
	for i := range slower {
		r.Runs[i].Row.SweepKey, r.Runs[i].Row.SweepValue = key, "1024"
		slower[i].Row.SweepKey, slower[i].Row.SweepValue = key, "4096"
		slower[i].Row.TTFTMean *= 2
		slower[i].Row.TTFTP90 *= 2
	}
	r.Sweep = Sweep{Key: key, Setting: setting}
	r.Runs = append(r.Runs, slower...)
	return r
}

func TestOutputs(t *testing.T) {
	for _, tc := range []struct {
		file   string
		report *Report
		write  func(*Report, *strings.Builder) error
	}{
		{"plain.txt", plain(), func(r *Report, w *strings.Builder) error { return r.Table(w) }},
		{"plain.json", plain(), func(r *Report, w *strings.Builder) error { return r.JSON(w) }},
		{"plain.csv", plain(), func(r *Report, w *strings.Builder) error { return r.CSV(w) }},
		{"setting.txt", swept("prefix_length", true), func(r *Report, w *strings.Builder) error { return r.Table(w) }},
		{"world.txt", swept("load", false), func(r *Report, w *strings.Builder) error { return r.Table(w) }},
		{"world.json", swept("load", false), func(r *Report, w *strings.Builder) error { return r.JSON(w) }},
		{"world.csv", swept("load", false), func(r *Report, w *strings.Builder) error { return r.CSV(w) }},
		{"empty.json", &Report{}, func(r *Report, w *strings.Builder) error { return r.JSON(w) }},
	} {
		var got strings.Builder
		if err := tc.write(tc.report, &got); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", tc.file)
		if *rewrite {
			if err := os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.file, diff)
		}
	}
}

// What is the same in every run is said once.
func TestRemarksAlike(t *testing.T) {
	r := plain()
	for i := range r.Runs {
		r.Runs[i].Unanswered = Unanswered{Refused: 3, Rejected: 1}
	}
	want := []string{r.remarks()[0], "Every run: of 4 requests 3 were longer than an engine's KV cache, 1 found no backend.", "Said by the caller."}
	if diff := cmp.Diff(want, r.remarks()); diff != "" {
		t.Errorf("remarks (-want +got):\n%s", diff)
	}
}

func TestRemarksWithoutAnswers(t *testing.T) {
	r := &Report{Runs: []Run{Summarize(router.Random, &replay.Result{Requests: 3, Rejected: 3, Backends: []int{0}})}}
	want := []string{"RANDOM: of 3 requests 3 found no backend."}
	if diff := cmp.Diff(want, r.remarks()); diff != "" {
		t.Errorf("remarks (-want +got):\n%s", diff)
	}
}
