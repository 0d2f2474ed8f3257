package main

import (
	"fmt"
	"math"

	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/router"
)

// relation is what must hold between figures of some worlds, each by itself.
type relation struct {
	claim  string
	worlds []string
	// figure is what is compared with the bounds, in unit.
	figure      func(all map[string]results, world string) float64
	unit        string
	least, most float64
}

// unbounded is no bound on that side.
var unbounded = math.Inf(1) //nolint:gochecknoglobals // a constant

// relations are the targets, one a line; those about each of our strategies are written
// once.
func relations() []relation {
	const oracle, longest = string(replay.Oracle), string(replay.LongestMatch)
	stated := []string{"conversation ×0.8", "conversation ×1.1", "conversation ×1.4", "docs 3.5/s", "docs 8.8/s", "chat 17/s", "weka"}
	var unstated []string
	for _, world := range stated {
		unstated = append(unstated, world+", capacity unstated")
	}
	slow, four := "docs 3.5/s, 0.25 s overhead", ", 4 routers"
	all := []relation{
		{"LEAST_EXPECTED_TTFT beside ORACLE, the worst of P50, P90 and mean", stated, slower(router.LeastExpectedTTFT, oracle), "%", -unbounded, 8},
		{"the same where engines do not state their capacity", unstated, slower(router.LeastExpectedTTFT, oracle), "%", -unbounded, 15},
		{"PREFIX_AWARE's hit rate below that of the best", stated, behind(router.PrefixAware), "points", -unbounded, 1.5},
		{"PREFIX_AWARE's P90 beside LEAST_EXPECTED_TTFT's", stated, later(router.PrefixAware, router.LeastExpectedTTFT, .9), "%", -unbounded, 8},
		{"PREFIX_AWARE's P90 beside LONGEST_MATCH's", stated, later(router.PrefixAware, longest, .9), "%", -unbounded, 0},
		{"PREFIX_AWARE's P90 beside LEAST_OUTSTANDING_REQUESTS'", stated, later(router.PrefixAware, router.LeastOutstanding, .9), "%", -unbounded, 0},
		{"RANDOM's hit rate", []string{"docs 3.5/s"}, hits(router.Random), "%", 23, 25},
		{"RANDOM's hit rate", []string{"chat 17/s"}, hits(router.Random), "%", 27, 31},
	}
	for _, world := range []string{"docs 8.8/s", "docs, 56 users", "docs, 112 users"} {
		all = append(all, relation{
			"PREFIX_AWARE's hits beside those with threshold 128",
			[]string{world + ", threshold 16", world + ", threshold 8"},
			against(router.PrefixAware, world), "points", -3, unbounded,
		})
	}
	for _, s := range both {
		all = append(
			all,
			relation{s + "'s hit rate", []string{"docs 3.5/s"}, hits(s), "%", 81, unbounded},
			relation{s + "'s smallest share", []string{"docs 3.5/s"}, share(s, false), "%", 13.0, unbounded},
			relation{s + "'s largest share", []string{"docs 3.5/s"}, share(s, true), "%", -unbounded, 15.7},
			relation{s + "'s P50 beside RANDOM's", []string{slow}, later(s, router.Random, .5), "%", -unbounded, -75},
			relation{s + "'s P90 beside RANDOM's", []string{slow}, later(s, router.Random, .9), "%", -unbounded, -37},
			relation{s + "'s hit rate", []string{"chat 17/s"}, hits(s), "%", 81.5, unbounded},
			relation{s + "'s P90 beside LEAST_OUTSTANDING_REQUESTS'", []string{"head 5/s", "head 20/s"}, later(s, router.LeastOutstanding, .9), "%", -unbounded, 5},
			relation{s + "'s smallest share", []string{"head 5/s", "head 20/s"}, share(s, false), "%", 8, unbounded},
		)
		for _, world := range []string{"docs 8.8/s", "conversation ×1.1", "chat 17/s"} {
			all = append(
				all,
				relation{s + "'s hits beside those with one router", []string{world + four}, against(s, world), "points", -0.5, unbounded},
				relation{s + "'s P90 beside that with one router", []string{world + four}, laterThan(s, world, .9), "%", -unbounded, 10},
			)
		}
	}
	return all
}

// verdict is a relation in one world.
type verdict struct {
	claim, world, figure, target string
	holds                        bool
}

// judge says of every relation whether it holds in each of its worlds that was played.
func judge(all []relation, played map[string]results) []verdict {
	var verdicts []verdict
	for _, r := range all {
		for _, world := range r.worlds {
			if played[world] == nil {
				continue
			}
			figure := r.figure(played, world)
			verdicts = append(verdicts, verdict{
				claim: r.claim, world: world, figure: fmt.Sprintf("%.2f %s", figure, r.unit), target: r.target(),
				holds: figure >= r.least && figure <= r.most,
			})
		}
	}
	return verdicts
}

// target writes the bounds.
func (r relation) target() string {
	switch {
	case math.IsInf(r.least, -1):
		return fmt.Sprintf("≤ %v %s", r.most, r.unit)
	case math.IsInf(r.most, 1):
		return fmt.Sprintf("≥ %v %s", r.least, r.unit)
	}
	return fmt.Sprintf("%v…%v %s", r.least, r.most, r.unit)
}
