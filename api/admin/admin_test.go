package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/scrape"
	"github.com/warmroute/warmroute/kvindex/redisindex"
	"github.com/warmroute/warmroute/router"
)

// port is an admin port over a router with two pools, and what it is told.
type port struct {
	router   *router.Router
	now      time.Time
	silent   map[string]bool
	stopping bool
	records  []feedback.Record
	scrapes  map[string]scrape.Status
	sharing  *redisindex.Status // nil where the index is not shared
	handler  http.Handler
}

func newPort(t *testing.T) *port {
	t.Helper()
	p := &port{router: router.New(router.Options{}), silent: make(map[string]bool), now: time.Now()}
	for _, spec := range []router.PoolSpec{
		{Name: "chat", Backends: []backends.Spec{{URL: "http://b1:8000", Rank: backends.NoRank}, {URL: "http://b2:8000", Rank: backends.NoRank, Weight: 2}}},
		{Name: "embed", Models: []router.ModelSpec{{Name: "e"}}, Backends: []backends.Spec{{URL: "http://b3:8000", Rank: 0, ConcurrencyThreshold: 7}}},
	} {
		spec.Config, spec.Ejection = router.DefaultConfig(), backends.DefaultEjection()
		if _, err := p.router.AddPool(spec); err != nil {
			t.Fatal(err)
		}
	}
	p.handler = New(Options{
		Router:    p.router,
		Metrics:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metrics here") }),
		Recent:    func(n int) []feedback.Record { return p.records[:min(n, len(p.records))] },
		Stopping:  func() bool { return p.stopping },
		Answering: func(b *backends.Backend) bool { return !p.silent[b.ID] },
		Scrapes: func(b *backends.Backend) (scrape.Status, bool) {
			s, ok := p.scrapes[b.ID]
			return s, ok
		},
		Sharing: func() (redisindex.Status, bool) {
			if p.sharing == nil {
				return redisindex.Status{}, false
			}
			return *p.sharing, true
		},
		Now:     func() time.Time { return p.now },
		Version: "v1",
	})
	return p
}

// backend finds a backend by id.
func (p *port) backend(id string) *backends.Backend {
	for _, pool := range p.router.Pools() {
		for _, b := range pool.Backends() {
			if b.ID == id {
				return b
			}
		}
	}
	return nil
}

