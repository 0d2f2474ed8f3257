package server

import (
	"fmt"
	"strconv"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// Label values that vLLM creates at start-up.
var (
	finishedReasons = []string{"stop", "length", "abort", "error", "repetition"}
	waitingReasons  = []string{"capacity", "deferred"}
	sleepStates     = []string{"awake", "weights_offloaded", "discard_all"}
	promptSources   = []string{"local_compute", "local_cache_hit", "external_kv_transfer"}
)

// zero is the value of what the model has not.
func zero(*enginesim.Stats, int) float64 { return 0 }

// gauges writes what is so now.
func (x *exposition) gauges(all []enginesim.Stats) {
	x.gauge(all, perEngine{
		name: "vllm:num_requests_running", help: "Number of requests in model execution batches.",
		value: func(st *enginesim.Stats, _ int) float64 { return float64(st.Running) },
	})
	x.gauge(all, perEngine{
		name: "vllm:num_requests_waiting", help: "Number of requests waiting to be processed.",
		value: func(st *enginesim.Stats, _ int) float64 { return float64(st.Waiting) },
	})
	for _, name := range x.era.usage() {
		x.gauge(all, perEngine{
			name: name, help: "KV-cache usage. 1 means 100 percent usage.",
			value: func(st *enginesim.Stats, _ int) float64 { return st.KVUsage },
		})
	}
	switch x.era {
	case eraV0:
		x.gauge(all, perEngine{name: "vllm:num_requests_swapped", help: "Not modelled, always 0.", value: zero})
		x.gauge(all, perEngine{name: "vllm:cpu_cache_usage_perc", help: "Not modelled, always 0.", value: zero})
		x.gauge(all, perEngine{
			name: "vllm:gpu_prefix_cache_hit_rate", help: "GPU prefix cache block hit rate.", value: hitRate,
		})
	case eraCurrent:
		x.currentGauges(all)
	}
}

// currentGauges writes those that older releases have not.
func (x *exposition) currentGauges(all []enginesim.Stats) {
	x.gauge(all, perEngine{
		name: "vllm:num_requests_waiting_by_reason", help: "Number of requests waiting to be processed, by reason.",
		label: "reason", values: waitingReasons,
		value: func(st *enginesim.Stats, i int) float64 {
			if i > 0 {
				return 0
			}
			return float64(st.Waiting)
		},
	})
	x.gauge(all, perEngine{
		name: "vllm:engine_sleep_state", help: "Engine sleep state.",
		label: "sleep_state", values: sleepStates,
		value: func(st *enginesim.Stats, i int) float64 {
			if asleep := map[bool]int{false: 0, true: 1}[st.Sleeping]; i != asleep {
				return 0
			}
			return 1
		},
	})
}

// counters writes what only grows.
func (x *exposition) counters(all []enginesim.Stats) {
	plain := func(name, help string, get func(st *enginesim.Stats) int64) {
		x.counter(all, perEngine{name: name, help: help, value: func(st *enginesim.Stats, _ int) float64 {
			return float64(get(st))
		}})
	}
	names, unit := x.era.lookups(all[0].BlockSize)
	for _, name := range names {
		plain(name+"_queries", "Prefix cache queries, in terms of number of queried tokens.",
			func(st *enginesim.Stats) int64 { return st.PrefixQueries / unit })
		plain(name+"_hits", "Prefix cache hits, in terms of number of cached tokens.",
			func(st *enginesim.Stats) int64 { return st.PrefixHits / unit })
	}
	plain("vllm:num_preemptions", "Cumulative number of preemption from the engine.",
		func(st *enginesim.Stats) int64 { return st.Preemptions })
	plain("vllm:prompt_tokens", "Number of prefill tokens processed.",
		func(st *enginesim.Stats) int64 { return st.PromptTokens })
	plain("vllm:generation_tokens", "Number of generation tokens processed.",
		func(st *enginesim.Stats) int64 { return st.GenerationTokens })
	reasons := finishedReasons
	if x.era < eraCurrent {
		reasons = reasons[:3]
	}
	x.counter(all, perEngine{
		name: "vllm:request_success", help: "Count of successfully processed requests.",
		label: "finished_reason", values: reasons,
		value: func(st *enginesim.Stats, i int) float64 {
			if i >= len(st.Finished) {
				return 0
			}
			return float64(st.Finished[i])
		},
	})
	if x.era == eraCurrent {
		x.currentCounters(all)
	}
}

// currentCounters writes those that older releases have not.
func (x *exposition) currentCounters(all []enginesim.Stats) {
	for _, name := range []string{
		"vllm:external_prefix_cache_queries", "vllm:external_prefix_cache_hits",
		"vllm:mm_cache_queries", "vllm:mm_cache_hits",
	} {
		x.counter(all, perEngine{name: name, help: "Not modelled, always 0.", value: zero})
	}
	x.counter(all, perEngine{
		name: "vllm:prompt_tokens_by_source", help: "Number of prefill tokens processed, by source.",
		label: "source", values: promptSources,
		value: func(st *enginesim.Stats, i int) float64 {
			return float64([]int64{st.PromptTokens - st.PromptTokensCached, st.PromptTokensCached, 0}[i])
		},
	})
	x.counter(all, perEngine{
		name: "vllm:prompt_tokens_cached", help: "Number of prompt tokens found in a cache.",
		value: func(st *enginesim.Stats, _ int) float64 { return float64(st.PromptTokensCached) },
	})
}

// histograms writes the distributions.
func (x *exposition) histograms(all []enginesim.Stats) {
	for _, h := range []struct {
		name, help string
		get        func(*enginesim.Stats) *enginesim.Histogram
	}{
		{
			"time_to_first_token_seconds", "Histogram of time to first token in seconds.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.TimeToFirstToken },
		},
		{
			"inter_token_latency_seconds", "Histogram of inter-token latency in seconds.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.InterTokenLatency },
		},
		{
			"request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.TimePerOutputToken },
		},
		{
			"e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.EndToEnd },
		},
		{
			"request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.Queue },
		},
		{
			"request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.Prefill },
		},
		{
			"request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.Decode },
		},
		{
			"request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.Inference },
		},
		{
			"request_prompt_tokens", "Number of prefill tokens processed.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.RequestPrompt },
		},
		{
			"request_generation_tokens", "Number of generation tokens processed.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.RequestGeneration },
		},
		{
			"request_prefill_kv_computed_tokens", "Number of prefill tokens computed, cached ones excluded.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.RequestComputed },
		},
		{
			"iteration_tokens_total", "Histogram of number of tokens per engine_step.",
			func(st *enginesim.Stats) *enginesim.Histogram { return &st.IterationTokens },
		},
	} {
		if name := x.era.histogram(h.name); name != "" {
			x.histogram(all, "vllm:"+name, h.help, h.get)
		}
	}
}

// cacheConfig writes the cache's configuration. As in vLLM, num_gpu_blocks is
// the total of all engines on every series, kv_cache_size_tokens one engine's.
func (x *exposition) cacheConfig(all []enginesim.Stats) {
	x.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig.")
	total := 0
	for _, st := range all {
		total += st.TotalBlocks
	}
	if x.era < eraCurrent {
		x.oldCacheConfig(total, all[0])
		return
	}
	for e, st := range all {
		tokens := st.TotalBlocks * st.BlockSize
		x.sample("vllm:cache_config_info", 1,
			"block_size", strconv.Itoa(st.BlockSize),
			"cache_dtype", "auto",
			"enable_prefix_caching", pythonBool(!st.NoPrefixCaching),
			"engine", strconv.Itoa(e),
			"gpu_memory_utilization", "0.92",
			"hash_block_size", "None",
			"kv_cache_max_concurrency", fmt.Sprintf("%.2f", float64(tokens)/float64(st.MaxTokens)),
			"kv_cache_size_tokens", strconv.Itoa(tokens),
			"mamba_block_size", "None",
			"num_gpu_blocks", strconv.Itoa(total),
			"num_gpu_blocks_override", "None",
			"prefix_caching_hash_algo", "sha256",
			"sliding_window", "None",
		)
	}
}

// oldCacheConfig writes what releases before the current one say, which is the same
// for all engines.
func (x *exposition) oldCacheConfig(blocks int, st enginesim.Stats) {
	labels := []string{
		"block_size", strconv.Itoa(st.BlockSize),
		"cache_dtype", "auto",
		"enable_prefix_caching", pythonBool(!st.NoPrefixCaching),
	}
	if x.era != eraV0 {
		labels = append(labels, "engine", "0")
	}
	labels = append(labels,
		"gpu_memory_utilization", "0.9",
		"num_gpu_blocks", strconv.Itoa(blocks),
		"num_gpu_blocks_override", "None",
		"sliding_window", "None",
	)
	x.sample("vllm:cache_config_info", 1, labels...)
}

func pythonBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
