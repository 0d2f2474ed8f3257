package tuning

import (
	"fmt"
	"math"
	"time"
)

// different reports whether what is delivered is of another traffic than before.
func different(before, after Delivered) bool {
	a, b := float64(before.P90+leastRise), float64(after.P90+leastRise)
	return math.Abs(before.HitRate-after.HitRate) > shiftedHits+certain*before.with(after) || a > shiftedP90*b || b > shiftedP90*a
}

// harm says what is worse, empty where nothing is. Where it is early, only what is certain counts.
func harm(before, after Delivered, sooner bool) string {
	strict, errors := 1.0, 0.0
	if sooner {
		strict, errors = certain, certain*before.with(after)
	}
	switch {
	case after.Unserved-before.Unserved > strict*riseOfUnserved:
		return fmt.Sprintf("%.1f %% of the requests were not served, and %.1f %% before", 100*after.Unserved, 100*before.Unserved)
	case after.Answers >= minAnswers && before.HitRate-after.HitRate > fallOfHits+errors:
		return fmt.Sprintf("the hit rate fell from %.1f %% to %.1f %%", 100*before.HitRate, 100*after.HitRate)
	case before.P90 > 0 && float64(after.P90) > float64(before.P90)*(1+strict*riseOfP90)+float64(leastRise):
		return fmt.Sprintf("the P90 of the time to first token rose from %v to %v", brief(before.P90), brief(after.P90))
	}
	return ""
}

// with is the standard error of the difference of two hit rates.
func (d Delivered) with(o Delivered) float64 { return max(d.Error, o.Error) * 1.41 }

func brief(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}
