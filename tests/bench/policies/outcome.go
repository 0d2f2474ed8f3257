package main

import (
	"slices"

	"github.com/warmroute/warmroute/internal/replay"
)

// outcome is what came of one strategy in one world: of the runs with all seeds together,
// and of each.
type outcome struct {
	*replay.Result

	bySeed []*replay.Result
}

// together makes one outcome of the runs with several seeds: the requests of all of them,
// as if they were of one run. What is not of requests is left out where there are several.
func together(runs []*replay.Result) *outcome {
	if len(runs) == 1 {
		return &outcome{runs[0], runs}
	}
	sum := &replay.Result{Backends: make([]int, len(runs[0].Backends))}
	for _, r := range runs {
		sum.Requests += r.Requests
		sum.Overflow += r.Overflow
		sum.Samples = append(sum.Samples, r.Samples...)
		sum.TTFTs = append(sum.TTFTs, r.TTFTs...)
		for i, n := range r.Backends {
			sum.Backends[i] += n
		}
	}
	slices.Sort(sum.TTFTs)
	return &outcome{sum, runs}
}
