package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// rig is a telemetry that watches a router of one pool, and what it logs.
type rig struct {
	*Telemetry

	router *router.Router
	pool   *router.Pool
	log    *bytes.Buffer
}

func newRig(t *testing.T, level slog.Level) *rig {
	t.Helper()
	g := &rig{log: new(bytes.Buffer)}
	logger := slog.New(slog.NewJSONHandler(g.log, &slog.HandlerOptions{Level: level}))
	var err error
	g.Telemetry, err = New(Options{Logger: logger, Version: "v1.2.3", Recent: 4, Dialects: []string{"openai", "anthropic"}})
	if err != nil {
		t.Fatal(err)
	}
	g.router = router.New(router.Options{Hooks: g.Hooks()})
	g.pool, err = g.router.AddPool(router.PoolSpec{
		Name:     "chat",
		Models:   []router.ModelSpec{{Name: "m"}, {Name: "alias", Served: "m"}},
		Config:   router.DefaultConfig(),
		Ejection: backends.DefaultEjection(),
		Backends: specs("http://b1:8000", "http://b2:8000", "http://b3:8000"),
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Watch(g.router)
	return g
}

func specs(urls ...string) []backends.Spec {
	var all []backends.Spec
	for _, u := range urls {
		all = append(all, backends.Spec{URL: u, Rank: backends.NoRank})
	}
	return all
}

// series returns the names of all our series.
func (g *rig) series(t *testing.T) map[string]bool {
	t.Helper()
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("/metrics: %d %s", w.Code, w.Body)
	}
	all := make(map[string]bool)
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "warmroute_") {
			all[line[:strings.LastIndexByte(line, ' ')]] = true
		}
	}
	return all
}

// value returns the number that one series has.
func (g *rig) value(t *testing.T, series string) string {
	t.Helper()
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	t.Fatalf("there is no series %s", series)
	return ""
}

// answered is the record of a request that went well.
func answered() *feedback.Record {
	return &feedback.Record{
		Start: time.Unix(100, 0), Duration: 3 * time.Second, TTFT: 200 * time.Millisecond,
		RequestID: "r-1", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Method: "POST", Route: "/v1/chat/completions", Dialect: "openai",
		Status: 200, Result: feedback.Success, Streamed: true, RequestBytes: 5000, ResponseBytes: 900,
		Pool: "chat", Model: "m", Strategy: router.PrefixAware, Reason: "longest_match", Backend: "b2:8000", DecisionID: "00000000000000aa",
		Why: "longest match: b2:8000 holds 8 of 10 blocks", Attempts: 2, InFlight: 7, PromptBlocks: 10, MatchedBlocks: 8, HasPrefix: true,
		PromptTokens: 640, PredictedCached: 512, AvailableCached: 560,
		Usage: feedback.Usage{Prompt: 700, Completion: 20, Cached: 496, HasPrompt: true, HasCompletion: true, HasCached: true},
	}
}

func TestOB01RequestsAddNoSeries(t *testing.T) {
	g := newRig(t, slog.LevelError)
	g.Observe(answered()) // makes the one series of a known model
	alias := answered()
	alias.Model = "alias"
	g.Observe(alias)
	before := g.series(t)
	for i := range 5000 {
		r := answered()
		name := fmt.Sprintf("random-%d", i)
		switch i % 4 {
		case 0: // what a proxy makes of an unknown model
			r.Model, r.Pool, r.Result, r.Status, r.DecisionID, r.Backend = "", "", feedback.NotFound, 404, "", ""
		case 1: // and what it would take to fold were it less careful
			r.Model = name
		case 2:
			r.Pool = name
		case 3:
			r.Dialect, r.Route, r.Method = name, "/"+name, name
		}
		g.Observe(r)
	}
	if diff := cmp.Diff(before, g.series(t)); diff != "" {
		t.Errorf("series (-before +after)\n%s", diff)
	}
	for series, want := range map[string]string{
		`warmroute_model_requests_total{model="m",pool="chat"}`:                           "1251",
		`warmroute_model_requests_total{model="alias",pool="chat"}`:                       "1",
		`warmroute_model_requests_total{model="other",pool="chat"}`:                       "1250",
		`warmroute_requests_total{dialect="openai",pool="none",result="not_found"}`:       "1250",
		`warmroute_requests_total{dialect="openai",pool="none",result="success"}`:         "1250",
		`warmroute_requests_total{dialect="other",pool="chat",result="success"}`:          "1250",
		`warmroute_requests_total{dialect="openai",pool="chat",result="success"}`:         "1252",
		`warmroute_requests_total{dialect="anthropic",pool="chat",result="engine_error"}`: "0",
	} {
		if got := g.value(t, series); got != want {
			t.Errorf("%s is %s, want %s", series, got, want)
		}
	}
}

