package replay_test

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

func ExampleFleet() {
	docs := workload.DefaultDocsConfig()
	docs.Documents, docs.Duration = 70, 10*time.Minute
	for _, strategy := range []string{router.Random, router.PrefixAware} {
		c := replay.Config{
			Backends: 2, Engine: enginesim.Config{Profile: replay.ReferenceProfile(300_000)},
			Router: router.DefaultConfig(), ScrapeEvery: 5 * time.Second, StatedCapacity: 1,
		}
		c.Router.Strategy = strategy
		fleet, err := replay.New(c)
		if err != nil {
			fmt.Println(err)
			return
		}
		result, err := fleet.Run(workload.NewDocs(docs, 1))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: more than four of five tokens cached: %v\n", strategy, result.HitRate() > 0.8)
	}
	// Output:
	// RANDOM: more than four of five tokens cached: false
	// PREFIX_AWARE: more than four of five tokens cached: true
}
