package scrape

import (
	"math"
	"slices"
	"strings"
)

// dialects returns the engines whose pages are understood.
func dialects() []*dialect { return []*dialect{vllm(), sglang()} }

// Names of vLLM's series, the newer ones first.
const (
	vllmRunning = "num_requests_running"
	vllmWaiting = "num_requests_waiting"
	vllmSleep   = "engine_sleep_state" // since October 2025
	vllmConfig  = "cache_config_info"
	vllmLoRA    = "lora_requests_info"

	vllmUsage    = "kv_cache_usage_perc" // since 0.9.2; a fraction all the same
	vllmUsageOld = "gpu_cache_usage_perc"

	vllmPrompt     = "prompt_tokens"
	vllmBySource   = "prompt_tokens_by_source" // since February 2026, as is the next
	vllmCached     = "prompt_tokens_cached"
	vllmQueries    = "prefix_cache_queries" // since 0.9.2
	vllmHits       = "prefix_cache_hits"
	vllmQueriesOld = "gpu_prefix_cache_queries" // 0.7.3 to 0.11
	vllmHitsOld    = "gpu_prefix_cache_hits"
	vllmHitRate    = "gpu_prefix_cache_hit_rate" // up to 0.9.0
)

// defaultBlock is vLLM's block size where the page does not say.
const defaultBlock = 16

func vllm() *dialect {
	return &dialect{
		engine: "vllm",
		prefix: "vllm:",
		names: []string{
			vllmRunning, vllmWaiting, vllmSleep, vllmConfig, vllmLoRA, vllmUsage, vllmUsageOld, vllmPrompt, vllmBySource,
			vllmCached, vllmQueries, vllmHits, vllmQueriesOld, vllmHitsOld, vllmHitRate,
		},
		rank: "engine",
		fill: fillVLLM,
	}
}

func fillVLLM(v view, s *state) {
	s.requests(v, vllmRunning, &s.Running, &s.HasRunning)
	s.requests(v, vllmWaiting, &s.Waiting, &s.HasWaiting)
	s.usage(v, vllmUsage, vllmUsageOld)
	s.PromptTokens, s.HasPromptTokens = v.sum(vllmPrompt, nil)
	s.cacheConfig(v)
	s.vllmLookups(v)
	s.sleep(v)
	s.adapters(v)
	for _, rate := range v.get(vllmHitRate, false) {
		s.CachingOff = s.CachingOff || rate.value < 0
	}
}

// vllmLookups takes the tokens looked up and found from the best source there is. One
// that is there but makes no sense is not replaced by another, whose counts differ.
func (s *state) vllmLookups(v view) {
	sources := []struct {
		queries, hits string
		keep          func(series) bool // of hits
		blocks        bool              // counted in blocks, as far as one can know
	}{
		{queries: vllmBySource, hits: vllmBySource, keep: labelled("source", "local_cache_hit")},
		{queries: vllmPrompt, hits: vllmCached},
		{queries: vllmQueries, hits: vllmHits},
		{queries: vllmQueriesOld, hits: vllmHitsOld, blocks: true},
	}
	for _, from := range sources {
		if len(v.get(from.queries, false)) == 0 || len(v.get(from.hits, false)) == 0 {
			continue
		}
		queries, ok := v.sum(from.queries, nil)
		hits, also := v.sum(from.hits, from.keep)
		if !ok || !also {
			return
		}
		if from.blocks {
			unit := s.BlockTokens
			if unit == 0 {
				unit = defaultBlock
			}
			queries, hits = queries*float64(unit), hits*float64(unit)
		}
		s.lookups(queries, hits)
		return
	}
}

// labelled returns a test for a label's value.
func labelled(label string, values ...string) func(series) bool {
	return func(s series) bool { return slices.Contains(values, s.label(label)) }
}

// cacheConfig takes the cache's size from the labels of its configuration. Each engine
// repeats num_gpu_blocks as the total of all; kv_cache_size_tokens is one engine's, and
// right for models that mix kinds of layers as well.
func (s *state) cacheConfig(v view) {
	blocks := 0
	for _, config := range v.get(vllmConfig, true) {
		s.BlockTokens = max(s.BlockTokens, config.count("block_size"))
		s.CapacityTokens = max(s.CapacityTokens, config.count("kv_cache_size_tokens"))
		blocks = max(blocks, config.count("num_gpu_blocks"))
		s.CachingOff = s.CachingOff || config.label("enable_prefix_caching") == "False"
	}
	if s.CapacityTokens > 0 {
		return
	}
	if tokens := float64(blocks/v.ranks) * float64(s.BlockTokens); tokens <= math.MaxInt32*1024 {
		s.CapacityTokens = int(tokens)
	}
}

// sleep takes the sleep state, of which there is one series a state: asleep is what is
// not awake.
func (s *state) sleep(v view) {
	for _, one := range v.get(vllmSleep, false) {
		if !sensible(one.value) {
			s.Asleep, s.HasSleep = false, false
			return
		}
		if one.label("sleep_state") == "awake" && one.value == 0 {
			s.Asleep = true
		}
		s.HasSleep = s.HasSleep || one.label("sleep_state") == "awake"
	}
}

// adapters takes the LoRA adapters of running and waiting requests, which are lists in
// labels. The engine makes a new series for every combination and keeps the old ones; the
// value is when it did, and the newest counts.
func (s *state) adapters(v view) {
	var newest *series
	all := v.get(vllmLoRA, true)
	for i := range all {
		if one := &all[i]; sensible(one.value) && (newest == nil || one.value > newest.value) {
			newest = one
		}
	}
	if newest == nil {
		return
	}
	s.MaxAdapters = newest.count("max_lora")
	known := map[string]bool{"": true}
	for _, label := range []string{"running_lora_adapters", "waiting_lora_adapters"} {
		for name := range strings.SplitSeq(newest.label(label), ",") {
			if len(s.Adapters) == maxAdapters {
				return
			}
			if name = strings.TrimSpace(name); !known[name] {
				known[name] = true
				s.Adapters = append(s.Adapters, name)
			}
		}
	}
}

// maxAdapters bounds the adapters that are taken from a page.
const maxAdapters = 1024
