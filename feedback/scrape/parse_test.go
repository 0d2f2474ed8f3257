package scrape

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
)

// state parses a page that must be understood.
func parsed(t *testing.T, lines ...string) feedback.EngineState {
	t.Helper()
	page, err := Parse([]byte(strings.Join(lines, "\n")+"\n"), "text/plain; version=0.0.4")
	if err != nil {
		t.Fatal(err)
	}
	s, err := page.State(backends.NoRank)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// SC-01: the new name of the usage gauge wins, the old one is accepted, neither is
// unknown and not 0.
func TestUsageGaugeNames(t *testing.T) {
	const (
		newer = `vllm:kv_cache_usage_perc{model_name="m"} 0.25`
		older = `vllm:gpu_cache_usage_perc{model_name="m"} 0.75`
	)
	for _, tt := range []struct {
		name  string
		lines []string
		want  float64
		known bool
	}{
		{"newer", []string{newer}, 0.25, true},
		{"older", []string{older}, 0.75, true},
		{"both", []string{older, newer}, 0.25, true},
		{"neither", []string{`vllm:num_requests_running 1`}, 0, false},
		{"above 1", []string{`vllm:kv_cache_usage_perc 25`}, 0, false},
		{"below 0", []string{`vllm:kv_cache_usage_perc -0.1`}, 0, false},
		{"the newer makes no sense", []string{older, `vllm:kv_cache_usage_perc NaN`}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if s := parsed(t, tt.lines...); s.KVUsage != tt.want || s.HasKVUsage != tt.known {
				t.Errorf("usage %v (known: %v), want %v (%v)", s.KVUsage, s.HasKVUsage, tt.want, tt.known)
			}
		})
	}
}

// SC-02: requests are summed over data-parallel engines, usage is that of the fullest;
// one engine gives what it always gave, with or without the label.
func TestDataParallelEngines(t *testing.T) {
	s := parsed(t,
		`vllm:num_requests_running{engine="0"} 30`, `vllm:num_requests_running{engine="1"} 2`,
		`vllm:num_requests_waiting{engine="0"} 5`, `vllm:num_requests_waiting{engine="1"} 0`,
		`vllm:kv_cache_usage_perc{engine="0"} 0.9`, `vllm:kv_cache_usage_perc{engine="1"} 0.1`,
	)
	if s.Running != 32 || s.Waiting != 5 || s.KVUsage != 0.9 {
		t.Errorf("running %d, waiting %d, usage %v, want 32, 5 and 0.9", s.Running, s.Waiting, s.KVUsage)
	}
	one := parsed(t, `vllm:num_requests_running{engine="0"} 30`, `vllm:kv_cache_usage_perc{engine="0"} 0.9`)
	plain := parsed(t, `vllm:num_requests_running 30`, `vllm:kv_cache_usage_perc 0.9`)
	if diff := cmp.Diff(plain, one); diff != "" || one.Running != 30 || one.HasWaiting {
		t.Errorf("one engine, without the label and with it (-without +with):\n%s", diff)
	}
}

func TestRanksThatAreNotThere(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{`vllm:num_requests_running{engine="0"} 1`, `engine="2" on the metrics page, only 0`},
		{`vllm:num_requests_running 1`, `no label "engine"`},
		{`sglang:num_running_reqs{tp_rank="2"} 1`, `no label "dp_rank"`},
	} {
		page, err := Parse([]byte(tt.line+"\n"), "")
		if err != nil {
			t.Fatal(err)
		}
		s, err := page.State(2)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.line, err, tt.want)
		}
		if diff := cmp.Diff(feedback.EngineState{}, s); diff != "" {
			t.Errorf("%s: a state beside the error:\n%s", tt.line, diff)
		}
	}
}

