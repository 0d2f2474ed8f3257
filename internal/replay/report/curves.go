package report

import (
	"math"
	"time"

	"github.com/warmroute/warmroute/internal/replay"
)

// ttftCurve is the time to first token at equally spaced quantiles, in seconds.
func ttftCurve(r *replay.Result) []float64 {
	if len(r.TTFTs) == 0 {
		return nil
	}
	curve := make([]float64, quantiles+1)
	for i := range curve {
		curve[i] = r.Quantile(float64(i) / quantiles).Seconds()
	}
	return curve
}

// arrivals is until when requests arrived.
func arrivals(r *replay.Result) time.Duration {
	var last time.Duration
	for _, s := range r.Samples {
		last = max(last, s.At)
	}
	return last
}

// hitRateCurve is the hit rate of requests by the time at which they arrived, up to length.
func hitRateCurve(r *replay.Result, length time.Duration) []float64 {
	if len(r.Samples) == 0 {
		return nil
	}
	var prompt, cached [windows]float64
	for _, s := range r.Samples {
		i := min(int(windows*s.At/max(length, 1)), windows-1)
		prompt[i] += float64(s.Prompt)
		cached[i] += float64(s.Cached)
	}
	curve := make([]float64, windows)
	for i := range curve {
		curve[i] = cached[i] / prompt[i]
		if prompt[i] == 0 {
			curve[i] = math.NaN()
		}
	}
	return curve
}

// shares are the parts of a whole that counts make up, each 0 where there is no whole.
func shares(counts []int) []float64 {
	whole := 0
	for _, n := range counts {
		whole += n
	}
	parts := make([]float64, len(counts))
	for i, n := range counts {
		parts[i] = float64(n) / float64(max(whole, 1))
	}
	return parts
}
