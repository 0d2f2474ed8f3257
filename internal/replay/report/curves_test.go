package report

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warmroute/warmroute/internal/replay"
)

func TestTTFTCurve(t *testing.T) {
	r := result(100*time.Millisecond, 800, 0, 960, 640)
	curve := ttftCurve(r)
	if len(curve) != quantiles+1 {
		t.Fatalf("%d points", len(curve))
	}
	for part, want := range map[float64]float64{0: .1, .24: .1, .25: .2, .5: .4, .75: .8, 1: .8} {
		if got := curve[int(part*quantiles)]; got != want {
			t.Errorf("at %v: %v s, want %v s", part, got, want)
		}
	}
	if got := ttftCurve(&replay.Result{}); got != nil {
		t.Errorf("no answers: %v", got)
	}
}

func TestHitRateCurve(t *testing.T) {
	r := result(100*time.Millisecond, 800, 0, 960, 640)
	r.Samples = append(r.Samples, replay.Sample{At: r.Duration, Prompt: 3000, Cached: 1000}) // the last window includes its end
	want := make([]float64, windows)
	for i := range want {
		want[i] = math.NaN()
	}
	want[0], want[15], want[30], want[45], want[59] = .8, 0, .96, .64, 1./3
	if diff := cmp.Diff(want, hitRateCurve(r, r.Duration), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("hit rates (-want +got):\n%s", diff)
	}
	if got := hitRateCurve(&replay.Result{}, 0); got != nil {
		t.Errorf("no requests: %v", got)
	}
	// All at once, or one alone.
	at := time.Second
	if got := hitRateCurve(&replay.Result{Samples: []replay.Sample{{At: at, Prompt: 4, Cached: 1}}}, at); got[windows-1] != .25 {
		t.Errorf("one request: %v", got)
	}
}

// What comes after the last arrival is of no interest to plots over time.
func TestArrivals(t *testing.T) {
	if got := arrivals(result(time.Second, 0, 0, 0)); got != 50*time.Second {
		t.Errorf("requests arrived for %v", got)
	}
}

func TestShares(t *testing.T) {
	if diff := cmp.Diff([]float64{.75, .25, 0}, shares([]int{3, 1, 0})); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float64{0, 0}, shares([]int{0, 0})); diff != "" {
		t.Errorf("shares of nothing (-want +got):\n%s", diff)
	}
}
