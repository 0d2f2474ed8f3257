package main

import "math"

// A figure is of one world, in percent or percentage points.
type figure = func(all map[string]results, world string) float64

// hits is a strategy's hit rate.
func hits(strategy string) figure {
	return func(all map[string]results, world string) float64 { return 100 * all[world][strategy].HitRate() }
}

// behind is by how many points a strategy's hit rate is below the best.
func behind(strategy string) figure {
	return func(all map[string]results, world string) float64 {
		best := 0.0
		for _, r := range all[world] {
			best = max(best, r.HitRate())
		}
		return 100 * (best - all[world][strategy].HitRate())
	}
}

// against is by how many points a strategy's hit rate is above what it is in another world;
// not a number where that was not played.
func against(strategy, other string) figure {
	return func(all map[string]results, world string) float64 {
		if all[other] == nil {
			return math.NaN()
		}
		return 100 * (all[world][strategy].HitRate() - all[other][strategy].HitRate())
	}
}

// laterThan is by how much a quantile of a strategy's time to first token is above what it
// is in another world; not a number where that was not played.
func laterThan(strategy, other string, quantile float64) figure {
	return func(all map[string]results, world string) float64 {
		if all[other] == nil {
			return math.NaN()
		}
		return above(all[world][strategy].Quantile(quantile).Seconds(), all[other][strategy].Quantile(quantile).Seconds())
	}
}

// share is the smallest or the largest part of the requests that a backend gets.
func share(strategy string, largest bool) figure {
	return func(all map[string]results, world string) float64 {
		least, most := all[world][strategy].Shares()
		if largest {
			return 100 * most
		}
		return 100 * least
	}
}

// later is by how much a quantile of a strategy's time to first token is above another's.
func later(strategy, other string, quantile float64) figure {
	return func(all map[string]results, world string) float64 {
		mine, theirs := all[world][strategy], all[world][other]
		return above(mine.Quantile(quantile).Seconds(), theirs.Quantile(quantile).Seconds())
	}
}

// slower is by how much the worst of P50, P90 and mean time to first token of a strategy is
// above another's.
func slower(strategy, other string) figure {
	return func(all map[string]results, world string) float64 {
		mine, theirs := all[world][strategy], all[world][other]
		worst := above(mine.Mean().Seconds(), theirs.Mean().Seconds())
		for _, q := range []float64{.5, .9} {
			worst = max(worst, above(mine.Quantile(q).Seconds(), theirs.Quantile(q).Seconds()))
		}
		return worst
	}
}

func above(a, b float64) float64 { return 100 * (a/b - 1) }
