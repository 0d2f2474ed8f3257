package replay

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/router"
)

// Config describes a fleet. The zero value of every field but Backends, Engine and Router
// works.
type Config struct {
	// Backends is the number of engines, at least 1.
	Backends int
	// Engine describes each of them; their seeds differ.
	Engine enginesim.Config
	// Router is how the pool is routed.
	Router router.Config
	// Placement, where it is not [ByRouter], chooses in the place of the router's
	// strategy. Requests still go through the router, pinned to what was chosen, as long
	// as that is in rotation.
	Placement Placement
	// Routers is how many routers the requests are spread over; 0 is 1.
	Routers int
	// ShareDelay is after how long what one of them knows is known to the others, blocks,
	// horizons and load, at most 1.98 s; 0 is that they share nothing.
	ShareDelay time.Duration
	// BytesPerToken is the length of a token in bytes of key stream. Default 4.
	BytesPerToken float64
	// ScrapeEvery is how often each engine's metrics are read; 0 is never. Engines take
	// turns.
	ScrapeEvery time.Duration
	// StatedCapacity is what engines say their cache holds, relative to the truth; 0 is
	// that they do not say. It is read by scraping.
	StatedCapacity float64
	// Unreported is set where answers do not say how many tokens were cached, which is
	// vLLM's default.
	Unreported bool
	// CachingOff are the numbers of the backends whose engines run without a prefix
	// cache.
	CachingOff []int
	// NoFeedback runs an open loop: answers carry no usage and scrapes nothing but the
	// capacity.
	NoFeedback bool
	// Noise is what goes wrong all the time.
	Noise Noise
	// Faults are what goes wrong once.
	Faults []Fault
	// Audit compares the index with the engines' caches, entry by entry: at every move
	// of a horizon, after every loss, and every AuditEvery (default a minute).
	Audit      bool
	AuditEvery time.Duration
	// Observe, where it is set, gets the access record of every request that came to a router,
	// at its end, as a router's telemetry would. The record may be used again afterwards.
	Observe func(*feedback.Record)
	// Steer, where it is set, is called every SteerEvery with the wall clock's time and the pool
	// of the one router, whose prefix_length and concurrency_threshold it may change.
	Steer      func(now time.Time, p *router.Pool)
	SteerEvery time.Duration
	// Seed makes the run repeatable.
	Seed uint64
	// Progress, where it is set, is told every progressEvery moments how many requests
	// have ended. An error ends the run with it.
	Progress func(ended int) error
}

// progressEvery is after how many moments of a run [Config.Progress] is asked: a small
// part of a second, also where a request takes many moments.
const progressEvery = 1 << 10

// Noise is what makes a fleet unlike a drawing of one. The zero value is none; all shares
// are 0..1.
type Noise struct {
	// BytesSpread is how far a content's own bytes per token lie from the mean, at most.
	BytesSpread float64
	// Aborts is the share of requests whose client leaves, half of them soon after
	// sending, half at some point of the answer.
	Aborts float64
	// Diverging is the share of requests of which the engine sees other content after
	// 30 % of the prompt.
	Diverging float64
	// ReportZero is the share of answers that report 0 cached tokens whatever was found.
	ReportZero float64
	// Foreign is how many requests reach the engines past the router, relative to those
	// that come through it. They ask what was lately asked of the router.
	Foreign float64
	// FaultEvery is after how many requests a backend taken at random loses its cache or
	// restarts, in turn; 0 is never.
	FaultEvery int
}

// divergingAt is where the engine's content parts from the router's for
// [Noise.Diverging].
const divergingAt = 0.3

// DefaultNoise returns the noise that the feedback rules are measured in.
func DefaultNoise() Noise {
	return Noise{BytesSpread: 0.15, Aborts: 0.05, Diverging: 0.02, ReportZero: 0.005, Foreign: 0.10, FaultEvery: 500}
}

// FaultKind is what happens to an engine.
type FaultKind uint8

// The faults.
const (
	// LoseCache empties the cache without a sign; requests in flight go on.
	LoseCache FaultKind = iota
	// Restart replaces the process: the cache is empty, the counters start at 0, and
	// what was in flight breaks off.
	Restart
)

