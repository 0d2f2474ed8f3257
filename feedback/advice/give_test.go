package advice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// small is a fleet whose requests take no time to replay.
func small() fleet {
	c := workload.DefaultDocsConfig()
	c.Documents, c.DocumentTokens, c.Rate, c.Duration, c.OutputMean = 60, 1000, 4, 3*time.Minute, 40
	return fleet{asked: func() workload.Source { return workload.NewDocs(c, 1) }, backends: 3, kvTokens: 30_000, config: router.DefaultConfig()}
}

func TestCurves(t *testing.T) {
	f := small()
	through, wanted := 0, 0
	a, err := Give(t.Context(), f.pool(), Recent(f.remember(t), pool, 0), Options{Seed: 1, Progress: func(done, of int) {
		if done < through || of < wanted || done > of {
			t.Errorf("%d of %d replays come after %d of %d", done, of, through, wanted)
		}
		through, wanted = done, of
	}})
	if err != nil || a.TooLittle != "" {
		t.Fatal(err, a.TooLittle)
	}
	if through != wanted || through < 15 {
		t.Errorf("at the end %d of %d replays are through", through, wanted)
	}
	var knobs []Knob
	for _, c := range a.Curves {
		knobs = append(knobs, c.Knob)
		present := false
		for i, p := range c.Points {
			if i > 0 && p.Value.compare(c.Points[i-1].Value) <= 0 {
				t.Errorf("%s: %s comes after %s", c.Knob, p.Value, c.Points[i-1].Value)
			}
			if p.Value == c.Present {
				present = true
				if diff := cmp.Diff(Change{}, p.Change); diff != "" || p.Measure != a.Now {
					t.Errorf("%s: the present value changes something: %s", c.Knob, diff)
				}
			}
			if p.HitRate <= 0 || p.P50 <= 0 || p.P90 < p.P50 || p.Skew < 1 || p.Skew > float64(2*f.backends) || p.DistinctPrefixes < 60 {
				t.Errorf("%s: %s: %+v", c.Knob, p.Value, p.Measure)
			}
		}
		if !present || len(c.Points) < 3 {
			t.Errorf("%s: %d points, with the present value: %v", c.Knob, len(c.Points), present)
		}
		if decided := c.Knob == PrefixLength || c.Knob == ConcurrencyThreshold; decided != (c.Verdict != "") || decided != (c.Reason != "") {
			t.Errorf("%s: verdict %q, reason %q", c.Knob, c.Verdict, c.Reason)
		}
	}
	if diff := cmp.Diff(Knobs(), knobs); diff != "" {
		t.Errorf("curves (-want +got):\n%s", diff)
	}
	if n := a.curveOf(Backends).Points; n[0].HitRate >= n[len(n)-1].HitRate {
		t.Errorf("%s backends hit %v, %s backends %v", n[0].Value, n[0].HitRate, n[len(n)-1].Value, n[len(n)-1].HitRate)
	}
	for _, p := range a.curveOf(Strategy).Points {
		if p.Value.Name == router.Random && p.Change.HitRate.High >= 0 {
			t.Errorf("RANDOM hits more: %+v", p.Change)
		}
	}
	// What is modelled is what was measured.
	e := a.Evidence
	if math.Abs(e.HitRate-a.Now.HitRate) > misjudgedHits || e.Reported != 1 || e.Reckoned != 0 || !e.Whole || e.Requests != 720 {
		t.Errorf("evidence %+v, and the model hits %v", e, a.Now.HitRate)
	}
	for _, caution := range a.Cautions {
		if strings.Contains(caution, "The model is off") {
			t.Error(caution)
		}
	}
}

