package replay_test

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// Every request that was sent has one record, with all keys of its prompt whatever decides.
func TestObserve(t *testing.T) {
	docs := workload.DefaultDocsConfig()
	docs.Documents, docs.DocumentTokens, docs.Duration = 20, 1000, 30*time.Second
	config := replay.Config{
		Backends: 2, Engine: enginesim.Config{Profile: replay.ReferenceProfile(40_000)}, Router: router.DefaultConfig(),
		Noise: replay.Noise{Aborts: 0.2}, Seed: 1,
	}
	config.Router.PrefixLength = router.MinPrefixLength
	records, prompt, cached, ttft, aborted := 0, 0, 0, time.Duration(0), 0
	config.Observe = func(r *feedback.Record) {
		records++
		if whole := r.StreamBytes / r.BlockBytes; len(r.Keys) != whole || r.PromptBlocks != router.MinPrefixLength/r.BlockBytes {
			t.Errorf("%d keys and %d that decide of %d blocks", len(r.Keys), r.PromptBlocks, whole)
		}
		if r.Result == feedback.ClientClosed {
			aborted++
			return
		}
		prompt += r.Usage.Prompt
		cached += r.Usage.Cached
		ttft += r.TTFT
		if r.TTFT <= 0 || r.Duration < r.TTFT || r.Backend == "" || r.Result != feedback.Success {
			t.Errorf("%+v", r)
		}
	}
	fleet, err := replay.New(config)
	if err != nil {
		t.Fatal(err)
	}
	result, err := fleet.Run(workload.NewDocs(docs, 1))
	if err != nil {
		t.Fatal(err)
	}
	if records != result.Requests || aborted != result.Aborted || prompt == 0 || cached == 0 || ttft == 0 {
		t.Errorf("%d records, %d of them aborted, of %d requests and %d", records, aborted, result.Requests, result.Aborted)
	}
	if result.Busiest < 2 || result.Busiest > result.Requests {
		t.Errorf("at most %d in flight on a backend", result.Busiest)
	}
}