func TestOB04TheAccessRecordSaysWhy(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		g := newRig(t, level)
		g.Observe(answered())
		lines := strings.Split(strings.TrimSpace(g.log.String()), "\n")
		if len(lines) != 1 {
			t.Fatalf("%d log lines for one request:\n%s", len(lines), g.log)
		}
		got := make(map[string]any)
		if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
			t.Fatal(err)
		}
		delete(got, "time")
		want := map[string]any{
			"level": "INFO", "msg": "request", "request_id": "r-1", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
			"method": "POST", "route": "/v1/chat/completions", "dialect": "openai", "status": 200.0, "result": "success",
			"duration": 3e9, "ttft": 2e8, "stream": true, "request_bytes": 5000.0, "response_bytes": 900.0,
			"pool": "chat", "model": "m", "backend": "b2:8000", "reason": "longest_match", "strategy": "PREFIX_AWARE",
			"decision_id": "00000000000000aa", "overflow": false, "attempts": 2.0, "in_flight": 7.0, "matched_blocks": 8.0, "prompt_blocks": 10.0,
			"estimated_prompt_tokens": 640.0, "predicted_cached_tokens": 512.0, "available_cached_tokens": 560.0,
			"prompt_tokens": 700.0, "cached_tokens": 496.0, "completion_tokens": 20.0,
		}
		if level == slog.LevelDebug {
			want["why"] = "longest match: b2:8000 holds 8 of 10 blocks"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got)\n%s", level, diff)
		}
	}
}

func TestFaultsAreLoggedAsWarnings(t *testing.T) {
	g := newRig(t, slog.LevelWarn)
	g.Observe(answered())
	if g.log.Len() > 0 {
		t.Errorf("a success is logged as a warning: %s", g.log)
	}
	failed := answered()
	failed.Status, failed.Result, failed.Err = 502, feedback.Unavailable, "no connection"
	g.Observe(failed)
	if s := g.log.String(); !strings.Contains(s, `"level":"WARN"`) || !strings.Contains(s, `"error":"no connection"`) {
		t.Errorf("log: %s", s)
	}
}

func TestRecordsAreCounted(t *testing.T) {
	g := newRig(t, slog.LevelError)
	g.Observe(answered())
	unreported := answered()
	unreported.Usage = feedback.Usage{}
	g.Observe(unreported)
	null := answered()
	null.Usage = feedback.Usage{Prompt: 300, HasPrompt: true, CachedNull: true}
	null.HasPrefix = false
	g.Observe(null)
	nonsense := answered()
	nonsense.Usage.Nonsense = true
	nonsense.PredictedCached = 0
	g.Observe(nonsense)
	aborted := answered()
	aborted.Result, aborted.PredictedCached = feedback.UpstreamAborted, 100
	g.Observe(aborted)
	whole := answered()
	whole.Streamed = false // its first byte is its last
	g.Observe(whole)
	g.expect(t, map[string]string{
		`warmroute_usage_reports_total{kind="reported",pool="chat"}`:                       "2",
		`warmroute_usage_reports_total{kind="absent",pool="chat"}`:                         "1",
		`warmroute_usage_reports_total{kind="null",pool="chat"}`:                           "1",
		`warmroute_usage_reports_total{kind="nonsense",pool="chat"}`:                       "1",
		`warmroute_streams_aborted_total{pool="chat"}`:                                     "1",
		`warmroute_requests_without_prefix_total{pool="chat"}`:                             "1",
		`warmroute_attempts_total{pool="chat"}`:                                            "12",
		`warmroute_retries_total{pool="chat"}`:                                             "6",
		`warmroute_ttft_seconds_count{hit="most",pool="chat"}`:                             "3",
		`warmroute_ttft_seconds_count{hit="some",pool="chat"}`:                             "1",
		`warmroute_ttft_seconds_count{hit="none",pool="chat"}`:                             "1",
		`warmroute_request_duration_seconds_count{pool="chat"}`:                            "6",
		`warmroute_request_bytes_total{pool="chat"}`:                                       "30000",
		`warmroute_response_bytes_total{pool="chat"}`:                                      "5400",
		`warmroute_requests_total{dialect="openai",pool="chat",result="upstream_aborted"}`: "1",
		`warmroute_requests_total{dialect="openai",pool="chat",result="success"}`:          "5",
		`warmroute_model_requests_total{model="m",pool="chat"}`:                            "6",
		`warmroute_build_info{go_version="` + goVersion(g) + `",version="v1.2.3"}`:         "1",
	})
}

