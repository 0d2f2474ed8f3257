package router

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/indextest"
)

func spec(name string, models []ModelSpec, urls ...string) PoolSpec {
	s := PoolSpec{Name: name, Models: models, Config: DefaultConfig(), Ejection: backends.DefaultEjection()}
	for _, u := range urls {
		s.Backends = append(s.Backends, backends.Spec{URL: u, Rank: backends.NoRank})
	}
	return s
}

func model(id string) backends.Model {
	return backends.Model{ID: id, JSON: fmt.Appendf(nil, `{"id":%q}`, id)}
}

func TestResolveConfigured(t *testing.T) {
	r := New(Options{})
	a, err := r.AddPool(spec("a", []ModelSpec{{Name: "qwen"}, {Name: "gpt-4", Served: "qwen"}}, "http://b1:80"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.AddPool(spec("b", []ModelSpec{{Name: "llama"}}, "http://b2:80"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Target{
		"qwen":  {Pool: a, Model: "qwen"},
		"gpt-4": {Pool: a, Model: "qwen", Alias: true},
		"llama": {Pool: b, Model: "llama"},
	} {
		if got, err := r.Resolve(name); err != nil || got != want {
			t.Errorf("Resolve(%q): got %+v, %v, want %+v", name, got, err, want)
		}
	}
	var unknown *UnknownModelError
	if _, err := r.Resolve("mistral"); !errors.As(err, &unknown) || unknown.Model != "mistral" {
		t.Errorf("Resolve of an unknown model: got %v", err)
	}
	if r.Find("b") != b || r.Find("c") != nil {
		t.Error("Find does not find what is there")
	}
}

func TestResolveLearned(t *testing.T) {
	r := New(Options{})
	p, err := r.AddPool(spec("a", nil, "http://b1:80", "http://b2:80"))
	if err != nil {
		t.Fatal(err)
	}
	var early *NotReadyError
	if _, err := r.Resolve("base"); !errors.As(err, &early) || early.RetryAfter <= 0 {
		t.Errorf("before any backend said anything: got %v, want a NotReadyError", err)
	}
	b1, b2 := p.Backends()[0], p.Backends()[1]
	b1.SetModels([]backends.Model{model("base"), model("lora")})
	b2.SetModels([]backends.Model{model("base")})
	if got, err := r.Resolve("lora"); err != nil || got.Pool != p {
		t.Errorf("Resolve(lora): got %+v, %v", got, err)
	}
	var unknown *UnknownModelError
	if _, err := r.Resolve("other"); !errors.As(err, &unknown) {
		t.Errorf("Resolve(other): got %v, want an UnknownModelError", err)
	}
	// Only a backend that serves it takes a request.
	for range 5 {
		d, err := r.Route(&Request{Now: time.Unix(1, 0), Pool: p, Model: "lora"})
		if err != nil || d.Backend != b1 || d.Reason != OnlyBackend {
			t.Fatalf("Route(lora): got %v, %v", d, err)
		}
	}
	var none *NoBackendError
	if _, err := r.Route(&Request{Now: time.Unix(1, 0), Pool: p, Model: "lora", Tried: []*backends.Backend{b1}}); !errors.As(err, &none) || none.Tried != 1 || none.OtherModel != 1 {
		t.Errorf("Route(lora) with b1 tried: got %v", err)
	}
	var names []string
	for _, m := range r.Models() {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff([]string{"base", "lora"}, names); diff != "" {
		t.Errorf("Models (-want +got):\n%s", diff)
	}
}

func TestModelsListsAliases(t *testing.T) {
	r := New(Options{})
	p, err := r.AddPool(spec("a", []ModelSpec{{Name: "qwen"}, {Name: "gpt-4", Served: "qwen"}}, "http://b1:80"))
	if err != nil {
		t.Fatal(err)
	}
	p.Backends()[0].SetModels([]backends.Model{model("qwen")})
	var got []string
	for _, m := range r.Models() {
		got = append(got, fmt.Sprintf("%s=%s %s", m.Name, m.Served, m.Entry.JSON))
	}
	if diff := cmp.Diff([]string{`qwen=qwen {"id":"qwen"}`, `gpt-4=qwen {"id":"qwen"}`}, got); diff != "" {
		t.Errorf("Models (-want +got):\n%s", diff)
	}
}

func TestAddPoolErrors(t *testing.T) {
	good := spec("a", []ModelSpec{{Name: "qwen"}, {Name: "alias", Served: "real"}}, "http://b1:80")
	for _, tc := range []struct {
		name   string
		change func(*PoolSpec)
		want   string
	}{
		{"no name", func(s *PoolSpec) { s.Name = "" }, "needs a name"},
		{"same name", func(s *PoolSpec) { s.Name = "a" }, `pool "a" is there twice`},
		{"same model", func(s *PoolSpec) { s.Models = []ModelSpec{{Name: "qwen"}} }, `model "qwen" is in pool "a" and again in pool "b"`},
		{"alias of a real name", func(s *PoolSpec) { s.Models = []ModelSpec{{Name: "real", Served: "x"}} }, `alias "real"`}, // DI-13
		{"bad backend", func(s *PoolSpec) { s.Backends = []backends.Spec{{URL: "b2"}} }, "backends[0]"},
		{"bad ejection", func(s *PoolSpec) { s.Ejection.Failures = -1 }, "ejection.failures"},
		{"bad config", func(s *PoolSpec) { s.Config.W = 9 }, "w: 9 is not in 1..4"},
	} {
		r := New(Options{})
		if _, err := r.AddPool(good); err != nil {
			t.Fatal(err)
		}
		s := spec("b", nil, "http://b2:80")
		tc.change(&s)
		if _, err := r.AddPool(s); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.name, err, tc.want)
		}
		if len(r.Pools()) != 1 {
			t.Errorf("%s: the refused pool is there", tc.name)
		}
	}
}

// Pools that share models are told apart by asking the pool; the router names the first.
func TestSharedModels(t *testing.T) {
	r := New(Options{})
	first, err := r.AddPool(spec("a", []ModelSpec{{Name: "qwen"}, {Name: "alias", Served: "real-a"}}, "http://b1:80"))
	if err != nil {
		t.Fatal(err)
	}
	shared := spec("b", []ModelSpec{{Name: "qwen"}, {Name: "alias", Served: "real-b"}, {Name: "own"}}, "http://b2:80")
	shared.SharesModels = true
	second, err := r.AddPool(shared)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		resolve func(string) (Target, error)
		model   string
		want    Target
	}{
		{r.Resolve, "qwen", Target{Pool: first, Model: "qwen"}},
		{r.Resolve, "alias", Target{Pool: first, Model: "real-a", Alias: true}},
		{r.Resolve, "own", Target{Pool: second, Model: "own"}},
		{first.Resolve, "alias", Target{Pool: first, Model: "real-a", Alias: true}},
		{second.Resolve, "alias", Target{Pool: second, Model: "real-b", Alias: true}},
		{second.Resolve, "qwen", Target{Pool: second, Model: "qwen"}},
	} {
		if got, err := test.resolve(test.model); err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v, want %+v", test.model, got, err, test.want)
		}
	}
	if _, err := first.Resolve("own"); err == nil || err.Error() != (&UnknownModelError{Model: "own"}).Error() {
		t.Errorf("a model of the other pool: %v", err)
	}
	var names []string
	for _, m := range r.Models() {
		names = append(names, m.Name+" of "+m.Pool.Name())
	}
	if want := []string{"qwen of a", "alias of a", "own of b"}; !slices.Equal(names, want) {
		t.Errorf("listed: %q, want %q", names, want)
	}
	shared.Name, shared.Models = "c", []ModelSpec{{Name: "twice"}, {Name: "twice"}}
	if _, err := r.AddPool(shared); err == nil {
		t.Error("a pool may not name a model twice")
	}
}

// A request without a model is for the only one there is, or the one that engines name
// first.
func TestOnlyModel(t *testing.T) {
	for _, test := range []struct {
		name       string
		configured []ModelSpec
		said       [][]string // by each backend; nil says nothing
		want       string
	}{
		{"one is configured", []ModelSpec{{Name: "m"}}, [][]string{nil}, "m"},
		{"and its alias", []ModelSpec{{Name: "alias", Served: "m"}, {Name: "m"}}, [][]string{nil}, "m"},
		{"two are, and one is first", []ModelSpec{{Name: "lora"}, {Name: "m"}}, [][]string{{"m", "lora"}}, "m"},
		{"two are, and nobody has said anything", []ModelSpec{{Name: "lora"}, {Name: "m"}}, [][]string{nil}, "unknown"},
		{"two are, and another is first", []ModelSpec{{Name: "lora"}, {Name: "m"}}, [][]string{{"x", "lora"}}, "unknown"},
		{"learned", nil, [][]string{{"m", "lora"}, nil, {"m"}}, "m"},
		{"learned, and different", nil, [][]string{{"m"}, {"x"}}, "unknown"},
		{"nothing is learned", nil, [][]string{nil, nil}, "not ready"},
		{"engines without models", nil, [][]string{{}}, "unknown"},
	} {
		var urls []string
		for i := range test.said {
			urls = append(urls, fmt.Sprintf("http://b%d:80", i))
		}
		pool, err := New(Options{}).AddPool(spec("p", test.configured, urls...))
		if err != nil {
			t.Fatal(err)
		}
		for i, names := range test.said {
			if names == nil {
				continue
			}
			models := []backends.Model{}
			for _, name := range names {
				models = append(models, backends.Model{ID: name})
			}
			pool.Backends()[i].SetModels(models)
		}
		target, err := pool.Resolve("")
		got := target.Model
		if _, early := errors.AsType[*NotReadyError](err); early {
			got = "not ready"
		} else if _, unknown := errors.AsType[*UnknownModelError](err); unknown {
			got = "unknown"
		}
		if got != test.want || target.Alias {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestConfigValidateNamesEverything(t *testing.T) {
	c := Config{Strategy: "BEST", PrefixLength: 10, ConcurrencyThreshold: 2000, MinMatchRatio: 2, LoadFactor: 0.5, QueueGuard: -1, W: 0, OnSaturation: "panic", PromptCacheKey: "maybe", NativeKey: "cooked", Replicas: 0, BlockBytes: 7}
	err := c.Validate()
	for _, want := range []string{
		`strategy: "BEST" is not one of RANDOM`, "prefix_length: 10 is not in 1024..1048576", "concurrency_threshold: 2000 is not in 1..1024",
		"min_match_ratio: 2", "load_factor: 0.5", "queue_guard: -1", "w: 0", `on_saturation: "panic"`, `prompt_cache_key: "maybe"`, `native_key: "cooked" is not one of auto, raw`, "replicas: 0", "block_bytes: 7 is not in 64..4096",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate: no %q in %v", want, err)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestHashLength(t *testing.T) {
	c := DefaultConfig()
	if got := c.HashLength(); got != MaxPrefixLength {
		t.Errorf("PREFIX_AWARE: %d", got)
	}
	c.Strategy = PrefixHash
	if got := c.HashLength(); got != 4096 {
		t.Errorf("PREFIX_HASH: %d", got)
	}
	c.PrefixLength = 2048
	if got := c.HashLength(); got != 2048 {
		t.Errorf("set: %d", got)
	}
}

func TestSetConfig(t *testing.T) {
	_, p := testPool(t, DefaultConfig(), 2)
	c := p.Config()
	c.BlockBytes = 512
	if err := p.SetConfig(c); err == nil || !strings.Contains(err.Error(), "block_bytes") {
		t.Errorf("changing block_bytes: got %v", err)
	}
	c = p.Config()
	c.W = 9
	if err := p.SetConfig(c); err == nil || p.Config().W != 2 {
		t.Errorf("a bad value: got %v and w = %v", err, p.Config().W)
	}
}

// TestBackendThatLeaves: its requests go on, its index is gone.
func TestBackendThatLeaves(t *testing.T) {
	r, p := testPool(t, DefaultConfig(), 2)
	keys := promptKeys("doc:20")
	req := &Request{Now: time.Unix(2000, 0), Pool: p, Model: "m", Blocks: keys, StreamBytes: 5120, HashedBytes: 5120}
	d, err := r.Route(req)
	if err != nil {
		t.Fatal(err)
	}
	var rest []backends.Spec
	for _, b := range p.Backends() {
		if b != d.Backend {
			rest = append(rest, backends.Spec{URL: b.URL.String(), Rank: backends.NoRank})
		}
	}
	if _, err := p.SetBackends(rest); err != nil {
		t.Fatal(err)
	}
	if !r.Complete(d, feedback.Outcome{Now: req.Now, Result: feedback.Success, FirstByte: true}) || d.Backend.InFlight() != 0 {
		t.Error("the request of the backend that left did not end")
	}
	again, err := r.Route(req)
	if err != nil || again.Backend == d.Backend || again.MatchedBlocks != 0 {
		t.Errorf("next request: got %+v, %v", again, err)
	}
}

// Backends that were added one by one stay whatever list is set, until they are removed.
func TestAddBackend(t *testing.T) {
	_, p := testPool(t, DefaultConfig(), 1)
	at := func(url string, weight float64) backends.Spec {
		return backends.Spec{URL: url, Rank: backends.NoRank, Weight: weight}
	}
	set := func(specs ...backends.Spec) {
		t.Helper()
		if duplicates, err := p.SetBackends(specs); err != nil || len(duplicates) > 0 {
			t.Errorf("SetBackends: %v, %v", duplicates, err)
		}
	}
	want := func(want ...string) {
		t.Helper()
		var got []string
		for _, b := range p.Backends() {
			got = append(got, fmt.Sprint(b.ID, " ", b.Weight()))
		}
		if !slices.Equal(got, want) {
			t.Errorf("backends %q, want %q", got, want)
		}
	}
	set(at("http://a:80", 1))
	for _, spec := range []backends.Spec{at("http://x:80", 2), at("http://y:80", 1), at("http://X:80/", 3)} {
		if err := p.AddBackend(spec); err != nil {
			t.Error(err)
		}
	}
	want("a:80 1", "x:80 3", "y:80 1")
	x := p.Backends()[1]
	set(at("http://b:80", 1))
	if want("b:80 1", "x:80 3", "y:80 1"); p.Backends()[1] != x {
		t.Error("x is another one, although it stayed")
	}
	if err := p.RemoveBackend("y:80"); err != nil {
		t.Error(err)
	}
	set(at("http://b:80", 1), at("http://x:80", 5))
	want("b:80 1", "x:80 5") // what is listed counts
	if err := p.RemoveBackend("x:80"); err != nil {
		t.Error(err)
	}
	want("b:80 1", "x:80 5")
	if err := p.AddBackend(at("ftp://z", 1)); err == nil {
		t.Error("a URL that makes no sense was added")
	}
	if duplicates, err := p.SetBackends([]backends.Spec{at("http://b:80", 1), at("http://b:80", 2)}); err != nil || !slices.Equal(duplicates, []string{"b:80"}) {
		t.Errorf("named twice: %v, %v", duplicates, err)
	}
	want("b:80 1")
}

func TestHooks(t *testing.T) {
	var events []string
	r := New(Options{Hooks: Hooks{
		Decided:   func(d *Decision) { events = append(events, "decided "+d.Reason.String()) },
		Completed: func(_ *Decision, o feedback.Outcome) { events = append(events, "completed "+o.Result.String()) },
		Ejected:   func(p *Pool, b *backends.Backend, _ time.Time) { events = append(events, "ejected "+p.Name()+" "+b.ID) },
		Returned:  func(p *Pool, b *backends.Backend) { events = append(events, "returned "+p.Name()+" "+b.ID) },
	}})
	s := spec("a", nil, "http://b1:80", "http://b2:80")
	s.Ejection.Failures = 1
	p, err := r.AddPool(s)
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Route(&Request{Now: time.Unix(1, 0), Pool: p, Model: "m", Pin: "b2:80"})
	if err != nil {
		t.Fatal(err)
	}
	o := feedback.Outcome{Now: time.Unix(2, 0), Result: feedback.Unavailable, Blame: feedback.Strike}
	r.Complete(d, o)
	r.Complete(d, o)
	if diff := cmp.Diff([]string{"decided pinned", "ejected a b2:80", "completed upstream_unavailable"}, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}

	// Its ejection is over: the first success is its return, the second is nothing.
	events = nil
	for range 2 {
		now := time.Unix(20, 0)
		d, err := r.Route(&Request{Now: now, Pool: p, Model: "m", Pin: "b2:80"})
		if err != nil {
			t.Fatal(err)
		}
		r.Complete(d, feedback.Outcome{Now: now, Result: feedback.Success, Blame: feedback.Healthy, FirstByte: true})
	}
	if diff := cmp.Diff([]string{"decided pinned", "returned a b2:80", "completed success", "decided pinned", "completed success"}, events); diff != "" {
		t.Errorf("events of the return (-want +got):\n%s", diff)
	}
}

func TestLine(t *testing.T) {
	config := DefaultConfig()
	config.OnSaturation = Queue
	r, p := testPool(t, config, 1)
	config.ConcurrencyThreshold = 1
	if err := p.SetConfig(config); err != nil {
		t.Fatal(err)
	}
	req := &Request{Now: time.Unix(1, 0), Pool: p, Model: "m"}
	d, err := r.Route(req)
	if err != nil {
		t.Fatal(err)
	}
	var full *SaturatedError
	if _, err := r.Route(req); !errors.As(err, &full) || !full.Wait {
		t.Fatalf("Route of a full pool: got %v, want to wait", err)
	}
	first, err := p.Join("", 2, 2)
	second, err2 := p.Join("", 2, 2)
	if _, third := p.Join("", 2, 2); err != nil || err2 != nil || !errors.Is(third, ErrLineFull) {
		t.Fatal("Join: want two places")
	}
	if got := p.Waiting(); got != 2 {
		t.Errorf("%d wait, want 2", got)
	}
	if called(first) || called(second) {
		t.Fatal("called before a slot is free")
	}
	if !first.First() || second.First() {
		t.Error("First: want the one that came first")
	}
	r.Complete(d, feedback.Outcome{Now: req.Now})
	if !called(first) || called(second) {
		t.Fatal("the first in line was not called, or the second was")
	}
	if second.First() {
		t.Error("the second is first while the first is on its way")
	}
	if _, err := r.Route(req); !errors.As(err, &full) {
		t.Errorf("a newcomer went past the line: %v", err)
	}
	first.Again() // found the slot taken
	if called(first) {
		t.Fatal("called again without a slot")
	}
	second.Leave(false) // gave up while waiting
	third, _ := p.Join("", 2, 2)
	p.line.wake(1)
	if !called(first) {
		t.Fatal("a waiter that came back lost its place at the front")
	}
	first.Leave(false) // called, but leaves: the call goes on
	if !called(third) {
		t.Fatal("the call was lost")
	}
	waited := *req
	waited.Waited = true
	if _, err := r.Route(&waited); err != nil {
		t.Errorf("Route out of the line: %v", err)
	}
	third.Leave(true)
	if got := p.Waiting(); got != 0 {
		t.Errorf("%d wait after all left", got)
	}
}

func called(w *Waiter) bool {
	select {
	case <-w.Ready():
		return true
	default:
		return false
	}
}

func TestRecent(t *testing.T) {
	var a, b recent
	if a.level() >= 0 || a.level() != b.level() {
		t.Error("two that were never assigned are not equal")
	}
	a.add(0)
	if a.level() <= b.level() {
		t.Error("one assignment is not more than none")
	}
	b.add(recentHalfLife) // one now is worth as much as two a half-life ago
	a.add(0)
	if got := a.level() - b.level(); got > 1e-12 || got < -1e-12 {
		t.Errorf("two assignments a half-life ago against one now: differ by %v", got)
	}
	for range 1000 {
		a.add(0)
	}
	b.add(20 * recentHalfLife)
	if a.level() >= b.level() {
		t.Error("a thousand assignments 20 half-lives ago count more than one now")
	}
}

// TestRendezvousMovesOnlyItsShare: a backend that leaves moves its own keys and no
// others, and weights are shares.
func TestRendezvousMovesOnlyItsShare(t *testing.T) {
	weights := map[string]float64{"a": 1, "b": 1, "c": 2, "d": 4}
	owner := func(key kvindex.Key, without string) string {
		best, score := "", 0.0
		for _, id := range []string{"a", "b", "c", "d"} {
			if s := rendezvous(key, hashID(id), weights[id]); id != without && s > score {
				best, score = id, s
			}
		}
		return best
	}
	share := make(map[string]float64)
	const keys = 400000
	for i := range keys {
		key := kvindex.Key(mix(uint64(i)))
		before := owner(key, "")
		share[before]++
		if after := owner(key, "b"); before != "b" && after != before {
			t.Fatalf("key %d moved from %s to %s although b left", i, before, after)
		}
	}
	for id, weight := range weights {
		if got, want := share[id]/keys, weight/8; got < want*0.95 || got > want*1.05 {
			t.Errorf("share of %s: got %.3f, want %.3f", id, got, want)
		}
	}
}

func TestDecisionIDsDiffer(t *testing.T) {
	r, p := testPool(t, DefaultConfig(), 2)
	seen := make(map[string]bool)
	for range 1000 {
		d, err := r.Route(&Request{Now: time.Unix(1, 0), Pool: p, Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if seen[d.ID()] || len(d.ID()) != 16 {
			t.Fatalf("decision id %q", d.ID())
		}
		seen[d.ID()] = true
	}
	if !slices.Contains(Strategies(), p.Config().Strategy) {
		t.Error("the default strategy is not in the list")
	}
}

// benchPool is a pool of 16 backends over an index of 1 M entries, and a prompt of
// 32 KiB that some of them hold in part.
func benchPool(tb testing.TB) (*Router, *Request) {
	index := kvindex.NewMemory(kvindex.MemoryConfig{Capacity: 80_000})
	r := New(Options{Index: index, Epoch: time.Unix(0, 0)})
	s := spec("pool", nil)
	for i := range 16 {
		s.Backends = append(s.Backends, backends.Spec{URL: fmt.Sprintf("http://10.0.0.%d:8000", i), Rank: backends.NoRank})
	}
	p, err := r.AddPool(s)
	if err != nil {
		tb.Fatal(err)
	}
	keys := promptKeys("doc:128")
	noise := make([]kvindex.Key, 128)
	n := uint64(0)
	for i, m := range *p.members.Load() {
		for range (1 << 20) / 16 / 128 {
			for j := range noise {
				n++
				noise[j] = kvindex.Key(mix(n))
			}
			index.Record(m.holder, noise, 1, kvindex.Observed)
		}
		if i%3 == 0 {
			index.Record(m.holder, keys[:20+i*7], 2, kvindex.Observed)
		}
	}
	req := &Request{Now: time.Unix(100, 0), Pool: p, Model: "m", Blocks: keys, StreamBytes: 32 << 10, HashedBytes: 32 << 10, Prefix: keys[127], Streamed: true}
	req.Rendezvous, req.HasPrefix = kvindex.RendezvousKey(keys, 256, "")
	return r, req
}

// BenchmarkRank is filter, match and rank; BenchmarkRoute adds the slot and the
// index entries.
//
//	go test -run='^$' -bench='Rank|Route' ./router
func BenchmarkRank(b *testing.B) {
	_, req := benchPool(b)
	v := new(view)
	b.ReportAllocs()
	for b.Loop() {
		v.look(req.Pool, req)
		v.choose(req.Pool)
	}
}

func BenchmarkRoute(b *testing.B) {
	r, req := benchPool(b)
	done := feedback.Outcome{Now: req.Now, Result: feedback.Success, Blame: feedback.Healthy, FirstByte: true}
	b.ReportAllocs()
	for b.Loop() {
		d, err := r.Route(req)
		if err != nil {
			b.Fatal(err)
		}
		r.Complete(d, done)
	}
}

// BenchmarkEvidence is what completing an answered 32 KiB prompt costs beside the writes
// to the index: reading its usage, accounting for it, and ruling on its evidence.
func BenchmarkEvidence(b *testing.B) {
	r, req := benchPool(b)
	d, err := r.Route(req)
	if err != nil {
		b.Fatal(err)
	}
	o := feedback.Outcome{
		Now: req.Now, Result: feedback.Success, FirstByte: true,
		Usage: feedback.Usage{Prompt: 8192, HasPrompt: true, HasCached: true, Cached: d.PredictedCached},
	}
	b.ReportAllocs()
	for b.Loop() {
		r.weigh(d, o, kvindex.Stamp(req.Now.UnixNano()))
	}
}

// narrowIndex has room for so many backends.
type narrowIndex struct {
	kvindex.Index
	room  int
	names map[kvindex.Holder]string
}

func (x *narrowIndex) AddAll(names []string) ([]kvindex.Holder, error) {
	known := slices.Collect(maps.Values(x.names))
	for _, name := range names {
		if !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	if len(known) > x.room {
		return nil, kvindex.ErrFull
	}
	all, err := x.Index.AddAll(names)
	for i, h := range all {
		x.names[h] = names[i]
	}
	return all, err
}

func (x *narrowIndex) Drop(h kvindex.Holder) {
	delete(x.names, h)
	x.Index.Drop(h)
}

// A list for which the index has no room changes nothing, and takes no room.
func TestSetBackendsIsAtomic(t *testing.T) {
	index := &narrowIndex{kvindex.NewMemory(kvindex.MemoryConfig{}), 3, make(map[kvindex.Holder]string)}
	p, err := New(Options{Index: index}).AddPool(spec("pool", nil, "http://b1:80"))
	if err != nil {
		t.Fatal(err)
	}
	before := p.Backends()[0]
	for _, urls := range [][]string{
		{"http://b1:80", "http://b2:80", "http://b3:80", "http://b4:80"},
		{"http://b2:80", "ftp://b3:80"},
	} {
		specs := spec("", nil, urls...).Backends
		specs[0].Weight = 7
		if _, err := p.SetBackends(specs); err == nil {
			t.Errorf("%v is taken over", urls)
		}
		if got := p.Backends(); len(got) != 1 || got[0] != before || got[0].Weight() != 1 || len(index.names) != 1 {
			t.Errorf("%v: after the error %d backends, weight %v, %d in the index", urls, len(got), got[0].Weight(), len(index.names))
		}
	}
	if _, err := p.SetBackends(spec("", nil, "http://b1:80", "http://b2:80", "http://b3:80").Backends); err != nil {
		t.Error(err)
	}
	if _, err := p.SetBackends(spec("", nil, "http://b3:80", "https://b2:80").Backends); err == nil || len(p.Backends()) != 3 {
		t.Errorf("a moved backend where there is no room: %v, %d backends", err, len(p.Backends()))
	}
	if twice, err := p.SetBackends(spec("", nil, "http://b1:80", "https://b1:80", "http://b2:80").Backends); err != nil || len(twice) != 1 || len(index.names) != 2 {
		t.Errorf("an id at two URLs: %v, %q twice, %d in the index", err, twice, len(index.names))
	}
}

// What is refused takes nothing from the backends that there are: their parts of the index are as
// before, and so is what they hold.
func TestRefusedBackendsTakeNoPartOfTheIndex(t *testing.T) {
	const blocks = 4096
	index := kvindex.NewMemory(kvindex.MemoryConfig{Capacity: blocks, MaxBlocks: blocks})
	p, err := New(Options{Index: index}).AddPool(spec("pool", nil, "http://b1:80"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range blocks / 16 {
		index.Record((*p.members.Load())[0].holder, indextest.Chain("f", fmt.Sprint(i), 0, 16), kvindex.Stamp(i), kvindex.Observed)
	}
	urls := []string{"http://b1:80"}
	for i := range 4096 {
		urls = append(urls, fmt.Sprintf("http://c%d:80", i))
	}
	for what, refused := range map[string][]string{"too many": urls, "one that makes no sense": {"http://b1:80", "http://b2:80", "ftp://b3:80"}} {
		if _, err := p.SetBackends(spec("", nil, refused...).Backends); err == nil {
			t.Errorf("%s: taken over", what)
		}
		if got := p.Status(time.Now())[0].Index; got != (kvindex.Stats{Blocks: blocks, Capacity: blocks}) {
			t.Errorf("%s: it holds %+v, want all %d", what, got, blocks)
		}
	}
}