// Equal seeds give equal advice, however many replays go on at once; others do not.
func TestAdviceIsRepeatable(t *testing.T) {
	f := small()
	store := f.remember(t)
	var all []*Advice
	for _, o := range []Options{{Seed: 1, Parallel: 1}, {Seed: 1, Parallel: 3}, {Seed: 2}} {
		o.Knobs = []Knob{Strategy}
		a, err := Give(t.Context(), f.pool(), Recent(store, pool, 0), o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" {
		t.Errorf("twice the same (-one +three at once):\n%s", diff)
	}
	if cmp.Equal(all[0], all[2]) {
		t.Error("two seeds give one advice")
	}
}

func TestAdviceIsCancelled(t *testing.T) {
	f := small()
	w := Recent(f.remember(t), pool, 0)
	if _, err := Give(cancelled(t), f.pool(), w, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := Give(ctx, f.pool(), w, Options{Progress: func(through, _ int) {
		if through == 3 {
			cancel()
		}
	}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled on the way: %v", err)
	}
}

// A pool that cannot be is an error and no deadlock.
func TestAdviceOnNonsense(t *testing.T) {
	f := small()
	p := f.pool()
	p.Backends = 0
	if _, err := Give(t.Context(), p, Recent(f.remember(t), pool, 0), Options{}); err == nil || !strings.Contains(err.Error(), "backends") {
		t.Errorf("no backends: %v", err)
	}
}

func TestTooLittle(t *testing.T) {
	steady := func(n int, every time.Duration) *recent.Store {
		s := recent.New(recent.MinBytes)
		for i := range n {
			s.Add(&recent.Request{Pool: pool, BlockBytes: 256, StreamBytes: 100, Facts: recent.Facts{
				Arrived: time.Unix(1000, 0).Add(time.Duration(i) * every), PromptTokens: 25, CachedTokens: 0, OutputTokens: 5,
			}})
		}
		return s
	}
	// For half of the time one prompt comes again and again, for the other half none ever does.
	half := recent.New(recent.DefaultBytes)
	for i := range 2000 {
		keys := make([]kvindex.Key, 40)
		for j := range keys {
			if keys[j] = kvindex.Key(j + 1); i >= 1000 {
				keys[j] += kvindex.Key(i << 20)
			}
		}
		half.Add(&recent.Request{Pool: pool, Keys: keys, BlockBytes: 256, StreamBytes: 40 * 256, Facts: recent.Facts{
			Arrived: time.Unix(1000, 0).Add(time.Duration(i) * time.Second), PromptTokens: 2560, CachedTokens: 0, OutputTokens: 5,
		}})
	}
	p := small().pool()
	const (
		number = " requests count, and fewer than 300 prove nothing: the first fifth of the time only warms caches"
		period = "the requests came within %v, and less than 2m0s proves nothing"
	)
	for name, c := range map[string]struct {
		store *recent.Store
		says  string
	}{
		"nothing":       {recent.New(recent.MinBytes), "0" + number},
		"few":           {steady(300, time.Second), "240" + number},
		"at one time":   {steady(1000, 0), fmt.Sprintf(period, "0s")},
		"short":         {steady(1000, 100*time.Millisecond), fmt.Sprintf(period, "1m40s")},
		"few and short": {steady(100, time.Second), "80" + number + "; " + fmt.Sprintf(period, "1m39s")},
		"two worlds":    {half, ""},
		"enough":        {steady(1000, time.Second), ""},
	} {
		a, err := Give(t.Context(), p, Recent(c.store, pool, 0), Options{Knobs: []Knob{}})
		if err != nil {
			t.Fatal(err)
		}
		if a.TooLittle != c.says {
			t.Errorf("%s: %q, want %q", name, a.TooLittle, c.says)
		}
		if a.TooLittle != "" && (len(a.Curves) > 0 || a.Advised != p.Config) {
			t.Errorf("%s: there is advice all the same: %+v", name, a)
		}
		if got := strings.Contains(strings.Join(a.Cautions, "\n"), "not the same all the time"); got != (name == "two worlds") {
			t.Errorf("%s: traffic is said to differ: %v", name, got)
		}
	}
}

// Work bounds what is replayed: the newest requests, and it says that there are older ones.
func TestWindowIsBounded(t *testing.T) {
	f := small()
	store := f.remember(t)
	whole := Recent(store, pool, 0)
	part := Recent(store, pool, 100*(requestWork+1200))
	if !whole.requests.Whole || part.requests.Whole {
		t.Error("whole and part are not told apart")
	}
	n, all := len(part.requests.Requests), len(whole.requests.Requests)
	if n < 80 || n > 120 || part.requests.Requests[n-1].Arrived != whole.requests.Requests[all-1].Arrived {
		t.Errorf("%d of %d requests", n, all)
	}
}

// A log gives the advice that memory does.
func TestReadLog(t *testing.T) {
	f := small()
	var log []byte
	store := recent.New(recent.DefaultBytes)
	f.play(t, f.config, func(r *feedback.Record) {
		q, _ := recent.Of(r)
		store.Add(&q)
		prompt, cached, output := r.Usage.Prompt, r.Usage.Cached, r.Usage.Completion
		line := workload.LoggedRequest{
			Arrived: r.Start.UTC(), Pool: r.Pool, Reason: r.Reason, Backend: r.Backend, Result: r.Result.String(), Status: r.Status,
			TTFTSeconds: r.TTFT.Seconds(), DurationSeconds: r.Duration.Seconds(), PromptTokens: &prompt, CachedTokens: &cached,
			OutputTokens: &output, StreamBytes: r.StreamBytes, BlockBytes: r.BlockBytes, Keys: r.Keys,
		}
		var err error
		if log, err = line.AppendLine(log); err != nil {
			t.Fatal(err)
		}
	})
	read, err := ReadLog(bytes.NewReader(log), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if read.Backends() != f.backends {
		t.Errorf("%d backends", read.Backends())
	}
	var both []*Advice
	for _, w := range []*Window{Recent(store, pool, 0), read} {
		a, err := Give(t.Context(), f.pool(), w, Options{Knobs: []Knob{}})
		if err != nil {
			t.Fatal(err)
		}
		a.Evidence.P90 = 0 // of a log, what began late is taken for what came whole
		both = append(both, a)
	}
	if diff := cmp.Diff(both[0].Curves, both[1].Curves); diff != "" {
		t.Errorf("(-remembered +logged):\n%s", diff)
	}
	second := strings.ReplaceAll(string(log[:bytes.IndexByte(log, '\n')+1]), `"pool":"replay"`, `"pool":"other"`)
	for name, c := range map[string]struct{ log, pool, says string }{
		"several pools": {string(log) + second, "", "the file holds requests of the pools other, replay: name one of them"},
		"no such pool":  {string(log), "mine", `the file holds no requests of the pool "mine", only of replay`},
		"empty":         {"", "", "the file holds no requests"},
		"no log":        {"{}\n", "", `"arrived" is missing`},
		"a new result":  {strings.Replace(string(log), "success", "triumph", 1), "", `"result": "triumph" is none`},
	} {
		if _, err := ReadLog(strings.NewReader(c.log), c.pool, 0); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// What engines are taken for is what they are, as far as requests show it.
func TestEngineIsFitted(t *testing.T) {
	f := small()
	w := Recent(f.remember(t), pool, 0)
	p := f.pool()
	got, want := p.engine(w, p.step(w)).Profile, replay.ReferenceProfile(f.kvTokens)
	if math.Abs(got.StepFloor.Seconds()/want.StepFloor.Seconds()-1) > 0.1 || got.KVTokens != want.KVTokens || got.RequestOverhead > 10*time.Millisecond {
		t.Errorf("%+v, is %+v", got, want)
	}
	p.PrefillRate, p.CapacityTokens = 4000, 0
	got = p.engine(w, p.step(w)).Profile
	if rate := 1 / (got.PrefillPerToken/1e9 + got.StepFloor.Seconds()/2048); math.Abs(rate-4000) > 1 || got.KVTokens != assumedCapacity {
		t.Errorf("a learned rate of 4000 has become %v, no capacity %d", rate, got.KVTokens)
	}
	nothing := p.engine(&Window{requests: &recent.Window{}}, 0).Profile
	if err := nothing.Validate(); err != nil {
		t.Error(err)
	}
}

// How long a step takes is found where engines always prefill for somebody, too.
func TestStepIsFitted(t *testing.T) {
	if testing.Short() {
		t.Skip("some replays")
	}
	f := fleet{asked: essays, backends: 4, kvTokens: 200_000, config: router.DefaultConfig()}
	f.config.Strategy = router.PrefixHash
	w, p := Recent(f.remember(t), pool, 0), f.pool()
	m := &making{window: w, sweep: newSweep(&p, w, Options{Seed: 1, Parallel: 1}), present: world{p.Config, p.Backends}}
	truth := replay.ReferenceProfile(f.kvTokens).StepFloor.Seconds()
	if before := m.engine.Profile.StepFloor.Seconds(); before < 1.2*truth {
		t.Errorf("a step is seen to take %.4f s, and takes %.4f s: there is nothing to find", before, truth)
	}
	if err := m.fit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := m.engine.Profile.StepFloor.Seconds(); math.Abs(after/truth-1) > 0.1 {
		t.Errorf("a step is found to take %.4f s, and takes %.4f s", after, truth)
	}
	if want, _ := w.quantile(.5, stepTime); math.Abs(m.find(m.present).tokenTime/want-1) > 2*fitted {
		t.Errorf("a token takes %.4f s, and %.4f s in the model", want, m.find(m.present).tokenTime)
	}
}

func TestOf(t *testing.T) {
	r := router.New(router.Options{})
	config := router.DefaultConfig()
	config.ConcurrencyThreshold = 9
	p, err := r.AddPool(router.PoolSpec{
		Name: "p", Config: config, Ejection: backends.DefaultEjection(),
		Backends: []backends.Spec{{URL: "http://a:1", Rank: backends.NoRank}, {URL: "http://b:1", Rank: backends.NoRank}},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	bare := Of(p, now)
	if bare.Stated || bare.CapacityTokens < 1_000_000 || bare.PrefillRate != 0 || bare.Unequal || bare.Shared || bare.Silent {
		t.Errorf("of engines that say nothing: %+v", bare)
	}
	for i, b := range p.Backends() {
		r.Scraped(p, b, feedback.EngineState{At: now, Engine: "vllm", CapacityTokens: 100_000 + 1000*i, BlockTokens: 32})
	}
	want := Pool{Name: "p", Config: config, Backends: 2, CapacityTokens: 100_500, Stated: true, BlockTokens: 32, BytesPerToken: 4}
	if diff := cmp.Diff(want, Of(p, now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := p.SetBackends([]backends.Spec{{URL: "http://a:1", Rank: backends.NoRank}, {URL: "http://b:1", Rank: backends.NoRank, ConcurrencyThreshold: 3}}); err != nil {
		t.Fatal(err)
	}
	if other := Of(p, now); !other.Unequal || !other.Overridden {
		t.Errorf("of backends that differ: %+v", other)
	}
}

func TestDistinct(t *testing.T) {
	w := &Window{requests: &recent.Window{
		BlockBytes: 256,
		// 0 → 1 → 2 → 3, 2 → 4, 0 → 5; 6 alone.
		Blocks: []recent.Block{{Parent: -1}, {Parent: 0}, {Parent: 1}, {Parent: 2}, {Parent: 2}, {Parent: 0}, {Parent: -1}},
		Requests: []recent.Prompt{
			{Last: 3, Depth: 4}, {Last: 4, Depth: 4}, {Last: 5, Depth: 2}, {Last: 6, Depth: 1}, {Last: 1, Depth: 2}, {Last: recent.NoBlock}, {Last: 3, Depth: 4},
		},
	}}
	for length, want := range map[int]int{256: 2, 512: 3, 768: 4, 1024: 5, 1 << 20: 5} {
		if got := w.distinct(length); got != want {
			t.Errorf("of %d bytes there are %d prefixes, want %d", length, got, want)
		}
	}
}

// A histogram tells quantiles to within its buckets, whatever their size.
func TestHistogram(t *testing.T) {
	for _, ttft := range []time.Duration{time.Microsecond, time.Millisecond, 40 * time.Millisecond, 3 * time.Second, time.Hour} {
		h := make([]int32, buckets)
		h[bucket(ttft)] = 10
		got := quantile(h, 10, .9)
		if want := max(ttft, lowest).Seconds(); math.Abs(got/want-1) > bucketWidth-1 {
			t.Errorf("%v is read as %vs", ttft, got)
		}
	}
	if got := quantile(make([]int32, buckets), 0, .9); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	if b := bucket(1 << 62); b != buckets-1 {
		t.Errorf("an age falls into bucket %d", b)
	}
}

// The interval of a difference is that of what is drawn: it has no width where all parts agree,
// and holds the truth where they do not.
func TestInterval(t *testing.T) {
	make2 := func(cached func(part int) (a, b int)) (before, after *outcome) {
		before, after = new(outcome), new(outcome)
		for i := range parts {
			a, b := cached(i)
			before.parts[i] = part{prompt: 1000, cached: a, ttft: make([]int32, buckets)}
			after.parts[i] = part{prompt: 1000, cached: b, ttft: make([]int32, buckets)}
			before.HitRate += float64(a) / (1000 * parts)
			after.HitRate += float64(b) / (1000 * parts)
		}
		return before, after
	}
	d := newDrawing(1)
	steady, better := make2(func(int) (int, int) { return 500, 600 })
	c := change(steady, better, d.of(steady), d.of(better))
	if math.Abs(c.HitRate.Estimate-.1) > 1e-9 || math.Abs(c.HitRate.High-c.HitRate.Low) > 1e-9 {
		t.Errorf("always a tenth more: %+v", c.HitRate)
	}
	wild, wilder := make2(func(i int) (int, int) { return 500, 500 + 200*(i%2) })
	if c := change(wild, wilder, d.of(wild), d.of(wilder)); math.Abs(c.HitRate.Estimate-.1) > 1e-9 || c.HitRate.Low > .09 || c.HitRate.Low < .03 || c.HitRate.High < .11 || c.HitRate.High > .17 {
		t.Errorf("a fifth more half of the time: %+v", c.HitRate)
	}
}
