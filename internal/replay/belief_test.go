//go:build !race

// Hours of a fleet in virtual time, in one goroutine: the race detector would make minutes
// of seconds and have nothing to see.

package replay

import (
	"slices"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

func TestBelievedCapacity(t *testing.T) {
	c, d := beliefConfig()
	t.Log("              ", Header)
	var exact *Result
	cases := []struct {
		name   string
		stated float64
		open   bool
		p90    float64 // relative to exact
	}{
		{"exact", 1, false, 1.08},
		{"a third", 1. / 3, false, 1.15},
		{"3 x", 3, false, 1.15},
		{"unstated", 0, false, 1.15},
		{"3 x, open", 3, true, 0},
	}
	var plays []*play
	for _, tc := range cases {
		c.StatedCapacity, c.NoFeedback = tc.stated, tc.open
		plays = append(plays, &play{name: tc.name, config: c, source: func() workload.Source { return workload.NewDocs(d, c.Seed) }})
	}
	playAll(t, plays...)
	for i, tc := range cases {
		r := plays[i].result
		t.Logf("%-13s %s", tc.name, r.Row())
		t.Logf("              bounds %v", r.Bounds)
		// What is learned is learned by the second half.
		bounds := r.Bounds
		r = r.Window(d.Duration/2, d.Duration)
		t.Logf("  second half %s", r.Row())
		if exact == nil {
			exact = r
		}
		if tc.stated < 1 && tc.stated > 0 && slices.Min(bounds) < 5000 {
			t.Errorf("%s: bounds %v have not grown to what engines hold", tc.name, bounds)
		}
		if tc.open {
			continue
		}
		if got, want := r.HitRate(), exact.HitRate(); got < want-0.02 {
			t.Errorf("%s: hit rate %.4f, want %.4f less 2 points at most", tc.name, got, want)
		}
		if got, want := r.Quantile(.9).Seconds(), exact.Quantile(.9).Seconds(); got > want*tc.p90 {
			t.Errorf("%s: P90 %.3f s, want %.3f s × %.2f at most", tc.name, got, want, tc.p90)
		}
		if got, want := r.Mean().Seconds(), exact.Mean().Seconds(); got > want*tc.p90 {
			t.Errorf("%s: mean %.3f s, want %.3f s × %.2f at most", tc.name, got, want, tc.p90)
		}
	}
}

// TestRecoveryUnderLoad: one backend loses its cache at mid-run, with and without
// per-request numbers.
func TestRecoveryUnderLoad(t *testing.T) {
	const at = 10 * time.Minute
	c, d := beliefConfig()
	d.Duration = 14 * time.Minute
	source := func() workload.Source { return workload.NewDocs(d, c.Seed) }
	plays := []*play{{name: "undisturbed", config: c, source: source}}
	c.Audit, c.AuditEvery = true, time.Hour
	c.Faults = []Fault{{At: at, Backend: 2, Kind: LoseCache}}
	cases := []struct {
		name             string
		unreported, open bool
		answers          int
	}{
		{"reported", false, false, 10}, // some were on their way together
		{"unreported", true, false, watched},
		{"no feedback", false, true, 0},
	}
	for _, tc := range cases {
		c.Unreported, c.NoFeedback = tc.unreported, tc.open
		plays = append(plays, &play{name: tc.name, config: c, source: source})
	}
	playAll(t, plays...)
	calm := plays[0].result.Window(at, at+3*time.Minute)
	t.Logf("%-13s P90 %.3f s", "undisturbed", calm.Quantile(.9).Seconds())
	for i, tc := range cases {
		r := plays[i+1].result
		after, recovery := r.Window(at, at+3*time.Minute), r.Recoveries[0]
		left, mended := recovery.Gone, time.Duration(0) // when nine tenths were
		for _, a := range recovery.Answers {
			if left = a.Gone; mended == 0 && left <= recovery.Gone/10 {
				mended = a.At - at
			}
		}
		t.Logf("%-13s P90 %.3f s; %d entries untrue, after %v a tenth, after %d answers %d; %s", tc.name,
			after.Quantile(.9).Seconds(), recovery.Gone, mended.Round(time.Second/10), len(recovery.Answers), left, r.Events())
		if tc.open {
			if recovery.Healed {
				t.Error("healed without feedback")
			}
			continue
		}
		// Scraped counters tell of a window, not of a moment: what was used in it before the
		// loss stays.
		if left > 0 && (!tc.unreported || left > recovery.Gone/10) || len(recovery.Answers) > tc.answers {
			t.Errorf("%s: healed %v after %d answers: %v", tc.name, recovery.Healed, len(recovery.Answers), recovery.Answers)
		}
		if got, want := after.Quantile(.9).Seconds(), calm.Quantile(.9).Seconds(); got > 1.10*want {
			t.Errorf("%s: P90 of the next three minutes is %.3f s, undisturbed %.3f s", tc.name, got, want)
		}
		if tc.unreported && (r.MovesByCause()["unreported"] == 0 || len(r.Silent) != c.Backends) {
			t.Errorf("unreported: moves %v, silent %v", r.MovesByCause(), r.Silent)
		}
	}
}
