package server

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// era is a generation of vLLM's metrics.
type era uint8

// The eras, oldest first, by a release that has them.
const (
	eraV0 era = iota
	era08
	era092
	eraCurrent
)

// MetricsGenerations returns the names that [Config.MetricsGeneration] may have,
// oldest first: vLLM 0.6 with its first engine, 0.8, 0.9.2, which has the names
// before and after it, and the current release.
func MetricsGenerations() []string { return []string{"v0", "0.8", "0.9.2", "current"} }

func parseEra(name string) (era, error) {
	if name == "" {
		return eraCurrent, nil
	}
	i := slices.Index(MetricsGenerations(), name)
	if i < 0 {
		return 0, fmt.Errorf("metrics_generation: must be one of %s, is %q", strings.Join(MetricsGenerations(), ", "), name)
	}
	return era(i), nil
}

// shown yields the engines that have series. V0 makes them when it first has
// something to say; until July 2025 data-parallel engines overwrote each other's.
func (a era) shown(all []enginesim.Stats) iter.Seq[int] {
	return func(yield func(int) bool) {
		for e := range all {
			if a == eraV0 && all[e].Submitted == 0 || a < eraCurrent && e < len(all)-1 {
				continue
			}
			if !yield(e) {
				return
			}
		}
	}
}

// usage returns the names of the KV usage gauge.
func (a era) usage() []string {
	switch a {
	case eraV0, era08:
		return []string{"vllm:gpu_cache_usage_perc"}
	case era092:
		return []string{"vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"}
	default:
		return []string{"vllm:kv_cache_usage_perc"}
	}
}

// lookups returns the beginnings of the names of the prefix cache's counters, and
// the size of their unit in tokens of a cache with blocks of that size.
func (a era) lookups(block int) (names []string, unit int64) {
	switch a {
	case eraV0:
		return nil, 1
	case era08:
		return []string{"vllm:gpu_prefix_cache"}, int64(max(block, 1))
	case era092:
		return []string{"vllm:gpu_prefix_cache", "vllm:prefix_cache"}, 1
	default:
		return []string{"vllm:prefix_cache"}, 1
	}
}

// histogram returns the name of a distribution that the current release calls name,
// "" where there is none.
func (a era) histogram(name string) string {
	if a == eraCurrent {
		return name
	}
	switch name {
	case "inter_token_latency_seconds":
		return "time_per_output_token_seconds"
	case "request_time_per_output_token_seconds", "request_prefill_kv_computed_tokens":
		return ""
	default:
		return name
	}
}

// hitRate is V0's only word on its cache: the share of looked up blocks that were
// found, or -1 where it does not cache.
func hitRate(st *enginesim.Stats, _ int) float64 {
	switch {
	case st.NoPrefixCaching:
		return -1
	case st.PrefixQueries == 0:
		return 0
	default:
		return float64(st.PrefixHits) / float64(st.PrefixQueries)
	}
}
