//go:build !race

// Hours of a fleet in virtual time, in one goroutine: the race detector would make minutes
// of seconds and have nothing to see.

package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// TestNoisyWorld: see docs/benchmarks/feedback.md.
func TestNoisyWorld(t *testing.T) {
	c, d := noisyConfig()
	plays := noisyPlays(c, d)
	playAll(t, plays...)
	closed, open := plays[0].result, plays[1].result
	t.Log("             ", Header)
	t.Log("feedback     ", closed.Row())
	t.Log("no feedback  ", open.Row())
	t.Log("feedback:", closed.Events())
	for _, r := range closed.Recoveries {
		t.Logf("%8v: %v of backend %d, %d entries untrue, none after %v and %d answers",
			r.At.Round(time.Second), r.Kind, r.Backend, r.Gone, r.Took.Round(time.Second/10), len(r.Answers))
	}
	if got := closed.DeliveredShare(); got < 0.95 || got > 1/0.95 {
		t.Errorf("delivered ÷ predicted is %.4f, want 0.95 at least", got)
	}
	if got := closed.Recall(); got < 0.95 {
		t.Errorf("recall is %.4f, want 0.95 at least", got)
	}
	// Counted request by request, nothing makes up for a request that was expected to
	// hit and did not: 2 % of requests diverge and 24 faults need their witnesses.
	if got := closed.Precision(); got < 0.91 {
		t.Errorf("precision is %.4f, want 0.91 at least", got)
	}
	harmless(t, closed, open)
	if len(closed.Recoveries) != closed.Requests/c.Noise.FaultEvery {
		t.Errorf("%d faults in %d requests", len(closed.Recoveries), closed.Requests)
	}
}

// TestNoisyWorlds: other seeds. An hour has about two false moves of a horizon, and chance
// makes none or four of them: they are counted over all.
func TestNoisyWorlds(t *testing.T) {
	var plays []*play
	for seed := range uint64(4) {
		c, d := noisyConfig()
		c.Seed = seed + 1
		plays = append(plays, noisyPlays(c, d)...)
	}
	playAll(t, plays...)
	moves, hours := 0, 0.0
	for i := 0; i < len(plays); i += 2 {
		moves += plays[i].result.FalseMoves()
		hours += plays[i].result.Duration.Hours()
	}
	if got := float64(moves) / hours; got > 3 {
		t.Errorf("%.1f false moves of a horizon an hour, want 3 at most", got)
	}
	t.Log("                   ", Header)
	for i := 0; i < len(plays); i += 2 {
		closed, open := plays[i], plays[i+1]
		t.Logf("%-19s %s", closed.name, closed.result.Row())
		t.Logf("%-19s %s", open.name, open.result.Row())
		harmless(t, closed.result, open.result)
	}
}

// noisyPlays are a run with feedback and one without.
func noisyPlays(c Config, d workload.DocsConfig) []*play {
	source := func() workload.Source { return workload.NewDocs(d, c.Seed) }
	closed := &play{name: fmt.Sprintf("seed %d", c.Seed), config: c, source: source}
	c.NoFeedback = true
	return []*play{closed, {name: closed.name + " no feedback", config: c, source: source}}
}

// harmless: what noise makes feedback believe costs less than what feedback finds out.
func harmless(t *testing.T, closed, open *Result) {
	t.Helper()
	if closed.HitRate() < open.HitRate()-0.01 {
		t.Errorf("hit rate %.4f, and %.4f without feedback", closed.HitRate(), open.HitRate())
	}
	if limit := open.Quantile(.9) + open.Quantile(.9)/50; closed.Quantile(.9) > limit {
		t.Errorf("P90 %v, and %v without feedback", closed.Quantile(.9), open.Quantile(.9))
	}
}
