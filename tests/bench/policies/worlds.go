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

// world is what is asked, and of whom.
type world struct {
	name  string
	asked func(traces string) (*workload.Workload, error)
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
	noise     replay.Noise
	faults    []replay.Fault
	// audit compares the router's index with the engines' caches.
	audit bool
}

// The KV caches of the targets: for generated workloads, and for recorded ones.
const (
	kvGenerated = 1_330_000
	kvRecorded  = 1_000_000
)

// worlds are all worlds, one a line. The name says what differs from the first of a kind.
func worlds() []world {
	return []world{
		{name: "docs 3.5/s", asked: docs(3.5, 0), kvTokens: kvGenerated, stated: 1},
		{name: "docs 3.5/s, 0.25 s overhead", asked: docs(3.5, 0), kvTokens: kvGenerated, stated: 1, overhead: 250 * time.Millisecond},
		{name: "docs 8.8/s", asked: docs(8.8, 0), kvTokens: kvGenerated, stated: 1},
		{name: "docs 8.8/s, capacity unstated", asked: docs(8.8, 0), kvTokens: kvGenerated},
		{name: "docs 8.8/s, threshold 16", asked: docs(8.8, 0), kvTokens: kvGenerated, stated: 1, threshold: 16},
		{name: "docs 8.8/s, 4 routers", asked: docs(8.8, 0), kvTokens: kvGenerated, stated: 1, routers: 4, shareDelay: 50 * time.Millisecond},
		{name: "chat 17/s", asked: chat(17), kvTokens: kvGenerated, stated: 1},
		{name: "head 5/s", asked: head(5), kvTokens: kvGenerated, stated: 1},
		{name: "conversation ×1.1", asked: recorded(workload.KindMooncake, "mooncake_conversation_full.jsonl.gz", 1.1), kvTokens: kvRecorded, stated: 1},
	}
}

// fleet is seven reference engines, without a strategy.
func (w world) fleet() replay.Config {
	profile := replay.ReferenceProfile(w.kvTokens)
	profile.RequestOverhead = w.overhead
	c := replay.Config{
		Backends: 7, Engine: enginesim.Config{Profile: profile}, Router: router.DefaultConfig(),
		Routers: w.routers, ShareDelay: w.shareDelay, ScrapeEvery: 5 * time.Second, StatedCapacity: w.stated,
		Noise: w.noise, Faults: w.faults, Audit: w.audit, Seed: 1,
	}
	if w.threshold != 0 {
		c.Router.ConcurrencyThreshold = w.threshold
	}
	return c
}

// docs are questions on shared documents for an hour, at a rate, or by users one after the
// other.
func docs(rate float64, users int) func(string) (*workload.Workload, error) {
	return func(string) (*workload.Workload, error) {
		c := workload.DefaultDocsConfig()
		c.Rate, c.Users = rate, users
		return c.Workload()
	}
}

// chat are conversations for an hour.
func chat(rate float64) func(string) (*workload.Workload, error) {
	return func(string) (*workload.Workload, error) {
		c := workload.DefaultChatConfig()
		c.Rate = rate
		return c.Workload()
	}
}

// head is an hour of prompts that have only their head in common.
func head(rate float64) func(string) (*workload.Workload, error) {
	return func(string) (*workload.Workload, error) {
		c := workload.DefaultHeadConfig()
		c.Rate = rate
		return c.Workload()
	}
}

// recorded is a public trace.
func recorded(kind, file string, load float64) func(string) (*workload.Workload, error) {
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
