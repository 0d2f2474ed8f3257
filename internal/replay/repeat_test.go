package replay

import (
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// TestRunsDoNotDependOnCores: a noisy world with faults and step times that vary, by every
// strategy and placement, one run after the other on one core, and then side by side on
// two. No run may feel another.
func TestRunsDoNotDependOnCores(t *testing.T) {
	c, d := noisyConfig()
	c.Backends, c.Noise.FaultEvery, c.Engine.Jitter, c.Audit = 3, 50, 0.05, false
	d.Documents, d.Rate, d.Duration = 150, 3, time.Minute
	on := func(cores int) []*play {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		plays := everyRule(c, func() workload.Source { return workload.NewDocs(d, c.Seed) })
		playAll(t, plays...)
		return plays
	}
	one, two := on(1), on(2)
	for i, p := range one {
		if p.result.Aborted == 0 || p.result.Foreign == 0 || p.result.Broken == 0 {
			t.Errorf("%s: too quiet a world: %s", p.name, p.result.Events())
		}
		if !reflect.DeepEqual(p.result, two[i].result) {
			t.Errorf("%s differs:\n%s\non one core:  %s\non two cores: %s", p.name, Header, p.result.Row(), two[i].result.Row())
		}
	}
}

// everyRule plays a world by every strategy and every placement.
func everyRule(c Config, source func() workload.Source) []*play {
	var plays []*play
	for _, c.Router.Strategy = range router.Strategies() {
		plays = append(plays, &play{name: c.Router.Strategy, config: c, source: source})
	}
	for _, c.Placement = range Placements() {
		plays = append(plays, &play{name: string(c.Placement), config: c, source: source})
	}
	return plays
}
