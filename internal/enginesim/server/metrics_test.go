package server_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/google/go-cmp/cmp"
)

// scrape reads /metrics as a scraper does.
func (s *sim) scrape() map[string]*dto.MetricFamily {
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
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return families
}

// labels returns the labels of a series.
func labels(m *dto.Metric) map[string]string {
	out := make(map[string]string)
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// sum adds up the series of a family whose labels include want.
func sum(families map[string]*dto.MetricFamily, name string, want map[string]string) float64 {
	total := 0.0
series:
	for _, m := range families[name].GetMetric() {
		have := labels(m)
		for key, value := range want {
			if have[key] != value {
				continue series
			}
		}
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
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
		if got := sum(after, test.name, test.labels) - sum(before, test.name, test.labels); got != test.want {
			t.Errorf("%s %v moved by %v, want %v", test.name, test.labels, got, test.want)
		}
	}
	if got := sum(after, "vllm:cache_config_info", map[string]string{"block_size": "16", "num_gpu_blocks": "26624"}); got != 1 {
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
	for name, kind := range map[string]dto.MetricType{
		"vllm:num_requests_running":                dto.MetricType_GAUGE,
		"vllm:num_requests_waiting":                dto.MetricType_GAUGE,
		"vllm:num_requests_waiting_by_reason":      dto.MetricType_GAUGE,
		"vllm:engine_sleep_state":                  dto.MetricType_GAUGE,
		"vllm:kv_cache_usage_perc":                 dto.MetricType_GAUGE,
		"vllm:prefix_cache_queries_total":          dto.MetricType_COUNTER,
		"vllm:prefix_cache_hits_total":             dto.MetricType_COUNTER,
		"vllm:external_prefix_cache_queries_total": dto.MetricType_COUNTER,
		"vllm:external_prefix_cache_hits_total":    dto.MetricType_COUNTER,
		"vllm:num_preemptions_total":               dto.MetricType_COUNTER,
		"vllm:request_success_total":               dto.MetricType_COUNTER,
		"vllm:time_to_first_token_seconds":         dto.MetricType_HISTOGRAM,
		"vllm:inter_token_latency_seconds":         dto.MetricType_HISTOGRAM,
		"vllm:e2e_request_latency_seconds":         dto.MetricType_HISTOGRAM,
		"vllm:request_queue_time_seconds":          dto.MetricType_HISTOGRAM,
		"vllm:request_prefill_time_seconds":        dto.MetricType_HISTOGRAM,
		"vllm:request_decode_time_seconds":         dto.MetricType_HISTOGRAM,
		"vllm:iteration_tokens_total":              dto.MetricType_HISTOGRAM,
	} {
		f := families[name]
		if f == nil || f.GetType() != kind {
			t.Errorf("%s is %v, want type %v", name, f, kind)
			continue
		}
		engines := make(map[string]bool)
		for _, m := range f.GetMetric() {
			have := labels(m)
			engines[have["engine"]] = true
			if have["model_name"] != cfg.Model[0] {
				t.Errorf("%s has model_name %q", name, have["model_name"])
			}
		}
		if diff := cmp.Diff([]string{"0", "1"}, slices.Sorted(maps.Keys(engines))); diff != "" {
			t.Errorf("%s engines mismatch (-want +got):\n%s", name, diff)
		}
	}
	for _, m := range families["vllm:cache_config_info"].GetMetric() {
		have := labels(m)
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
