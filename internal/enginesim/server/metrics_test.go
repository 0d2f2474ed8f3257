package server_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// family is a metric family as a scraper reads it.
type family struct {
	kind   string
	series []series
}

// series is one series of a family; of a histogram, value is the sum.
type series struct {
	labels map[string]string
	value  float64
}

// scrape reads /metrics as a scraper does.
func (s *sim) scrape() map[string]family {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if format := expfmt.ResponseFormat(resp.Header); format.FormatType() != expfmt.TypeTextPlain {
		s.t.Fatalf("content type %q is not the text format", resp.Header.Get("Content-Type"))
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	families := make(map[string]family)
	for name, f := range parsed {
		read := family{kind: f.GetType().String()}
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
			read.series = append(read.series, series{labels, value})
		}
		families[name] = read
	}
	return families
}

// sum adds up the series of a family whose labels include want.
func (f family) sum(want map[string]string) float64 {
	total := 0.0
next:
	for _, s := range f.series {
		for key, value := range want {
			if s.labels[key] != value {
				continue next
			}
		}
		total += s.value
	}
	return total
}

func TestMetricsMove(t *testing.T) {
	s := listen(t, fastConfig())
	before := s.scrape()
	first := s.ok("/v1/chat/completions", chat(manual, object{"max_tokens": 10}))
	second := s.ok("/v1/chat/completions", chat(manual, object{"max_tokens": 10}))
	after := s.scrape()
	prompt := at(first, "usage", "prompt_tokens").(float64)
	cached := at(second, "usage", "prompt_tokens_details", "cached_tokens").(float64)
	for _, test := range []struct {
		name   string
		labels map[string]string
		want   float64
	}{
		{"vllm:prefix_cache_queries_total", nil, 2 * prompt},
		{"vllm:prefix_cache_hits_total", nil, cached},
		{"vllm:prompt_tokens_total", nil, 2 * prompt},
		{"vllm:prompt_tokens_cached_total", nil, cached},
		{"vllm:prompt_tokens_by_source_total", map[string]string{"source": "local_cache_hit"}, cached},
		{"vllm:prompt_tokens_by_source_total", map[string]string{"source": "local_compute"}, 2*prompt - cached},
		{"vllm:generation_tokens_total", nil, 20},
		{"vllm:request_success_total", map[string]string{"finished_reason": "length"}, 2},
		{"vllm:request_success_total", map[string]string{"finished_reason": "stop"}, 0},
		{"vllm:request_prompt_tokens", nil, 2 * prompt},
		{"vllm:request_generation_tokens", nil, 20},
		{"vllm:request_prefill_kv_computed_tokens", nil, 2*prompt - cached},
		{"vllm:iteration_tokens_total", nil, 2*prompt - cached + 18},
		{"vllm:num_requests_running", nil, 0},
		{"vllm:num_requests_waiting", nil, 0},
		{"vllm:kv_cache_usage_perc", nil, 0},
		{"vllm:prefix_cache_queries_created", nil, 0},
	} {
		if got := after[test.name].sum(test.labels) - before[test.name].sum(test.labels); got != test.want {
			t.Errorf("%s %v moved by %v, want %v", test.name, test.labels, got, test.want)
		}
	}
	if got := after["vllm:cache_config_info"].sum(map[string]string{"block_size": "16", "num_gpu_blocks": "26624"}); got != 1 {
		t.Errorf("cache_config_info %v", after["vllm:cache_config_info"])
	}
}

// TestMetricsExistAtStart checks the names, types and labels of a fresh server:
// vLLM makes all series at start-up.
func TestMetricsExistAtStart(t *testing.T) {
	cfg := fastConfig()
	cfg.Engines = 2
	cfg.Model = []string{`odd "name"\`}
	families := listen(t, cfg).scrape()
	for name, kind := range map[string]string{
		"vllm:num_requests_running":                "GAUGE",
		"vllm:num_requests_waiting":                "GAUGE",
		"vllm:num_requests_waiting_by_reason":      "GAUGE",
		"vllm:engine_sleep_state":                  "GAUGE",
		"vllm:kv_cache_usage_perc":                 "GAUGE",
		"vllm:prefix_cache_queries_total":          "COUNTER",
		"vllm:prefix_cache_hits_total":             "COUNTER",
		"vllm:external_prefix_cache_queries_total": "COUNTER",
		"vllm:external_prefix_cache_hits_total":    "COUNTER",
		"vllm:num_preemptions_total":               "COUNTER",
		"vllm:request_success_total":               "COUNTER",
		"vllm:time_to_first_token_seconds":         "HISTOGRAM",
		"vllm:inter_token_latency_seconds":         "HISTOGRAM",
		"vllm:e2e_request_latency_seconds":         "HISTOGRAM",
		"vllm:request_queue_time_seconds":          "HISTOGRAM",
		"vllm:request_prefill_time_seconds":        "HISTOGRAM",
		"vllm:request_decode_time_seconds":         "HISTOGRAM",
		"vllm:iteration_tokens_total":              "HISTOGRAM",
	} {
		f := families[name]
		if f.kind != kind {
			t.Errorf("%s has type %q, want %s", name, f.kind, kind)
			continue
		}
		engines := make(map[string]bool)
		for _, s := range f.series {
			engines[s.labels["engine"]] = true
			if s.labels["model_name"] != cfg.Model[0] {
				t.Errorf("%s has model_name %q", name, s.labels["model_name"])
			}
		}
		if diff := cmp.Diff([]string{"0", "1"}, slices.Sorted(maps.Keys(engines))); diff != "" {
			t.Errorf("%s engines mismatch (-want +got):\n%s", name, diff)
		}
	}
	for _, s := range families["vllm:cache_config_info"].series {
		have := s.labels
		if have["model_name"] != "" || have["num_gpu_blocks"] != "53248" || have["kv_cache_size_tokens"] != "425984" {
			t.Errorf("cache_config_info %v: want the blocks of both engines, the tokens of one, and no model_name", have)
		}
	}
	for name := range families {
		if !strings.HasPrefix(name, "vllm:") && !strings.HasPrefix(name, "process_") {
			t.Errorf("unexpected family %s", name)
		}
	}
}
