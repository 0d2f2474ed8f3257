package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/router"
)

// failing is a run of a thousand requests with some errors and a mean time to first token.
func failing(strategy, value string, errors int, mean time.Duration) Run {
	run := Summarize(strategy, result(mean, 500))
	run.Row.Requests, run.Row.Errors = 1000, errors
	if value != "" {
		run.Row.SweepKey, run.Row.SweepValue = "w", Value(value)
	}
	return run
}

// Who turns nearly everybody away is fast, and not the best.
func TestErrorsCostTheRank(t *testing.T) {
	for _, tc := range []struct {
		name      string
		sweep     Sweep
		runs      []Run
		best, out string
	}{
		{
			name: "rejecting",
			runs: []Run{failing(router.Random, "", 0, 9*time.Second), failing(router.PrefixAware, "", 973, time.Second)},
			best: "The best strategy by mean TTFT is RANDOM: 9.000 s",
			out:  "Left out of that, with over 1 point more errors than the run with the fewest: PREFIX_AWARE (97.3 % errors).",
		},
		{
			name: "within a point",
			runs: []Run{failing(router.Random, "", 100, 9*time.Second), failing(router.PrefixAware, "", 110, time.Second)},
			best: "The best strategy by mean TTFT is PREFIX_AWARE: 1.000 s",
		},
		{
			name: "yardsticks do not set the least",
			runs: []Run{failing(router.Random, "", 100, 9*time.Second), failing(string(replay.Oracle), "", 0, time.Second)},
			best: "The best strategy by mean TTFT is RANDOM: 9.000 s",
		},
		{
			name:  "a setting",
			sweep: Sweep{Key: "w", Setting: true},
			runs:  []Run{failing(router.PrefixAware, "1", 973, time.Second), failing(router.PrefixAware, "2", 5, 2*time.Second)},
			best:  "The best strategy by mean TTFT is PREFIX_AWARE at w 2: 2.000 s",
			out:   "Left out of that, with over 1 point more errors than the run with the fewest: PREFIX_AWARE at w 1 (97.3 % errors).",
		},
		{
			name:  "a world",
			sweep: Sweep{Key: "w"},
			runs:  []Run{failing(router.Random, "1", 0, 9*time.Second), failing(router.PrefixAware, "1", 500, time.Second)},
			best:  "w 1: the best strategy by mean TTFT is RANDOM: 9.000 s",
			out:   "w 1: left out of that, with over 1 point more errors than the run with the fewest: PREFIX_AWARE (50.0 % errors).",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lines := (&Report{Sweep: tc.sweep, Runs: tc.runs}).remarks()
			if !strings.HasPrefix(lines[0], tc.best) {
				t.Errorf("%q, want %q", lines[0], tc.best)
			}
			if diff := cmp.Diff(tc.out, strings.Join(lines[1:], "\n")); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
		})
	}
}
