package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/warmroute/warmroute/internal/comparison"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// world is what is asked, and of whom.
type world struct {
	name  string
	asked asker
	// kvTokens is each engine's KV cache in tokens, stated what engines say of it,
	// relative to the truth, 0 for nothing.
	kvTokens int
	stated   float64
	// overhead is what every request takes beside the model.
	overhead time.Duration
	// routers, where it is not 0, is how many share the requests, and what they know after
	// shareDelay.
	routers    int
	shareDelay time.Duration
	// threshold, where it is not 0, is concurrency_threshold.
	threshold int
	// runs is with how many seeds it is played, from 1 on; 0 is one.
	runs int
	// only, where it is not nil, names the strategies that are played.
	only []string
}

// asker opens a workload; recorded ones are in a directory.
type asker = func(traces string) (*workload.Workload, error)

// The KV caches of the targets: for generated workloads, and for recorded ones.
const (
	kvGenerated = 1_330_000
	kvRecorded  = 1_000_000
)

// Which strategies are played where not all are.
var (
	// both are the strategies that know the caches.
	both = []string{router.PrefixAware, router.LeastExpectedTTFT}
	// core are those that the relations are between.
	core = append([]string{router.LeastOutstanding, string(replay.LongestMatch), string(replay.Oracle)}, both...)
	// longest are those of the longest runs.
	longest = append([]string{router.Random}, core...)
	// beside is what is compared where engines do not state their capacity.
	beside = []string{router.LeastExpectedTTFT, string(replay.Oracle)}
	// spread are those for worlds without anything to match, or with too much of it.
	spread = append([]string{router.Random, router.LeastOutstanding}, both...)
)

// worlds are all worlds, one a line. The name says what differs from the first of a kind.
func worlds() []world {
	conversation := func(load float64) asker {
		return recorded(workload.KindMooncake, "mooncake_conversation_full.jsonl.gz", load)
	}
	synthetic := recorded(workload.KindMooncake, "mooncake_synthetic_full.jsonl.gz", 0.9)
	weka := recorded(workload.KindWeka, "weka_claude_code_sessions_max128k_251.jsonl.gz", 1)
	const delay = 50 * time.Millisecond
	return []world{
		{name: "docs 8.8/s", asked: docs(8.8, 0), kvTokens: kvGenerated, stated: 1},
		{name: "conversation ×1.1", asked: conversation(1.1), kvTokens: kvRecorded, stated: 1},
		{name: "synthetic ×0.9", asked: synthetic, kvTokens: kvRecorded, stated: 1},
		// Sessions wait for answers here, and one choice changes everything after it: from seed to
		// seed the P90 of one and the same strategy moves by a third.
		{name: "weka", asked: weka, kvTokens: kvRecorded, stated: 1, runs: 4, only: longest},
		{name: "chat 17/s", asked: chat(17), kvTokens: kvGenerated, stated: 1, only: longest},

		{name: "docs 3.5/s", asked: docs(3.5, 0), kvTokens: kvGenerated, stated: 1, only: longest},
		{name: "docs 12.2/s", asked: docs(12.2, 0), kvTokens: kvGenerated, stated: 1, only: append([]string{string(replay.Oracle)}, both...)},
		{name: "conversation ×0.8", asked: conversation(0.8), kvTokens: kvRecorded, stated: 1, only: core},
		{name: "conversation ×1.4", asked: conversation(1.4), kvTokens: kvRecorded, stated: 1, only: core},
		{name: "head 5/s", asked: head(5), kvTokens: kvGenerated, stated: 1, only: spread},
		{name: "head 20/s", asked: head(20), kvTokens: kvGenerated, stated: 1, only: spread},
		{name: "docs 3.5/s, 0.25 s overhead", asked: docs(3.5, 0), kvTokens: kvGenerated, stated: 1, overhead: 250 * time.Millisecond, only: spread},

		{name: "docs 3.5/s, capacity unstated", asked: docs(3.5, 0), kvTokens: kvGenerated, only: beside},
		{name: "docs 8.8/s, capacity unstated", asked: docs(8.8, 0), kvTokens: kvGenerated, only: beside},
		{name: "conversation ×0.8, capacity unstated", asked: conversation(0.8), kvTokens: kvRecorded, only: beside},
		{name: "conversation ×1.1, capacity unstated", asked: conversation(1.1), kvTokens: kvRecorded, only: beside},
		{name: "conversation ×1.4, capacity unstated", asked: conversation(1.4), kvTokens: kvRecorded, only: beside},
		{name: "weka, capacity unstated", asked: weka, kvTokens: kvRecorded, runs: 4, only: beside},
		{name: "chat 17/s, capacity unstated", asked: chat(17), kvTokens: kvGenerated, only: beside},

		{name: "docs 8.8/s, threshold 16", asked: docs(8.8, 0), kvTokens: kvGenerated, stated: 1, threshold: 16, only: both},
		{name: "docs 8.8/s, threshold 8", asked: docs(8.8, 0), kvTokens: kvGenerated, stated: 1, threshold: 8, only: both},
		{name: "docs, 56 users", asked: docs(0, 56), kvTokens: kvGenerated, stated: 1, only: both},
		{name: "docs, 56 users, threshold 16", asked: docs(0, 56), kvTokens: kvGenerated, stated: 1, threshold: 16, only: both},
		{name: "docs, 56 users, threshold 8", asked: docs(0, 56), kvTokens: kvGenerated, stated: 1, threshold: 8, only: both},
		{name: "docs, 112 users", asked: docs(0, 112), kvTokens: kvGenerated, stated: 1, only: both},
		{name: "docs, 112 users, threshold 16", asked: docs(0, 112), kvTokens: kvGenerated, stated: 1, threshold: 16, only: both},
		{name: "docs, 112 users, threshold 8", asked: docs(0, 112), kvTokens: kvGenerated, stated: 1, threshold: 8, only: both},

		{name: "docs 8.8/s, 4 routers", asked: docs(8.8, 0), kvTokens: kvGenerated, stated: 1, routers: 4, shareDelay: delay, only: both},
		{name: "conversation ×1.1, 4 routers", asked: conversation(1.1), kvTokens: kvRecorded, stated: 1, routers: 4, shareDelay: delay, only: both},
		{name: "chat 17/s, 4 routers", asked: chat(17), kvTokens: kvGenerated, stated: 1, routers: 4, shareDelay: delay, only: both},
		{name: "docs 8.8/s, 4 routers that share nothing", asked: docs(8.8, 0), kvTokens: kvGenerated, stated: 1, routers: 4, only: both},
	}
}