// String returns the fault as reports name it.
func (k FaultKind) String() string {
	if k == Restart {
		return "restart"
	}
	return "lose-cache"
}

// Fault is something that happens to one engine once.
type Fault struct {
	// At is when, from the beginning of the run.
	At time.Duration
	// Backend is the engine's number, from 0.
	Backend int
	// Kind is what happens.
	Kind FaultKind
}

// maxFactor bounds what a configuration multiplies by.
const maxFactor float64 = 1e6

// within reports whether a value is in 0..most, which no NaN is.
func within(value, most float64) bool { return value >= 0 && value <= most }

// Validate names every field that makes no sense.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Backends < 1 {
		bad("backends: must be at least 1, are %d", c.Backends)
	}
	if c.Placement != ByRouter && !slices.Contains(Placements(), c.Placement) {
		bad("placement: %q is neither empty nor one of %v", c.Placement, Placements())
	}
	if c.Routers < 0 {
		bad("routers: must not be negative, are %d", c.Routers)
	}
	if c.ShareDelay < 0 || c.ShareDelay > maxShareDelay {
		bad("share_delay: must be in 0..%v, is %v: load that routers hear of later counts nothing", maxShareDelay, c.ShareDelay)
	}
	if c.Audit && c.Routers > 1 {
		bad("audit: it knows the index of one router, and there are %d", c.Routers)
	}
	if c.Steer != nil && (c.SteerEvery <= 0 || c.Routers > 1) {
		bad("steer: needs a time between two calls and one router, has %v and %d", c.SteerEvery, c.Routers)
	}
	if !within(c.BytesPerToken, maxFactor) {
		bad("bytes_per_token: must be in 0..%v, is %v", maxFactor, c.BytesPerToken)
	}
	if c.ScrapeEvery < 0 || c.AuditEvery < 0 {
		bad("scrape_every and audit_every: must not be negative")
	}
	if !within(c.StatedCapacity, maxFactor) {
		bad("stated_capacity: must be in 0..%v, is %v", maxFactor, c.StatedCapacity)
	}
	if c.StatedCapacity > 0 && c.ScrapeEvery == 0 {
		bad("stated_capacity: it is read by scraping, and scrape_every is 0")
	}
	for _, share := range []struct {
		name  string
		value float64
	}{
		{"bytes_spread", c.Noise.BytesSpread},
		{"aborts", c.Noise.Aborts},
		{"diverging", c.Noise.Diverging},
		{"report_zero", c.Noise.ReportZero},
		{"foreign", c.Noise.Foreign},
	} {
		if !within(share.value, 1) {
			bad("noise.%s: must be in 0..1, is %v", share.name, share.value)
		}
	}
	if c.Noise.FaultEvery < 0 {
		bad("noise.fault_every: must not be negative, is %d", c.Noise.FaultEvery)
	}
	for _, number := range c.CachingOff {
		if number < 0 || number >= c.Backends {
			bad("caching_off: %d is not one of a fleet of %d", number, c.Backends)
		}
	}
	for i, f := range c.Faults {
		if f.Backend < 0 || f.Backend >= c.Backends || f.At < 0 || f.Kind > Restart {
			bad("faults[%d]: %v of backend %d at %v is not one of a fleet of %d", i, f.Kind, f.Backend, f.At, c.Backends)
		}
	}
	return errors.Join(errs...)
}

// ReferenceProfile is the step model that the project's figures rest on: 18 ms a step,
// 20 ns for each token of context that is decoded, 20 µs for each decoding sequence,
// 10,000 prefill tokens a second, at most 2,048 tokens a step and 256 sequences.
func ReferenceProfile(kvTokens int) enginesim.Profile {
	return enginesim.Profile{
		Name:             "reference",
		StepFloor:        18 * time.Millisecond,
		PrefillPerToken:  100_000,
		PerSequence:      20_000,
		PerContextToken:  20,
		KVTokens:         kvTokens,
		MaxBatchedTokens: 2048,
		MaxSeqs:          256,
	}
}