func (p *port) get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// getJSON reads an answer that must have a status.
func getJSON[T any](t *testing.T, p *port, path string, status int) T {
	t.Helper()
	w := p.get(t, path)
	if w.Code != status || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %d %s\n%s", path, w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	var v T
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

func TestOB06LivenessAndReadiness(t *testing.T) {
	p := newPort(t)
	ready := func(status int, want string, serving int) readiness {
		t.Helper()
		r := getJSON[readiness](t, p, "/readyz", status)
		if r.Status != want || r.Serving != serving || r.Backends != 3 {
			t.Errorf("readiness is %s, %d of %d serve; want %s, %d", r.Status, r.Serving, r.Backends, want, serving)
		}
		if w := p.get(t, "/healthz"); w.Code != 200 {
			t.Errorf("/healthz: %d", w.Code)
		}
		return r
	}
	// Nobody of chat has said what it serves; embed is taken at the file's word.
	r := ready(200, "ready", 1)
	want := []poolReadiness{{Name: "chat", Backends: 2, Up: 2, NotLearned: 2}, {Name: "embed", Backends: 1, Up: 1, Serving: 1}}
	if diff := cmp.Diff(want, r.Pools); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	p.backend("b3:8000#0").SetUnreachable(true)
	ready(503, "unavailable", 0)

	p.backend("b1:8000").SetModels([]backends.Model{{ID: "m"}})
	ready(200, "ready", 1)
	p.silent["b1:8000"] = true
	r = ready(503, "unavailable", 0)
	if diff := cmp.Diff(poolReadiness{Name: "chat", Backends: 2, Up: 2, NotAnswering: 1, NotLearned: 1}, r.Pools[0]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	p.silent["b1:8000"] = false
	p.backend("b1:8000").Drain(true)
	r = ready(503, "unavailable", 0)
	if r.Pools[0].Draining != 1 || r.Pools[1].Unreachable != 1 {
		t.Errorf("counts: %+v", r.Pools)
	}
	p.backend("b1:8000").Drain(false)
	p.stopping = true
	ready(503, "stopping", 1)
}

func TestEjectedBackendsDoNotServe(t *testing.T) {
	p := newPort(t)
	pool := p.router.Pools()[0]
	b := p.backend("b1:8000")
	b.SetModels([]backends.Model{{ID: "m"}})
	for range 3 {
		d, err := p.router.Route(&router.Request{Now: time.Now(), Pool: pool, Model: "m", Pin: "b1:8000"})
		if err != nil {
			t.Fatal(err)
		}
		p.router.Complete(d, feedback.Outcome{Now: time.Now(), Result: feedback.Unavailable, Blame: feedback.Strike})
	}
	if r := getJSON[readiness](t, p, "/readyz", 200); r.Pools[0].Ejected != 1 || r.Pools[0].Serving != 0 {
		t.Errorf("%+v", r.Pools[0])
	}
}

func TestState(t *testing.T) {
	p := newPort(t)
	p.backend("b1:8000").SetModels([]backends.Model{{ID: "m"}, {ID: "lora"}})
	d, err := p.router.Route(&router.Request{Now: time.Now(), Pool: p.router.Pools()[0], Model: "m", Pin: "b1:8000"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.router.Complete(d, feedback.Outcome{Now: time.Now()})
	w, err := p.router.Pools()[0].Join("", 1, 1)
	if err != nil {
		t.Fatal("no place in line")
	}
	defer w.Leave(true)
	got := getJSON[fleet](t, p, "/debug/state", 200)
	capacity := p.router.Pools()[0].Status(time.Now())[0].Index.Capacity
	want := fleet{Pools: []pool{
		{Name: "chat", Strategy: "PREFIX_AWARE", BytesPerToken: 4, Waiting: 1, Models: []string{"m", "lora"}, Backends: []backend{
			{ID: "b1:8000", URL: "http://b1:8000", State: "up", Answering: true, InFlight: 1, Limit: 128, CapacityBlocks: capacity, PrefillRate: 2000, Weight: 1, Models: []string{"m", "lora"}},
			{ID: "b2:8000", URL: "http://b2:8000", State: "up", Answering: true, Limit: 128, CapacityBlocks: capacity, PrefillRate: 2000, Weight: 2, Models: []string{}},
		}},
		{Name: "embed", Strategy: "PREFIX_AWARE", BytesPerToken: 4, Models: []string{"e"}, Backends: []backend{
			{ID: "b3:8000#0", URL: "http://b3:8000", State: "up", Answering: true, Limit: 7, CapacityBlocks: capacity, PrefillRate: 2000, Weight: 1, Models: []string{}},
		}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// /debug/state tells what engines say of themselves, and null where they do not.
func TestStateOfEngines(t *testing.T) {
	p := newPort(t)
	chat := p.router.Pools()[0]
	b1, b2 := p.backend("b1:8000"), p.backend("b2:8000")
	p.router.Scraped(chat, b1, feedback.EngineState{
		At: p.now.Add(-10 * time.Second), Engine: "vllm", Running: 3, HasRunning: true, HasWaiting: true, KVUsage: 0.5, HasKVUsage: true,
		CapacityTokens: 400_000, BlockTokens: 16, HasSleep: true, Started: 1000,
	})
	p.router.Scraped(chat, b1, feedback.EngineState{At: p.now.Add(-3 * time.Second), Engine: "vllm", HasSleep: true, Asleep: true})
	p.scrapes = map[string]scrape.Status{
		"b1:8000": {Last: p.now.Add(-3 * time.Second), Took: 2 * time.Millisecond, Good: 2},
		"b2:8000": {Bad: 4, Err: errors.New("backend b2:8000: /metrics answered with status 404")},
	}
	backendsOf := func() []backend { return getJSON[fleet](t, p, "/debug/state", 200).Pools[0].Backends }
	got := backendsOf()[0]
	want := &engine{Name: "vllm", Asleep: new(true)}
	if diff := cmp.Diff(want, got.Engine); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got.State != "asleep" || got.HorizonAge == nil || *got.HorizonAge != 3 {
		t.Errorf("an engine that fell asleep 3 s ago: %+v", got)
	}
	if diff := cmp.Diff(&scraped{Age: new(3.0), Duration: new(0.002), Good: 2}, got.Scrape); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	other := backendsOf()[1]
	if diff := cmp.Diff(&scraped{Failed: 4, Error: "backend b2:8000: /metrics answered with status 404"}, other.Scrape); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	p.router.Scraped(chat, b2, feedback.EngineState{
		At: p.now, Engine: "sglang", Running: 3, HasRunning: true, HasWaiting: true, KVUsage: 0.5, HasKVUsage: true,
		CapacityTokens: 400_000, BlockTokens: 16, HasSleep: true, Started: 1000, CachingOff: true,
	})
	want = &engine{
		Name: "sglang", Running: new(3), Waiting: new(0), KVUsage: new(0.5), CapacityTokens: new(400_000), BlockTokens: new(16),
		CachingOff: true, Asleep: new(false), Started: new(1000.0),
	}
	other = backendsOf()[1]
	if diff := cmp.Diff(want, other.Engine); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if other.HorizonAge != nil || other.State != "up" {
		t.Errorf("%+v", other)
	}
	if r := getJSON[readiness](t, p, "/readyz", 200); r.Pools[0].Asleep != 1 {
		t.Errorf("readiness: %+v", r.Pools[0])
	}
}

func TestDecisions(t *testing.T) {
	p := newPort(t)
	for i := range 120 {
		r := feedback.Record{Start: time.Unix(int64(1000-i), 0).UTC(), RequestID: fmt.Sprint(i), Duration: 1500 * time.Millisecond}
		if i%2 == 0 { // the others never got as far
			r.DecisionID, r.Reason, r.Why, r.Backend = fmt.Sprintf("%016x", i), "overflow", "every backend that holds the prompt is full", "b1:8000"
			r.Usage = feedback.Usage{Prompt: 9, HasPrompt: true, HasCached: true}
		}
		p.records = append(p.records, r)
	}
	type answer struct {
		Decisions []decision `json:"decisions"`
	}
	got := getJSON[answer](t, p, "/debug/decisions", 200).Decisions
	if len(got) != 50 || got[0].RequestID != "0" || got[1].RequestID != "2" {
		t.Errorf("%d decisions, first %+v", len(got), got[0])
	}
	first := got[0]
	if first.Reason != "overflow" || first.Why != "every backend that holds the prompt is full" || first.Duration != 1.5 {
		t.Errorf("%+v", first)
	}
	if first.CachedTokens == nil || *first.CachedTokens != 0 || first.CompletionTokens != nil || first.TTFT != nil {
		t.Errorf("0 and not reported are mixed up: %+v", first)
	}
	if got := getJSON[answer](t, p, "/debug/decisions?n=3", 200).Decisions; len(got) != 3 {
		t.Errorf("n=3 gives %d", len(got))
	}
	p.records[0].TTFT = time.Second
	if got := getJSON[answer](t, p, "/debug/decisions?n=1", 200).Decisions; got[0].TTFT == nil || *got[0].TTFT != 1 {
		t.Errorf("ttft_s: %+v", got[0].TTFT)
	}
	for _, n := range []string{"0", "-1", "x", "99999999"} {
		if got := getJSON[problem](t, p, "/debug/decisions?n="+n, 400); !strings.Contains(got.Error, "want a number") {
			t.Errorf("n=%s: %v", n, got)
		}
	}
}

func TestOtherPages(t *testing.T) {
	p := newPort(t)
	for path, want := range map[string]string{
		"/debug/": "/debug/decisions", "/metrics": "metrics here", "/healthz": "ok", "/debug/pprof/": "goroutine", "/debug/pprof/cmdline": "",
	} {
		if w := p.get(t, path); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %.100s", path, w.Code, w.Body)
		}
	}
	if w := p.get(t, "/nothing"); w.Code != 404 {
		t.Errorf("/nothing: %d", w.Code)
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/debug/state", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestDefaults(t *testing.T) {
	p := &port{router: router.New(router.Options{}), handler: New(Options{Router: router.New(router.Options{})})}
	if w := p.get(t, "/metrics"); w.Code != 404 {
		t.Errorf("/metrics without metrics: %d", w.Code)
	}
	if w := p.get(t, "/readyz"); w.Code != 503 {
		t.Errorf("/readyz without pools: %d", w.Code)
	}
	if w := p.get(t, "/debug/decisions"); w.Code != 200 || !strings.Contains(w.Body.String(), `"decisions": []`) {
		t.Errorf("/debug/decisions: %d %s", w.Code, w.Body)
	}
	if w := p.get(t, "/debug/state"); strings.TrimSpace(w.Body.String()) != "{\n  \"pools\": []\n}" {
		t.Errorf("/debug/state: %s", w.Body)
	}
}