// strategies are those that are played, in the order of tables.
func (w world) strategies() []string {
	return slices.DeleteFunc(comparison.Strategies(), func(s string) bool { return w.only != nil && !slices.Contains(w.only, s) })
}

// seeds are those that it is played with.
func (w world) seeds() []uint64 {
	all := []uint64{1}
	for len(all) < w.runs {
		all = append(all, uint64(len(all)+1))
	}
	return all
}

// fleet is seven reference engines, without a strategy.
func (w world) fleet(seed uint64) replay.Config {
	profile := replay.ReferenceProfile(w.kvTokens)
	profile.RequestOverhead = w.overhead
	c := replay.Config{
		Backends: 7, Engine: enginesim.Config{Profile: profile}, Router: router.DefaultConfig(),
		Routers: w.routers, ShareDelay: w.shareDelay, ScrapeEvery: 5 * time.Second, StatedCapacity: w.stated,
		Seed: seed,
	}
	if w.routers > 1 && w.shareDelay == 0 {
		c.Router.Replicas = w.routers
	}
	if w.threshold != 0 {
		c.Router.ConcurrencyThreshold = w.threshold
	}
	return c
}

// docs are questions on shared documents for an hour, at a rate, or by users one after the
// other for twenty minutes.
func docs(rate float64, users int) asker {
	return func(string) (*workload.Workload, error) {
		c := workload.DefaultDocsConfig()
		if c.Rate, c.Users = rate, users; users > 0 {
			c.Duration = 20 * time.Minute
		}
		return c.Workload()
	}
}

// chat are conversations for an hour.
func chat(rate float64) asker {
	return func(string) (*workload.Workload, error) {
		c := workload.DefaultChatConfig()
		c.Rate = rate
		return c.Workload()
	}
}

// head is twenty minutes of prompts that have only their head in common.
func head(rate float64) asker {
	return func(string) (*workload.Workload, error) {
		c := workload.DefaultHeadConfig()
		c.Rate, c.Duration = rate, 20*time.Minute
		return c.Workload()
	}
}

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
