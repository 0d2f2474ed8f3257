package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/kvindex"
)

// The limits of ConcurrencyThreshold and PrefixLength. SageMaker's range of
// PrefixLength is 1,024–65,536; ours goes on.
const (
	MinConcurrencyThreshold = 1
	MaxConcurrencyThreshold = 1024
	MinPrefixLength         = 1024
	MaxPrefixLength         = 1 << 20
)

// DefaultHashPrefixLength is the PrefixLength of PREFIX_HASH when none is set.
const DefaultHashPrefixLength = 4096

// OnSaturation says what happens when every backend is full.
type OnSaturation string

// The answers to saturation.
const (
	// LeastLoaded takes the cheapest backend over its threshold.
	LeastLoaded OnSaturation = "least_loaded"
	// Queue lets the request wait for a slot.
	Queue OnSaturation = "queue"
	// Reject answers 429 with Retry-After.
	Reject OnSaturation = "reject"
)

// CacheKeyUse says what prompt_cache_key means on /v1 paths.
type CacheKeyUse string

// The uses of prompt_cache_key.
const (
	// CacheKeyHint lets it enter the rendezvous key only.
	CacheKeyHint CacheKeyUse = "hint"
	// CacheKeySeparate lets it enter the scope: equal prompts with different keys
	// are kept apart.
	CacheKeySeparate CacheKeyUse = "separate"
	// CacheKeyIgnore leaves it alone.
	CacheKeyIgnore CacheKeyUse = "ignore"
)

// NativeKey says what identifies the prompt of a native invocation (/invocations).
type NativeKey string

// What may identify the prompt of a native invocation.
const (
	// NativeAuto is the key stream of the prompt where the body has a shape that is
	// known, and its leading bytes where it has none.
	NativeAuto NativeKey = "auto"
	// NativeRaw is the leading bytes of the body, whatever it is.
	NativeRaw NativeKey = "raw"
)

// Config is how a pool is routed. It can be changed while requests are in flight.
type Config struct {
	// Strategy is the name of the strategy, one of [Strategies]. Default
	// PREFIX_AWARE.
	Strategy string
	// PrefixLength bounds how much of a prompt is hashed, in Unicode characters of
	// message text (in bytes where the leading bytes of a body count, see NativeKey),
	// 1,024–1,048,576; 0 means the strategy's default: 4,096 for
	// PREFIX_HASH, 1,048,576 (in practice the whole prompt) otherwise.
	PrefixLength int
	// ConcurrencyThreshold is how many requests may be in flight on one backend
	// before another is taken, 1–1,024. Default 128.
	ConcurrencyThreshold int
	// MinMatchRatio is the part of the hashed prompt, 0–1, that a backend must hold
	// to count as a holder. Default 0.25: where one short head is common to all
	// traffic, a smaller match is no match.
	MinMatchRatio float64
	// LoadFactor makes a backend full when its in-flight exceeds LoadFactor × the
	// mean + 4. 0 is off, otherwise at least 1. Default 1.5.
	LoadFactor float64
	// QueueGuard passes a holder over when waiting for it would cost more than
	// QueueGuard times the recomputation elsewhere. 0 is off. Default 4.
	QueueGuard float64
	// W is the weight of a prompt's uncached tokens against the tokens queued
	// before it, 1–4. Default 2.
	W float64
	// OnSaturation says what happens when every backend is full. Default
	// least_loaded.
	OnSaturation OnSaturation
	// PromptCacheKey says what prompt_cache_key means on /v1 paths. Default hint.
	PromptCacheKey CacheKeyUse
	// NativeKey says what identifies the prompt of a native invocation. Default auto.
	NativeKey NativeKey
	// Replicas is how many router replicas run without a shared view. Above 1,
	// prompts that nobody holds go by rendezvous order with bounded load, so that
	// the replicas agree. Default 1.
	Replicas int
	// BlockBytes is the size of a block in bytes of key stream, 64–4,096. It
	// cannot change while the pool lives. Default 256.
	BlockBytes int
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Strategy:             PrefixAware,
		ConcurrencyThreshold: 128,
		MinMatchRatio:        0.25,
		LoadFactor:           1.5,
		QueueGuard:           4,
		W:                    2,
		OnSaturation:         LeastLoaded,
		PromptCacheKey:       CacheKeyHint,
		NativeKey:            NativeAuto,
		Replicas:             1,
		BlockBytes:           kvindex.DefaultBlockBytes,
	}
}

// Validate names every setting that makes no sense, what it is and what it may be.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, known := strategies[c.Strategy]; !known {
		bad("strategy: %q is not one of %s", c.Strategy, strings.Join(Strategies(), ", "))
	}
	if c.PrefixLength != 0 && (c.PrefixLength < MinPrefixLength || c.PrefixLength > MaxPrefixLength) {
		bad("prefix_length: %d is not in %d..%d", c.PrefixLength, MinPrefixLength, MaxPrefixLength)
	}
	if c.ConcurrencyThreshold < MinConcurrencyThreshold || c.ConcurrencyThreshold > MaxConcurrencyThreshold {
		bad("concurrency_threshold: %d is not in %d..%d", c.ConcurrencyThreshold, MinConcurrencyThreshold, MaxConcurrencyThreshold)
	}
	if !(c.MinMatchRatio >= 0 && c.MinMatchRatio <= 1) {
		bad("min_match_ratio: %v is not in 0..1", c.MinMatchRatio)
	}
	if c.LoadFactor != 0 && !(c.LoadFactor >= 1 && c.LoadFactor <= 1e6) {
		bad("load_factor: %v is neither 0 (off) nor at least 1", c.LoadFactor)
	}
	if !(c.QueueGuard >= 0 && c.QueueGuard <= 1e6) {
		bad("queue_guard: %v is neither 0 (off) nor above 0", c.QueueGuard)
	}
	if !(c.W >= 1 && c.W <= 4) {
		bad("w: %v is not in 1..4", c.W)
	}
	if !slices.Contains([]OnSaturation{LeastLoaded, Queue, Reject}, c.OnSaturation) {
		bad("on_saturation: %q is not one of least_loaded, queue, reject", c.OnSaturation)
	}
	if !slices.Contains([]CacheKeyUse{CacheKeyHint, CacheKeySeparate, CacheKeyIgnore}, c.PromptCacheKey) {
		bad("prompt_cache_key: %q is not one of hint, separate, ignore", c.PromptCacheKey)
	}
	if c.NativeKey != NativeAuto && c.NativeKey != NativeRaw {
		bad("native_key: %q is not one of auto, raw", c.NativeKey)
	}
	if c.Replicas < 1 {
		bad("replicas: %d is below 1", c.Replicas)
	}
	if c.BlockBytes < kvindex.MinBlockBytes || c.BlockBytes > kvindex.MaxBlockBytes {
		bad("block_bytes: %d is not in %d..%d", c.BlockBytes, kvindex.MinBlockBytes, kvindex.MaxBlockBytes)
	}
	return errors.Join(errs...)
}

// HashLength is the PrefixLength in force.
func (c Config) HashLength() int {
	switch {
	case c.PrefixLength != 0:
		return c.PrefixLength
	case c.Strategy == PrefixHash:
		return DefaultHashPrefixLength
	}
	return MaxPrefixLength
}
