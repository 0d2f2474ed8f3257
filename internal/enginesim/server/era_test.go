package server_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// names of what tells generations apart
var eraNames = []string{
	"vllm:cpu_cache_usage_perc", "vllm:engine_sleep_state", "vllm:gpu_cache_usage_perc",
	"vllm:gpu_prefix_cache_hit_rate", "vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total",
	"vllm:inter_token_latency_seconds", "vllm:kv_cache_usage_perc", "vllm:num_requests_swapped",
	"vllm:num_requests_waiting_by_reason", "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total",
	"vllm:prompt_tokens_by_source_total", "vllm:prompt_tokens_cached_total", "vllm:time_per_output_token_seconds",
}

func TestMetricsGenerations(t *testing.T) {
	want := map[string]string{
		"v0": "cpu_cache_usage_perc gpu_cache_usage_perc gpu_prefix_cache_hit_rate num_requests_swapped " +
			"time_per_output_token_seconds",
		"0.8": "gpu_cache_usage_perc gpu_prefix_cache_hits_total gpu_prefix_cache_queries_total " +
			"time_per_output_token_seconds",
		"0.9.2": "gpu_cache_usage_perc gpu_prefix_cache_hits_total gpu_prefix_cache_queries_total " +
			"kv_cache_usage_perc prefix_cache_hits_total prefix_cache_queries_total time_per_output_token_seconds",
		"current": "engine_sleep_state inter_token_latency_seconds kv_cache_usage_perc num_requests_waiting_by_reason " +
			"prefix_cache_hits_total prefix_cache_queries_total prompt_tokens_by_source_total prompt_tokens_cached_total",
	}
	for _, generation := range server.MetricsGenerations() {
		t.Run(generation, func(t *testing.T) {
			cfg := fastConfig()
			cfg.MetricsGeneration = generation
			s := listen(t, cfg)
			if fresh := s.scrape()["vllm:num_requests_running"].series; (len(fresh) == 0) != (generation == "v0") {
				t.Errorf("series of a fresh server: %v", fresh)
			}
			s.ok("/v1/chat/completions", chat(manual, nil))
			s.ok("/v1/chat/completions", chat(manual, nil))
			m := s.scrape()
			var have []string
			for _, name := range eraNames {
				if len(m[name].series) > 0 {
					have = append(have, strings.TrimPrefix(name, "vllm:"))
				}
			}
			if diff := cmp.Diff(want[generation], strings.Join(have, " ")); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			for name, f := range m {
				for _, series := range f.series {
					_, has := series.labels["engine"]
					if strings.HasPrefix(name, "vllm:") && has == (generation == "v0") {
						t.Errorf("%s has the labels %v", name, slices.Sorted(maps.Keys(series.labels)))
					}
				}
			}
			if prompt := m["vllm:prompt_tokens_total"].sum(nil); prompt < 2000 {
				t.Errorf("%v prompt tokens", prompt)
			}
		})
	}
}

// TestUnitsOfGenerations checks that lookups were blocks once, and that V0 had a ratio.
func TestUnitsOfGenerations(t *testing.T) {
	get := func(generation string, off bool) map[string]family {
		cfg := fastConfig()
		cfg.MetricsGeneration, cfg.NoPrefixCaching = generation, off
		s := listen(t, cfg)
		s.ok("/v1/chat/completions", chat(manual, nil))
		s.ok("/v1/chat/completions", chat(manual, nil))
		return s.scrape()
	}
	tokens := get("0.9.2", false)["vllm:gpu_prefix_cache_hits_total"].sum(nil)
	if blocks := get("0.8", false)["vllm:gpu_prefix_cache_hits_total"].sum(nil); tokens == 0 || blocks*16 != tokens {
		t.Errorf("%v blocks found, %v tokens", blocks, tokens)
	}
	const rate = "vllm:gpu_prefix_cache_hit_rate"
	if got := get("v0", false)[rate].sum(nil); got < 0.4 || got > 0.5 {
		t.Errorf("hit rate %v, want nearly a half", got)
	}
	if got := get("v0", true)[rate].sum(nil); got != -1 {
		t.Errorf("hit rate %v without caching, want -1", got)
	}
}

// TestLastEngineShows checks that older releases show one of several engines only.
func TestLastEngineShows(t *testing.T) {
	cfg := fastConfig()
	cfg.MetricsGeneration, cfg.Engines = "0.8", 3
	f := listen(t, cfg).scrape()["vllm:num_requests_running"]
	if len(f.series) != 1 || f.series[0].labels["engine"] != "2" {
		t.Errorf("series %v, want the last engine's", f.series)
	}
}
