package advice

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/warmroute/warmroute/internal/replay"
)

const (
	// fits is how often the engine is fitted at most, and fitted how near its answers come then, as
	// a part of what a token takes.
	fits   = 3
	fitted = 0.02
)

// fit has the modelled engine take as long for a token of an answer as those of the pool do, in the
// median, with the load that they have: how long a step takes that does nothing else shows nowhere
// where they always prefill or decode for others too. It plays the present world.
func (m *making) fit(ctx context.Context) error {
	if err := m.play(ctx, m.present); err != nil {
		return err
	}
	want, ok := m.window.quantile(.5, stepTime)
	step, got := m.engine.Profile.StepFloor.Seconds(), m.find(m.present).tokenTime
	lastStep, lastGot := 0., 0.
	for range fits {
		if !ok || got == 0 || math.Abs(got/want-1) < fitted {
			return nil
		}
		next := step * want / got
		if lastStep > 0 && got != lastGot { // where a line through the last two meets it
			next = step + (want-got)*(step-lastStep)/(got-lastGot)
		}
		next = min(max(next, fastestStep.Seconds(), step/2), slowestStep.Seconds(), step*2)
		if next == step {
			return nil
		}
		lastStep, lastGot, step = step, got, next
		m.engine = m.pool.engine(m.window, step)
		m.forget()
		if err := m.play(ctx, m.present); err != nil {
			return err
		}
		got = m.find(m.present).tokenTime
	}
	return nil
}

// tokenTime is how long a token of an answer took, in seconds, in the median; 0 where there were too few.
func tokenTime(samples []replay.Sample) float64 {
	var all []float64
	for i := range samples {
		s := &samples[i]
		if took, ok := perToken(s.Lasted, s.TTFT, s.Output); ok {
			all = append(all, took)
		}
	}
	if len(all) < minSamples {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// seconds is a duration of so many.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