// LO-04: the adapters are comma lists in labels, of which the newest series counts; an
// empty list has none, and odd ones break nothing.
func TestLO04Adapters(t *testing.T) {
	line := func(most, running, waiting, at string) string {
		return fmt.Sprintf(`vllm:lora_requests_info{max_lora=%q,running_lora_adapters=%q,waiting_lora_adapters=%q} %s`, most, running, waiting, at)
	}
	long := strings.Repeat("x,", 5000) + strings.Join(numbered(5000), ",")
	for _, tt := range []struct {
		name  string
		lines []string
		want  []string
		most  int
	}{
		{"none", []string{line("2", "", "", "1.7e9")}, nil, 2},
		{"waiting", []string{line("2", "", "a,b", "1.7e9")}, []string{"a", "b"}, 2},
		{"both", []string{line("4", "a,b", "b,c", "1.7e9")}, []string{"a", "b", "c"}, 4},
		{"the newest counts", []string{line("2", "old", "", "1.7e9"), line("2", "new", "", "1.8e9"), line("2", "older", "", "1.6e9")}, []string{"new"}, 2},
		{"odd", []string{line("many", " a ,,b,", ",", "1.7e9")}, []string{"a", "b"}, 0},
		{"no time", []string{line("2", "a", "", "NaN"), line("2", "b", "", "-1")}, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := parsed(t, append(tt.lines, `vllm:num_requests_running 1`)...)
			if diff := cmp.Diff(tt.want, s.Adapters); diff != "" || s.MaxAdapters != tt.most {
				t.Errorf("at most %d, want %d; (-want +got):\n%s", s.MaxAdapters, tt.most, diff)
			}
		})
	}
	if s := parsed(t, line("2", long, "", "1")); len(s.Adapters) != maxAdapters {
		t.Errorf("%d adapters of a page without end, want %d", len(s.Adapters), maxAdapters)
	}
}

// numbered are n names.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names
}

