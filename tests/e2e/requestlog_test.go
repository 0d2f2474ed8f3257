package e2e

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/enginesim/server"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// What a fleet served can be played again from its request log: modelled engines of the
// same size find as much in their caches as the engines reported.
func TestRequestLogReplays(t *testing.T) {
	const (
		engines  = 3
		kvTokens = 20_000 // of each: a third of the documents
		docs     = 40
		users    = 4
		each     = 100
		speed    = 100 // of the doubles
	)
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	f := start(t, setup{
		engines:   engines,
		engine:    func(c *server.Config) { c.KVTokens, c.Speed = kvTokens, speed },
		configure: func(c *config.Config) { c.RequestLog.Path = path },
	})
	texts := make([]string, docs)
	for i := range texts {
		texts[i] = prose(uint64(i), 6000)
	}
	var asked sync.WaitGroup
	for u := range users {
		asked.Go(func() {
			for i := range each {
				doc := texts[(u*17+i*i*7+i)%docs] // some more often than others
				question := prose(uint64(1000+u*each+i), 300)
				if r, err := f.chat(t.Context(), ask{messages: []message{user(doc + "\n\n" + question)}, tokens: 10}); err != nil || !r.done {
					t.Errorf("%+v: %v", r, err)
					return
				}
			}
		})
	}
	asked.Wait()
	var log []byte
	f.await("the request log has all lines", func() bool {
		log, _ = os.ReadFile(path)
		return bytes.Count(log, []byte("\n")) == users*each
	})
	if n := f.metric("warmroute_request_log_dropped_total"); n != 0 {
		t.Errorf("%v lines were dropped", n)
	}
	prompt, cached := 0, 0
	for line := range bytes.Lines(log) {
		r, err := workload.ParseLoggedRequest(line)
		if err != nil {
			t.Fatal(err)
		}
		prompt, cached = prompt+*r.PromptTokens, cached+*r.CachedTokens
	}
	served := float64(cached) / float64(prompt)

	// The doubles ran that many times as fast as the models do.
	w, err := workload.ReadRequestLog(bytes.NewReader(log), 1./speed)
	if err != nil {
		t.Fatal(err)
	}
	replayed := map[string]float64{}
	for _, strategy := range []string{router.PrefixAware, router.Random} {
		profile, err := enginesim.ProfileByName("llama-8b-h100")
		if err != nil {
			t.Fatal(err)
		}
		c := replay.Config{
			Backends: engines, Engine: enginesim.Config{Profile: profile, KVTokens: kvTokens, BlockSize: 16},
			Router: router.DefaultConfig(), ScrapeEvery: 5 * time.Second, StatedCapacity: 1, Seed: 1,
		}
		c.Router.Strategy = strategy
		fleet, err := replay.New(c)
		if err != nil {
			t.Fatal(err)
		}
		result, err := fleet.Run(w.Play(1))
		if err != nil {
			t.Fatal(err)
		}
		if result.Answered != users*each || w.Requests != users*each {
			t.Errorf("%s: %d of %d answered", strategy, result.Answered, w.Requests)
		}
		tokens := 0
		for _, s := range result.Samples {
			tokens += s.Prompt
		}
		if tokens != prompt {
			t.Errorf("%s: %d prompt tokens, the engines reported %d", strategy, tokens, prompt)
		}
		replayed[strategy] = result.HitRate()
	}
	t.Logf("hit rate %.3f as served, %.3f in replay, %.3f under RANDOM", served, replayed[router.PrefixAware], replayed[router.Random])
	// Half a block of 64 tokens on average is not known to be in common, 2 % of a prompt.
	if math.Abs(served-replayed[router.PrefixAware]) > 0.07 {
		t.Errorf("a hit rate of %.3f in replay, %.3f as served", replayed[router.PrefixAware], served)
	}
	if replayed[router.Random] > served-0.10 {
		t.Errorf("under RANDOM the replay hits %.3f: this shows too little", replayed[router.Random])
	}
}
