package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// world is what is asked, of which fleet, and how that may be set at the beginning.
type world struct {
	name  string
	asked asker
	// kvTokens is each engine's KV cache in tokens.
	kvTokens int
	// strategy is [router.PrefixAware] where it is empty.
	strategy string
	// runs is with how many seeds the truth is measured, from 1 on; 0 is one.
	runs   int
	starts []start
}

// start is how a fleet is set when advice is asked for.
type start struct {
	name                    string
	prefixLength, threshold int // 0: the default
}

// asker opens a workload; recorded ones are in a directory.
type asker = func(traces string) (*workload.Workload, error)

// The KV caches of the targets: for generated workloads, and for recorded ones.
const (
	kvGenerated = 1_330_000
	kvRecorded  = 1_000_000
)

// The starts.
var (
	asUsual = start{name: "as usual"}
	short   = start{name: "`prefix_length` 1,024", prefixLength: 1024}
	low     = start{name: "`concurrency_threshold` 4", threshold: 4}
	high    = start{name: "`concurrency_threshold` 1,024", threshold: 1024}
)

// worlds are all worlds, one a line.
func worlds() []world {
	const hash = router.PrefixHash
	conversation := recorded(workload.KindMooncake, "mooncake_conversation_full.jsonl.gz", 1.1)
	synthetic := recorded(workload.KindMooncake, "mooncake_synthetic_full.jsonl.gz", 0.9)
	weka := recorded(workload.KindWeka, "weka_claude_code_sessions_max128k_251.jsonl.gz", 1)
	return []world{
		{name: "docs 8.8/s", asked: docs(0), kvTokens: kvGenerated, starts: []start{asUsual, low, high}},
		{name: "docs 8.8/s behind a head of 512 tokens", asked: docs(512), kvTokens: kvGenerated, starts: []start{short}},
		{name: "docs 8.8/s, PREFIX_HASH", asked: docs(0), kvTokens: kvGenerated, strategy: hash, starts: []start{low}},
		{name: "essays, PREFIX_HASH", asked: essays, kvTokens: kvGenerated, strategy: hash, starts: []start{high}},
		{name: "chat 17/s", asked: chat, kvTokens: kvGenerated, starts: []start{asUsual, short, low}},
		{name: "conversation ×1.1", asked: conversation, kvTokens: kvRecorded, starts: []start{asUsual, short}},
		{name: "synthetic ×0.9", asked: synthetic, kvTokens: kvRecorded, starts: []start{asUsual, short}},
		{name: "weka", asked: weka, kvTokens: kvRecorded, runs: 4, starts: []start{asUsual, short}},
	}
}

// config is how the fleet is routed at a start.
func (w world) config(s start) router.Config {
	c := router.DefaultConfig()
	if w.strategy != "" {
		c.Strategy = w.strategy
	}
	if s.threshold != 0 {
		c.ConcurrencyThreshold = s.threshold
	}
	c.PrefixLength = s.prefixLength
	return c
}

// fleet is seven reference engines that state their capacity.
func (w world) fleet(config router.Config, seed uint64) replay.Config {
	return replay.Config{
		Backends: 7, Engine: enginesim.Config{Profile: replay.ReferenceProfile(w.kvTokens)}, Router: config,
		ScrapeEvery: 5 * time.Second, StatedCapacity: 1, Seed: seed,
	}
}

// docs are questions on shared documents, for an hour, behind a head that all have in common.
func docs(head int) asker {
	return func(string) (*workload.Workload, error) {
		c := workload.DefaultDocsConfig()
		c.Rate = 8.8
		w, err := c.Workload()
		if err != nil || head == 0 {
			return w, err
		}
		play := w.Play
		w.Play = func(seed uint64) workload.Source {
			return &headed{play(seed), workload.Segment{ID: workload.Mix(seed ^ 0x68656164), Tokens: head}}
		}
		return w, nil
	}
}

// headed are requests in an open loop with one head in common.
type headed struct {
	workload.Source

	head workload.Segment
}

// Next implements [workload.Source].
func (h *headed) Next() (workload.Request, bool) {
	r, ok := h.Source.Next()
	r.Prompt = append([]workload.Segment{h.head}, r.Prompt...)
	return r, ok
}

// essays are long questions on short documents, of which few are asked about most of the time:
// what is computed for each is more than what is shared.
func essays(string) (*workload.Workload, error) {
	c := workload.DefaultDocsConfig()
	c.DocumentTokens, c.Zipf, c.Rate, c.Duration = 1000, 1.3, 16, 20*time.Minute
	c.QuestionMean, c.QuestionSpread, c.OutputMean = 2000, 300, 100
	return c.Workload()
}

// chat are conversations for an hour.
func chat(string) (*workload.Workload, error) { return workload.DefaultChatConfig().Workload() }

// recorded is a public trace.
func recorded(kind, file string, load float64) asker {
	return func(traces string) (*workload.Workload, error) {
		if traces == "" {
			return nil, errors.New("set " + tracesVariable + " to the directory with " + file)
		}
		f, err := os.Open(filepath.Join(traces, file))
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		w, err := workload.Open(kind, f, workload.Options{Load: load})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return w, nil
	}
}