// expect compares series with what they must be.
func (g *rig) expect(t *testing.T, want map[string]string) {
	t.Helper()
	for series, want := range want {
		if got := g.value(t, series); got != want {
			t.Errorf("%s is %s, want %s", series, got, want)
		}
	}
}

// answer routes a prompt of 40 blocks to a backend and completes it.
func (g *rig) answer(t *testing.T, backend string, at time.Time, result feedback.Result, u feedback.Usage) {
	t.Helper()
	d, err := g.router.Route(&router.Request{
		Now: at, Pool: g.pool, Model: "m", Pin: backend, Blocks: keys(40), StreamBytes: 40 * 256, HashedBytes: 40 * 256,
	})
	if err != nil {
		t.Fatal(err)
	}
	g.router.Complete(d, feedback.Outcome{Now: at.Add(time.Second), Result: result, FirstByte: true, Usage: u})
}

func keys(n int) []kvindex.Key {
	all := make([]kvindex.Key, n)
	for i := range all {
		all[i] = kvindex.Key(i + 1)
	}
	return all
}

func TestTokensAreAccountedByPoolAndBackend(t *testing.T) {
	g := newRig(t, slog.LevelError)
	at := time.Unix(1000, 0)
	usage := func(cached int) feedback.Usage {
		return feedback.Usage{Prompt: 2560, Cached: cached, Completion: 10, HasPrompt: true, HasCached: true, HasCompletion: true}
	}
	null := feedback.Usage{Prompt: 2560, HasPrompt: true, CachedNull: true}
	g.answer(t, "b1:8000", at, feedback.Success, null) // it has not reported any number: unknown
	g.answer(t, "b1:8000", at.Add(time.Minute), feedback.Success, usage(2544))
	g.answer(t, "b1:8000", at.Add(2*time.Minute), feedback.Success, null) // so this is a miss
	g.answer(t, "b1:8000", at.Add(3*time.Minute), feedback.UpstreamAborted, usage(2544))
	g.answer(t, "b2:8000", at.Add(4*time.Minute), feedback.Success, usage(0))
	g.expect(t, map[string]string{
		`warmroute_prompt_tokens_total{pool="chat"}`:                                     "10240",
		`warmroute_reported_prompt_tokens_total{pool="chat"}`:                            "7680",
		`warmroute_delivered_cached_tokens_total{pool="chat"}`:                           "2544",
		`warmroute_completion_tokens_total{pool="chat"}`:                                 "20",
		`warmroute_backend_prompt_tokens_total{backend="b1:8000",pool="chat"}`:           "7680",
		`warmroute_backend_reported_prompt_tokens_total{backend="b1:8000",pool="chat"}`:  "5120",
		`warmroute_backend_delivered_cached_tokens_total{backend="b1:8000",pool="chat"}`: "2544",
		`warmroute_backend_completion_tokens_total{backend="b1:8000",pool="chat"}`:       "10",
		`warmroute_backend_prompt_tokens_total{backend="b2:8000",pool="chat"}`:           "2560",
		`warmroute_backend_captured_cached_tokens_total{backend="b2:8000",pool="chat"}`:  "0",
		`warmroute_backend_available_cached_tokens_total{backend="b3:8000",pool="chat"}`: "0",
		`warmroute_evidence_total{pool="chat",ruling="confirmed"}`:                       "1",
	})
	// Every prompt token is delivered or has a cause why not.
	sum := 0
	for _, series := range []string{
		`delivered_cached_tokens_total{pool="chat"}`,
		`undelivered_tokens_total{cause="no_reuse",pool="chat"}`, `undelivered_tokens_total{cause="overflow",pool="chat"}`,
		`undelivered_tokens_total{cause="load_choice",pool="chat"}`, `undelivered_tokens_total{cause="stale_index",pool="chat"}`,
		`undelivered_tokens_total{cause="unreported",pool="chat"}`,
	} {
		n, err := strconv.Atoi(g.value(t, "warmroute_"+series))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum != 10240 {
		t.Errorf("%d of 10240 prompt tokens are explained", sum)
	}
}

func TestCorrectionsAreCountedAndLogged(t *testing.T) {
	g := newRig(t, slog.LevelInfo)
	h := g.Hooks()
	b := g.pool.Backends()[0]
	d, err := g.router.Route(&router.Request{Now: time.Unix(1000, 0), Pool: g.pool, Model: "m", Pin: b.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, ruling := range feedback.Rulings() {
		h.Judged(d, feedback.Claim{}, ruling)
	}
	for _, cause := range router.Causes() {
		h.HorizonMoved(g.pool, b, cause, 7)
	}
	h.Silent(g.pool, b, true)
	h.Hopeless(g.pool, b, true)
	g.expect(t, map[string]string{
		`warmroute_evidence_total{pool="chat",ruling="void"}`:                "1",
		`warmroute_horizon_moves_total{cause="restart",pool="chat"}`:         "1",
		`warmroute_forgotten_blocks_total{cause="shortfall",pool="chat"}`:    "7",
		`warmroute_backend_never_confirmed{backend="b1:8000",pool="chat"}`:   "1",
		`warmroute_backend_never_confirmed{backend="b2:8000",pool="chat"}`:   "0",
		`warmroute_backend_decisions_total{backend="b1:8000",pool="chat"}`:   "1",
		`warmroute_backend_concurrency_limit{backend="b1:8000",pool="chat"}`: "128",
	})
	h.Hopeless(g.pool, b, false)
	g.expect(t, map[string]string{`warmroute_backend_never_confirmed{backend="b1:8000",pool="chat"}`: "0"})
	for _, want := range []string{
		`"level":"INFO","msg":"backend has lost cached prefixes","pool":"chat","backend":"b1:8000","cause":"restart","forgotten_blocks":7`,
		"--enable-prompt-tokens-details", "never confirmed a hit", "after all",
	} {
		if !strings.Contains(g.log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, g.log)
		}
	}
}

// goVersion reads the label that build_info has.
func goVersion(g *rig) string {
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	_, rest, _ := strings.Cut(w.Body.String(), `warmroute_build_info{go_version="`)
	version, _, _ := strings.Cut(rest, `"`)
	return version
}

func TestHooksCountDecisionsAndEjections(t *testing.T) {
	g := newRig(t, slog.LevelInfo)
	now := time.Unix(1000, 0)
	for range 3 {
		d, err := g.router.Route(&router.Request{Now: now, Pool: g.pool, Model: "m", Pin: "b3:8000"})
		if err != nil {
			t.Fatal(err)
		}
		g.router.Complete(d, feedback.Outcome{Now: now, Result: feedback.Unavailable, Blame: feedback.Strike})
	}
	for series, want := range map[string]string{
		`warmroute_decisions_total{pool="chat",reason="pinned",strategy="PREFIX_AWARE"}`: "3",
		`warmroute_backend_decisions_total{backend="b3:8000",pool="chat"}`:               "3",
		`warmroute_backend_ejections_total{backend="b3:8000",pool="chat"}`:               "1",
		`warmroute_overflow_total{pool="chat"}`:                                          "0",
	} {
		if got := g.value(t, series); got != want {
			t.Errorf("%s is %s, want %s", series, got, want)
		}
	}
	if s := g.log.String(); strings.Count(s, `"msg":"backend ejected"`) != 1 || !strings.Contains(s, `"backend":"b3:8000"`) {
		t.Errorf("log: %s", s)
	}

	g.log.Reset()
	now = now.Add(time.Minute)
	for range 2 {
		d, err := g.router.Route(&router.Request{Now: now, Pool: g.pool, Model: "m", Pin: "b3:8000"})
		if err != nil {
			t.Fatal(err)
		}
		g.router.Complete(d, feedback.Outcome{Now: now, Result: feedback.Success, Blame: feedback.Healthy})
	}
	if s := g.log.String(); strings.Count(s, `"msg":"backend is back","pool":"chat","backend":"b3:8000"`) != 1 {
		t.Errorf("log of the return: %s", s)
	}
}

func TestTheWaitingAreCounted(t *testing.T) {
	g := newRig(t, slog.LevelError)
	w, err := g.pool.Join("", 1, 1)
	if err != nil {
		t.Fatal("no place in line")
	}
	const series = `warmroute_waiting_requests{pool="chat"}`
	if got := g.value(t, series); got != "1" {
		t.Errorf("%s is %s, want 1", series, got)
	}
	w.Leave(false)
	if got := g.value(t, series); got != "0" {
		t.Errorf("%s is %s, want 0", series, got)
	}
}

func TestSeriesOfBackendsThatLeftAreGone(t *testing.T) {
	g := newRig(t, slog.LevelError)
	g.Observe(answered())
	if _, err := g.pool.SetBackends(specs("http://b1:8000", "http://b9:8000")); err != nil {
		t.Fatal(err)
	}
	g.series(t)
	g.Observe(answered()) // of b2, which has left
	for range 2 {
		for name := range g.series(t) {
			if strings.Contains(name, "b2:8000") || strings.Contains(name, "b3:8000") {
				t.Errorf("stale series %s", name)
			}
		}
	}
	if len(g.backends.known) != 2 {
		t.Errorf("counts are kept of %d backends, want 2", len(g.backends.known))
	}
	g.value(t, `warmroute_backend_in_flight{backend="b9:8000",pool="chat"}`)
}

func TestMetricsFollowTheConventions(t *testing.T) {
	g := newRig(t, slog.LevelError)
	g.Observe(answered())
	if err := g.ReadBodies(func() int64 { return 42 }); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(g.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if got := g.value(t, "warmroute_body_bytes_in_flight"); got != "42" {
		t.Errorf("body_bytes_in_flight is %s", got)
	}
}

func TestRecentKeepsTheLatest(t *testing.T) {
	g := newRig(t, slog.LevelError)
	ids := func(n int) []string {
		var all []string
		for _, r := range g.Recent(n) {
			all = append(all, r.RequestID)
		}
		return all
	}
	if got := ids(10); len(got) != 0 {
		t.Errorf("nothing has been, but Recent is %v", got)
	}
	for i := range 6 {
		r := answered()
		r.RequestID = fmt.Sprint(i)
		g.Observe(r)
		if i == 1 && !slices.Equal(ids(10), []string{"1", "0"}) {
			t.Errorf("Recent is %v", ids(10))
		}
	}
	if got := ids(10); !slices.Equal(got, []string{"5", "4", "3", "2"}) {
		t.Errorf("Recent is %v, want the last four", got)
	}
	if got := ids(2); !slices.Equal(got, []string{"5", "4"}) {
		t.Errorf("Recent(2) is %v", got)
	}
	if got := ids(-1); len(got) != 0 {
		t.Errorf("Recent(-1) is %v", got)
	}
}

func TestObserveMayBeCalledAtOnce(t *testing.T) {
	g := newRig(t, slog.LevelError)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 200 {
				r := answered()
				r.Backend = fmt.Sprintf("b%d:8000", i%4)
				g.Observe(r)
				if i%50 == 0 {
					g.Recent(10)
					if worker == 0 {
						g.series(t)
					}
				}
			}
		})
	}
	wg.Wait()
	if got := g.value(t, `warmroute_requests_total{dialect="openai",pool="chat",result="success"}`); got != "800" {
		t.Errorf("%s requests were counted, want 800", got)
	}
}

func TestZeroOptions(t *testing.T) {
	tel, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	tel.Observe(answered())
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), `version="unknown"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestNewLogger(t *testing.T) {
	enabled := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	for _, name := range slices.Sorted(maps.Keys(enabled)) {
		level, err := ParseLevel(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{"text", "json"} {
			var out bytes.Buffer
			l, err := NewLogger(&out, level, format)
			if err != nil {
				t.Fatal(err)
			}
			l.Log(t.Context(), enabled[name]-1, "below")
			l.Log(t.Context(), enabled[name], "at")
			if s := out.String(); strings.Contains(s, "below") || !strings.Contains(s, "at") || strings.HasPrefix(s, "{") != (format == "json") {
				t.Errorf("%s %s: %q", name, format, s)
			}
		}
	}
	if _, err := ParseLevel("loud"); err == nil {
		t.Error("loud is a level")
	}
	if _, err := NewLogger(&bytes.Buffer{}, slog.LevelInfo, "xml"); err == nil {
		t.Error("xml is a format")
	}
}
