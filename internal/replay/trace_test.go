//go:build !race

// Hours of a fleet in virtual time, in one goroutine: the race detector would make minutes
// of seconds and have nothing to see.

package replay

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// TestMooncake replays the public Mooncake hour. WARMROUTE_TRACES names the directory with
// the trace.
func TestMooncake(t *testing.T) {
	w := conversation(t, 1)
	var plays []*play
	for _, strategy := range []string{router.Random, router.PrefixAware, router.LeastExpectedTTFT} {
		c := conversationConfig()
		c.Router.Strategy = strategy
		plays = append(plays, &play{name: strategy, config: c, source: func() workload.Source { return w.Play(c.Seed) }})
	}
	playAll(t, plays...)
	t.Log(Header)
	for _, p := range plays {
		t.Logf("%s  %s", p.result.Row(), p.name)
		if p.result.Answered != w.Requests {
			t.Errorf("%d of %d answered", p.result.Answered, w.Requests)
		}
	}
}

// conversationConfig is seven engines of a million tokens, with blocks as in the trace.
func conversationConfig() Config {
	return Config{
		Backends: 7, Engine: enginesim.Config{Profile: ReferenceProfile(1_000_000), BlockSize: 512},
		Router: router.DefaultConfig(), ScrapeEvery: 5 * time.Second, StatedCapacity: 1, Seed: 1,
	}
}

// conversation is the Mooncake conversation trace, load times as fast as recorded. Without
// the trace the test is skipped.
func conversation(t *testing.T, load float64) *workload.Workload {
	t.Helper()
	dir := os.Getenv("WARMROUTE_TRACES")
	if dir == "" {
		t.Skip("WARMROUTE_TRACES is not set")
	}
	f, err := os.Open(filepath.Join(dir, "mooncake_conversation_full.jsonl.gz"))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	w, err := workload.ReadMooncake(f, load)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
