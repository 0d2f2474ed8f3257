package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/warmroute/warmroute/internal/demo"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// tracesVariable names the directory with public traces.
const tracesVariable = "WARMROUTE_TRACES"

// Real prompts of coding agents, over real sockets, to four engine doubles: knowing
// the caches saves more than half of what placing at random recomputes, and finds
// nearly all that one infinite cache would.
func TestRealText(t *testing.T) {
	dir := os.Getenv(tracesVariable)
	if dir == "" {
		t.Skipf("set %s to a directory that holds lmcache_agent_trace_miniswe.jsonl.gz", tracesVariable)
	}
	file, err := os.Open(filepath.Join(dir, "lmcache_agent_trace_miniswe.jsonl.gz"))
	if err != nil {
		t.Skipf("%s: %v", tracesVariable, err)
	}
	defer func() { _ = file.Close() }()
	text, err := workload.LoadLMCache(file)
	if err != nil {
		t.Fatal(err)
	}
	text = text.CapOutput(8)

	cfg := demo.DefaultConfig()
	cfg.Strategies = []string{router.Random, router.PrefixAware}
	cfg.Requests, cfg.Users = 0, 8
	cfg.Profile, cfg.KVTokens, cfg.Speed = "llama-8b-h100", 400_000, 100
	results := run(t, cfg, text)
	random, aware := results[0], results[1]

	// One request after the other to one engine that forgets nothing.
	cfg.Strategies = []string{router.Random}
	cfg.Backends, cfg.Users, cfg.KVTokens, cfg.Speed = 1, 1, 8_000_000, 1000
	infinite := run(t, cfg, text)[0]

	missed := func(r demo.Result) float64 { return float64(r.PromptTokens - r.CachedTokens) }
	recomputed, delivered := missed(aware)/missed(random), float64(aware.CachedTokens)/float64(infinite.CachedTokens)
	t.Logf("%d requests in %d sessions, %d prompt tokens", text.Requests(), len(text.Sessions), infinite.PromptTokens)
	t.Logf("hit rate: RANDOM %.1f %%, PREFIX_AWARE %.1f %%, one infinite cache %.1f %%",
		100*random.HitRate, 100*aware.HitRate, 100*infinite.HitRate)
	t.Logf("PREFIX_AWARE recomputes %.0f tokens, %.1f %% of RANDOM's %.0f, and delivers %.1f %% of the infinite cache's hits",
		missed(aware), 100*recomputed, missed(random), 100*delivered)
	if recomputed > 0.40 {
		t.Errorf("PREFIX_AWARE recomputes %.1f %% of what RANDOM does, want at most 40 %%", 100*recomputed)
	}
	if delivered < 0.95 {
		t.Errorf("PREFIX_AWARE delivers %.1f %% of the hits of one infinite cache, want at least 95 %%", 100*delivered)
	}
}

// The demo's own workload, which needs no file.
func TestGeneratedWorkload(t *testing.T) {
	cfg := demo.DefaultConfig()
	cfg.Strategies = []string{router.Random, router.PrefixAware}
	cfg.Speed = 60 // times do not matter here
	text, err := demo.Workload(cfg)
	if err != nil {
		t.Fatal(err)
	}
	results := run(t, cfg, text)
	random, aware := results[0], results[1]
	t.Logf("hit rate: RANDOM %.1f %%, PREFIX_AWARE %.1f %%, shares %.1f–%.1f %%", 100*random.HitRate, 100*aware.HitRate,
		100*aware.ShareMin, 100*aware.ShareMax)
	if aware.HitRate < 1.4*random.HitRate {
		t.Errorf("PREFIX_AWARE hits %.1f %%, want at least 1.4 times RANDOM's %.1f %%", 100*aware.HitRate, 100*random.HitRate)
	}
}

// run plays a workload and checks that everything was answered.
func run(t *testing.T, cfg demo.Config, text workload.Text) []demo.Result {
	t.Helper()
	results, err := demo.Run(t.Context(), cfg, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		want := text.Limit(cfg.Requests).Requests()
		if r.Errors != 0 || r.Requests != want {
			t.Fatalf("%s: %d of %d requests failed, want %d and none: %v", r.Strategy, r.Errors, r.Requests, want, r.Err)
		}
	}
	return results
}