// SC-03: the three series of the sleep state may come in any order.
func TestSleepState(t *testing.T) {
	line := func(name string, value int) string {
		return fmt.Sprintf(`vllm:engine_sleep_state{engine="0",sleep_state=%q} %d`, name, value)
	}
	orders := [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for awake := range 2 {
		lines := []string{line("weights_offloaded", 1-awake), line("awake", awake), line("discard_all", 0)}
		for _, o := range orders {
			s := parsed(t, lines[o[0]], lines[o[1]], lines[o[2]])
			if want := awake == 0; !s.HasSleep || s.Asleep != want {
				t.Errorf("awake=%d, order %v: asleep %v (known: %v), want %v", awake, o, s.Asleep, s.HasSleep, want)
			}
		}
	}
	if s := parsed(t, `vllm:num_requests_running 0`); s.HasSleep || s.Asleep {
		t.Error("an engine that says nothing of sleep is taken to sleep, or not to")
	}
	if s := parsed(t, line("awake", 1), `vllm:engine_sleep_state{engine="1",sleep_state="awake"} 0`); !s.Asleep {
		t.Error("one of two engines sleeps: requests that it gets would hang")
	}
	if s := parsed(t, `vllm:engine_sleep_state{sleep_state="awake"} NaN`); s.HasSleep {
		t.Error("a sleep state that is no number is taken for one")
	}
}

// SC-05: what two pages say of a restart in between.
func TestCountersOfTwoPages(t *testing.T) {
	page := func(queries, hits int) string {
		return fmt.Sprintf("vllm:prefix_cache_queries_total %d\nvllm:prefix_cache_hits_total %d", queries, hits)
	}
	for _, tt := range []struct {
		name          string
		first, second string
		want          feedback.Change
	}{
		{"both fell", page(10000, 9000), page(57, 0), feedback.Change{Restarted: true}},
		{"queries fell", page(10000, 9000), page(57, 9000), feedback.Change{Restarted: true}},
		{"hits fell", page(10000, 9000), page(10000, 0), feedback.Change{Restarted: true}},
		{"both grew", page(10000, 9000), page(11000, 9500), feedback.Change{Queries: 1000, Hits: 500, HasHits: true}},
		{"nothing happened", page(10000, 9000), page(10000, 9000), feedback.Change{HasHits: true}},
		{"a gap", page(10000, 9000), "vllm:num_requests_running 1", feedback.Change{}},
		{
			"new process", page(10, 9) + "\nprocess_start_time_seconds 1.7e9", page(10, 9) + "\nprocess_start_time_seconds 1.71e9",
			feedback.Change{Restarted: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p feedback.Progress
			start := time.Unix(1_780_000_000, 0)
			for i, text := range []string{tt.first, tt.second} {
				s := parsed(t, text)
				s.At = start.Add(time.Duration(i) * 5 * time.Second)
				c := p.Next(s)
				if i == 0 {
					continue
				}
				tt.want.Since = start
				if diff := cmp.Diff(tt.want, c); diff != "" {
					t.Errorf("change (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// SC-08: SGLang's names, as few of them as there may be.
func TestFewSGLangSeries(t *testing.T) {
	want := feedback.EngineState{Engine: "sglang", Running: 7, HasRunning: true, KVUsage: 0.5, HasKVUsage: true}
	if diff := cmp.Diff(want, parsed(t, `sglang:num_running_reqs 7`, `sglang:token_usage 0.5`)); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

// HA-07: block sizes that engines resolve to.
func TestBlockSizes(t *testing.T) {
	for _, tt := range []struct {
		labels          string
		block, capacity int
	}{
		{`block_size="768",num_gpu_blocks="100"`, 768, 76800},
		{`block_size="16",num_gpu_blocks="100"`, 16, 1600},
		{`block_size="None",num_gpu_blocks="100"`, 0, 0},
		{`num_gpu_blocks="100"`, 0, 0},
		{`block_size="",num_gpu_blocks="100"`, 0, 0},
		{`block_size="-16",num_gpu_blocks="100"`, 0, 0},
		{`block_size="16.0",num_gpu_blocks="1e2"`, 16, 1600},
		{`block_size="1e99",num_gpu_blocks="1e99"`, 0, 0},
		{`block_size="1e14",num_gpu_blocks="1e14"`, 100_000_000_000_000, 0},
		{`block_size="NaN",num_gpu_blocks="Inf"`, 0, 0},
		{`block_size="16",num_gpu_blocks="None"`, 16, 0},
		{`block_size="768",num_gpu_blocks="100",kv_cache_size_tokens="5000"`, 768, 5000},
		{`block_size="16",num_gpu_blocks="100",kv_cache_size_tokens="None"`, 16, 1600},
		{``, 0, 0},
	} {
		s := parsed(t, `vllm:cache_config_info{`+tt.labels+`} 1.0`)
		if s.BlockTokens != tt.block || s.CapacityTokens != tt.capacity {
			t.Errorf("{%s}: block %d, capacity %d, want %d and %d", tt.labels, s.BlockTokens, s.CapacityTokens, tt.block, tt.capacity)
		}
	}
}

// The total that each engine repeats is not added up again.
func TestBlocksOfSeveralEngines(t *testing.T) {
	s := parsed(t,
		`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="54240"} 1.0`,
		`vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="54240"} 1.0`,
	)
	if s.CapacityTokens != 433_920 {
		t.Errorf("capacity %d, want one engine's 433920", s.CapacityTokens)
	}
}

// Lookups of which it is not known whether they are blocks or tokens must not make a
// loss out of nothing: their size is never too small.
func TestLookupsInAnUnknownUnit(t *testing.T) {
	page := func(queries, hits int) feedback.EngineState {
		return parsed(t, `vllm:cache_config_info{block_size="32"} 1`,
			fmt.Sprintf(`vllm:gpu_prefix_cache_queries_total %d`, queries),
			fmt.Sprintf(`vllm:gpu_prefix_cache_hits_total %d`, hits))
	}
	var progress feedback.Progress
	var u feedback.Unreported
	now := time.Unix(1_780_000_000, 0)
	for i := range 10 { // 1,000 blocks looked up and 700 found each time
		s := page(1000*i, 700*i)
		s.At = now.Add(time.Duration(i) * 5 * time.Second)
		c := progress.Next(s)
		if i > 0 && (c.Queries != 32_000 || c.Hits != 22_400) {
			t.Errorf("window %d: %v of %v tokens", i, c.Hits, c.Queries)
		}
		u.Predict(22_400)
		if _, lost := u.Scraped(c, s.At); lost {
			t.Fatalf("window %d: lost", i)
		}
	}
}

func TestNotAPage(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write([]byte("vllm:num_requests_running 0\n"))
	z.Close()
	for _, tt := range []struct{ name, contentType, page, want string }{
		{"nothing", "", "", "empty"},
		{"blank", "", " \r\n\n", "empty"},
		{"gzip", "text/plain", zipped.String(), "compressed"},
		{"half of gzip", "text/plain", zipped.String()[:12], "compressed"},
		{"noise", "text/plain", "\x00\xff\x17\x03garbage\n\n\xf0\x9f\n", "no metrics of vLLM or SGLang"},
		{"protobuf", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily", "\x0a\x04vllm\n", "protobuf"},
		{"JSON object", "application/json", `{"detail":"Not Found"}`, "JSON"},
		{"HTML", "text/html", "\r\n <html>vllm:num_requests_running 0\n</html>\n", "HTML"},
		{"text", "text/plain", "404 page not found\n", "no metrics of vLLM or SGLang"},
		{"cut in a name", "text/plain", "vllm:num_requests_running 0\nvllm:num_requests_wai", "cut short"},
		{"no value", "text/plain", "vllm:num_requests_running{engine=\"0\"}\n", "not a metrics page"},
		{"TensorRT-LLM", "text/plain", "trtllm_num_requests_running 1\n", "TensorRT-LLM"},
		{"TGI", "text/plain", "# TYPE tgi_queue_size gauge\ntgi_queue_size 0\n", "TGI"},
		{"a long one", "text/plain", `vllm:num_requests_running{a="` + strings.Repeat("x", 1<<20) + "\n", "not a metrics page"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page, err := Parse([]byte(tt.page), tt.contentType)
			if page != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("page %v, error %.300v, want %q", page, err, tt.want)
			}
			if len(err.Error()) > 300 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// pages returns the test pages that are understood.
func pages(t testing.TB) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, path := range paths {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(page, contentType(string(page))); err == nil {
			out[filepath.Base(path)] = string(page)
		}
	}
	return out
}

var labelPair = regexp.MustCompile(`[a-z_]+ *= *"(?:[^"\\]|\\.)*"`)

// The order of lines and of labels says nothing.
func TestOrderSaysNothing(t *testing.T) {
	for name, page := range pages(t) {
		t.Run(name, func(t *testing.T) {
			want := understand(t, page)
			kind := contentType(page)
			var lines []string
			for line := range strings.Lines(page) {
				if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
					lines = append(lines, strings.TrimSuffix(line, "\n"))
				}
			}
			if len(lines) < 2 {
				t.Skip("too few lines to reorder")
			}
			rapid.Check(t, func(rt *rapid.T) {
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
				mixed := make([]string, len(lines))
				for i, line := range lines {
					mixed[i] = mixLabels(rng, line)
				}
				rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
				text := "# content-type: " + kind + "\n" + strings.Join(mixed, "\n") + "\n# EOF\n"
				if diff := cmp.Diff(want, understand(t, text)); diff != "" {
					rt.Fatalf("what the page says (-as written +in another order):\n%s", diff)
				}
			})
		})
	}
}

// mixLabels reorders the labels of a line.
func mixLabels(rng *rand.Rand, line string) string {
	open, end := strings.IndexByte(line, '{'), strings.LastIndexByte(line, '}')
	if open < 0 || end < open || strings.Contains(line, " # ") {
		return line
	}
	labels := labelPair.FindAllString(line[open:end], -1)
	rng.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
	return line[:open+1] + strings.Join(labels, ",") + line[end:]
}

// valid reports what is wrong with a state.
func valid(s feedback.EngineState) error {
	for _, v := range []float64{s.Queries, s.Hits, s.PromptTokens, s.Started, s.KVUsage, float64(s.Running), float64(s.Waiting), float64(s.CapacityTokens), float64(s.BlockTokens)} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return fmt.Errorf("a value is %v: %+v", v, s)
		}
	}
	switch {
	case s.KVUsage > 1:
		return fmt.Errorf("usage %v", s.KVUsage)
	case !s.HasRunning && s.Running != 0, !s.HasWaiting && s.Waiting != 0, !s.HasKVUsage && s.KVUsage != 0,
		!s.HasHits && (s.Hits != 0 || s.Queries != 0), !s.HasPromptTokens && s.PromptTokens != 0, !s.HasSleep && s.Asleep:
		return fmt.Errorf("a value that was not said: %+v", s)
	case !slices.Contains([]string{"vllm", "sglang"}, s.Engine):
		return fmt.Errorf("engine %q", s.Engine)
	}
	return nil
}

// FuzzParse feeds anything: it is either unknown or says what can be.
func FuzzParse(f *testing.F) {
	for _, page := range pages(f) {
		f.Add([]byte(page), contentType(page))
	}
	f.Add([]byte("<html>"), "text/html")
	f.Add([]byte("sglang:num_running_reqs{dp_rank=\"0\"} 1e308\nsglang:num_running_reqs{dp_rank=\"1\"} 1e15\n"), "")
	f.Add([]byte("vllm:cache_config_info{block_size=\"1e15\",num_gpu_blocks=\"1e15\"} 1 # {x=\"\n"), "")
	f.Fuzz(func(t *testing.T, data []byte, contentType string) {
		page, err := Parse(data, contentType)
		if err != nil {
			if page != nil || err.Error() == "" {
				t.Fatalf("page %v beside error %v", page, err)
			}
			return
		}
		for _, rank := range []int{backends.NoRank, 0, 1} {
			s, err := page.State(rank)
			if err == nil {
				err = valid(s)
			} else if s.Engine == "" {
				continue
			}
			if err != nil {
				t.Fatalf("rank %d: %v", rank, err)
			}
		}
	})
}

// A page of nothing but different series of one name is read up to a bound.
func TestPageOfOneName(t *testing.T) {
	for _, size := range []int{maxLines / 2, maxLines + 100} {
		var page bytes.Buffer
		n := 0
		for ; page.Len() < size; n++ {
			fmt.Fprintf(&page, "vllm:num_requests_running{engine=\"%d\"} 1\n", n)
		}
		p, err := Parse(page.Bytes(), "")
		if size > maxLines {
			if err == nil || !strings.Contains(err.Error(), "more series") {
				t.Errorf("%d bytes: error %v", size, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, err := p.State(backends.NoRank); err != nil || s.Running != n {
			t.Errorf("%d running, want %d; error %v", s.Running, n, err)
		}
		if _, err := p.State(n); err == nil || len(err.Error()) > 300 {
			t.Errorf("a rank that is not there: %.400v", err)
		}
	}
}

// BenchmarkParse reads a page as long as vLLM's.
func BenchmarkParse(b *testing.B) {
	page, err := os.ReadFile("testdata/vllm-0.24.txt")
	if err != nil {
		b.Fatal(err)
	}
	var rest bytes.Buffer
	for i := 0; rest.Len()+len(page) < 27<<10; i++ {
		fmt.Fprintf(&rest, "vllm:e2e_request_latency_seconds_bucket{engine=\"0\",le=\"%d.0\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} %d.0\n", i, i)
	}
	page = append(rest.Bytes(), page...)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		p, err := Parse(page, "text/plain; version=0.0.4; charset=utf-8")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.State(backends.NoRank); err != nil {
			b.Fatal(err)
		}
	}
}
