package replay

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/router"
)

const noisyBackends = 7

// noisyConfig is seven engines of 400,000 tokens in a noisy world, whose working set is
// three times what all of them hold.
func noisyConfig() (Config, DocsConfig) {
	const kvTokens = 400_000
	c := Config{
		Backends: noisyBackends, Engine: enginesim.Config{Profile: ReferenceProfile(kvTokens)},
		Router: router.DefaultConfig(), ScrapeEvery: 5 * time.Second, StatedCapacity: 1,
		Noise: DefaultNoise(), Audit: true, Seed: 1,
	}
	d := DefaultDocsConfig()
	d.Documents = 3 * noisyBackends * kvTokens / d.DocumentTokens
	return c, d
}

// play runs docs over a fleet.
func play(t *testing.T, c Config, d DocsConfig) *Result {
	t.Helper()
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Run(NewDocs(d, c.Seed))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNoisyWorld(t *testing.T) {
	c, d := noisyConfig()
	start := time.Now()
	r := play(t, c, d)
	t.Logf("%s", Header)
	t.Logf("%s  feedback", r.Row())
	t.Logf("%s", r.Events())
	t.Log(time.Since(start))
	c.NoFeedback = true
	start = time.Now()
	r2 := play(t, c, d)
	t.Logf("%s  no feedback", r2.Row())
	t.Logf("%s", r2.Events())
	t.Log(time.Since(start))
	for _, r := range r.Recoveries {
		t.Logf("%v %d %v gone %d answers %d healed %v took %v", r.At, r.Backend, r.Kind, r.Gone, len(r.Answers), r.Healed, r.Took)
	}
}
