package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/warmroute/warmroute/internal/comparison"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// figures are what a fleet does, the mean over all seeds.
type figures struct {
	hits float64 // 0..1
	p90  time.Duration
}

// tried is a value of a sweep.
type tried struct {
	prefixLength, threshold int
	figures
}

// fleet is a world whose truth is found out, each setting once.
type fleet struct {
	world world
	asked *workload.Workload
	known map[router.Config]figures
}

// play returns what the fleet does with some settings.
func (f *fleet) play(ctx context.Context, configs ...router.Config) ([]figures, error) {
	runs := max(f.world.runs, 1)
	var jobs []comparison.Job
	var todo []router.Config
	for _, c := range configs {
		if _, ok := f.known[c]; ok || slices.Contains(todo, c) {
			continue
		}
		todo = append(todo, c)
		for seed := range runs {
			jobs = append(jobs, comparison.Job{Workload: f.asked, Fleet: f.world.fleet(c, uint64(seed+1))}) //nolint:gosec // a count
		}
	}
	played := make([]figures, len(jobs))
	err := comparison.Run(ctx, jobs, func(int) {}, func(i int, r *replay.Result) {
		played[i] = figures{r.HitRate(), r.Quantile(.9)}
	})
	if err != nil {
		return nil, err
	}
	for i, c := range todo {
		f.known[c] = average(played[i*runs : (i+1)*runs])
	}
	var all []figures
	for _, c := range configs {
		all = append(all, f.known[c])
	}
	return all, nil
}

func average(all []figures) figures {
	var sum figures
	for _, f := range all {
		sum.hits += f.hits
		sum.p90 += f.p90
	}
	return figures{sum.hits / float64(len(all)), sum.p90 / time.Duration(len(all))}
}

// sound is how many times the lowest P90 is out of the question, as for advice.
const sound = 1.5

// sweep tries every prefix_length and every concurrency_threshold, each with the other as
// advised, and returns the best: of those that are sound and within a point of the best hit rate
// of these, the one with the lowest P90.
func (f *fleet) sweep(ctx context.Context, advised router.Config) (tried, error) {
	var configs []router.Config
	for length := router.MinPrefixLength; length <= router.MaxPrefixLength; length *= 2 {
		c := advised
		c.PrefixLength = length
		configs = append(configs, c)
	}
	for threshold := 4; threshold <= router.MaxConcurrencyThreshold; threshold *= 2 {
		c := advised
		c.ConcurrencyThreshold = threshold
		configs = append(configs, c)
	}
	played, err := f.play(ctx, configs...)
	if err != nil {
		return tried{}, err
	}
	var all []tried
	for i, c := range configs {
		all = append(all, tried{c.HashLength(), c.ConcurrencyThreshold, played[i]})
	}
	return best(all), nil
}

func best(all []tried) tried {
	faster := func(a, b tried) int { return cmp.Compare(a.p90, b.p90) }
	lowest := slices.MinFunc(all, faster).p90.Seconds()
	all = slices.DeleteFunc(slices.Clone(all), func(t tried) bool { return t.p90.Seconds() > sound*lowest })
	most := slices.MaxFunc(all, func(a, b tried) int { return cmp.Compare(a.hits, b.hits) }).hits
	all = slices.DeleteFunc(all, func(t tried) bool { return t.hits < most-.01 })
	return slices.MinFunc(all, faster)
}
