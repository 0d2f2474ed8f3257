package replay

import (
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

const noisyBackends = 7

// beliefConfig is 24 minutes of docs on seven engines that hold 350 of 420 documents.
func beliefConfig() (Config, workload.DocsConfig) {
	c := Config{
		Backends: 7, Engine: enginesim.Config{Profile: ReferenceProfile(400_000)},
		Router: router.DefaultConfig(), ScrapeEvery: 5 * time.Second, StatedCapacity: 1, Seed: 1,
	}
	d := workload.DefaultDocsConfig()
	d.Documents, d.Duration = 420, 24*time.Minute
	return c, d
}

// noisyConfig is an hour of seven engines of 400,000 tokens in a noisy world, whose
// working set is three times what all of them hold.
func noisyConfig() (Config, workload.DocsConfig) {
	const kvTokens = 400_000
	c := Config{
		Backends: noisyBackends, Engine: enginesim.Config{Profile: ReferenceProfile(kvTokens)},
		Router: router.DefaultConfig(), ScrapeEvery: 5 * time.Second, StatedCapacity: 1,
		Noise: DefaultNoise(), Audit: true, AuditEvery: 10 * time.Minute, Seed: 1,
	}
	d := workload.DefaultDocsConfig()
	d.Documents = 3 * noisyBackends * kvTokens / d.DocumentTokens
	return c, d
}
