package router

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// docRequest is a prompt of 100 blocks that belongs to one document.
func docRequest(p *Pool, doc string, now time.Time) *Request {
	keys := promptKeys(doc + ":100")
	req := &Request{
		Now: now, Pool: p, Model: "m", Blocks: keys, StreamBytes: 25_600, HashedBytes: 25_600,
		Prefix: keys[99], Streamed: true, Route: "chat",
	}
	req.Rendezvous, req.HasPrefix = kvindex.RendezvousKey(keys, 256, "")
	return req
}

// play routes a request and completes it after took with an answer of usage.
func play(t *testing.T, r *Router, req *Request, took time.Duration, usage feedback.Usage) *Decision {
	t.Helper()
	d, err := r.Route(req)
	if err != nil {
		t.Fatal(err)
	}
	end := req.Now.Add(took)
	r.FirstToken(d, end)
	r.Complete(d, feedback.Outcome{Now: end, Result: feedback.Success, Blame: feedback.Healthy, FirstByte: true, Usage: usage})
	return d
}

// TestPrefillRateIsLearnedFromTTFTOnly: answers that are not streamed take their whole
// generation, and an unknown cached count would make a hit look like a fast prefill.
func TestPrefillRateIsLearnedFromTTFTOnly(t *testing.T) {
	cold := feedback.Usage{Prompt: 6400, HasPrompt: true}
	for _, tc := range []struct {
		name   string
		change func(i int, r *Request)
		want   float64
	}{
		{"streamed and cold", func(i int, r *Request) {}, 6400},
		{"not streamed", func(_ int, r *Request) { r.Streamed = false }, feedback.DefaultPrefillRate},
	} {
		r, p := testPool(t, DefaultConfig(), 1)
		for i := range 30 {
			req := docRequest(p, fmt.Sprint("doc", i), time.Unix(int64(2000+10*i), 0))
			tc.change(i, req)
			play(t, r, req, time.Second, cold)
		}
		if got := p.Status(time.Unix(3000, 0))[0].PrefillRate; got != tc.want {
			t.Errorf("%s: learned %v tokens a second, want %v", tc.name, got, tc.want)
		}
	}
	r, p := testPool(t, DefaultConfig(), 1)
	for i := range 30 { // the same document: hits that nobody reports
		play(t, r, docRequest(p, "doc", time.Unix(int64(2000+10*i), 0)), 10*time.Millisecond, cold)
	}
	if got := p.Status(time.Unix(3000, 0))[0].PrefillRate; got != feedback.DefaultPrefillRate {
		t.Errorf("unreported hits: learned %v tokens a second, want nothing learned", got)
	}
}

func TestNonsenseIsNoEvidence(t *testing.T) {
	judged := 0
	r := New(Options{Hooks: Hooks{Judged: func(*Decision, feedback.Claim, feedback.Ruling) { judged++ }}})
	p, err := r.AddPool(spec("pool", nil, "http://b1:80"))
	if err != nil {
		t.Fatal(err)
	}
	usage := feedback.Usage{Prompt: 6400, HasPrompt: true, HasCached: true, Cached: 6400, Nonsense: true}
	for i := range 3 {
		play(t, r, docRequest(p, "doc", time.Unix(int64(2000+i), 0)), time.Millisecond, usage)
	}
	if judged != 0 {
		t.Errorf("%d rulings on counts that could not be true", judged)
	}
}

func TestSilenceIsOfPromptsThatShouldHit(t *testing.T) {
	var told []bool
	r := New(Options{Hooks: Hooks{Silent: func(_ *Pool, _ *backends.Backend, silent bool) { told = append(told, silent) }}})
	p, err := r.AddPool(spec("pool", nil, "http://b1:80"))
	if err != nil {
		t.Fatal(err)
	}
	null := feedback.Usage{Prompt: 6400, HasPrompt: true, CachedNull: true}
	for i := range 30 {
		play(t, r, docRequest(p, fmt.Sprint("cold", i), time.Unix(int64(2000+i), 0)), time.Millisecond, null)
	}
	if len(told) != 0 {
		t.Fatalf("30 cold prompts: told %v", told)
	}
	for i := range 30 {
		play(t, r, docRequest(p, "cold1", time.Unix(int64(3000+i), 0)), time.Millisecond, null)
	}
	play(t, r, docRequest(p, "cold1", time.Unix(4000, 0)), time.Millisecond, feedback.Usage{Prompt: 6400, HasPrompt: true, HasCached: true, Cached: 6384})
	if len(told) != 2 || !told[0] || told[1] {
		t.Errorf("30 prompts that should hit and one that did: told %v, want [true false]", told)
	}
	if p.Status(time.Unix(4000, 0))[0].Silent {
		t.Error("silent although it reported a hit")
	}
}

// TestBackendThatMoves: a backend that keeps its id but moves to another URL starts anew,
// and is recorded like any other.
func TestBackendThatMoves(t *testing.T) {
	r, p := testPool(t, DefaultConfig(), 1)
	if _, err := p.SetBackends([]backends.Spec{{URL: "http://b0:80", Rank: backends.NoRank}}); err != nil {
		t.Fatal(err)
	}
	usage := feedback.Usage{Prompt: 6400, HasPrompt: true}
	play(t, r, docRequest(p, "doc", time.Unix(2000, 0)), time.Second, usage)
	if _, err := p.SetBackends([]backends.Spec{{URL: "https://b0:80", Rank: backends.NoRank}}); err != nil {
		t.Fatal(err)
	}
	if d := play(t, r, docRequest(p, "doc", time.Unix(2010, 0)), time.Second, usage); d.MatchedBlocks != 0 {
		t.Errorf("at its new URL it is thought to hold %d blocks", d.MatchedBlocks)
	}
	if d := play(t, r, docRequest(p, "doc", time.Unix(2020, 0)), time.Second, usage); d.MatchedBlocks != 100 {
		t.Errorf("what it was sent at its new URL: %d blocks, want 100", d.MatchedBlocks)
	}
}

// TestNumberIsUsedAgain: a request still in flight on a backend that left does not end up
// with the backend that has its number in the index now.
func TestNumberIsUsedAgain(t *testing.T) {
	r, p := testPool(t, DefaultConfig(), 2)
	req := docRequest(p, "doc", time.Unix(2000, 0))
	req.Pin = "b0:80"
	d, err := r.Route(req)
	if err != nil {
		t.Fatal(err)
	}
	for _, specs := range [][]backends.Spec{
		{{URL: "http://b1:80", Rank: backends.NoRank}},
		{{URL: "http://b1:80", Rank: backends.NoRank}, {URL: "http://c:80", Rank: backends.NoRank}},
	} {
		if _, err := p.SetBackends(specs); err != nil {
			t.Fatal(err)
		}
	}
	if c := p.memberOf(p.registry.Find("c:80")); c.holder != d.member.holder {
		t.Fatalf("c has number %d, want that of the backend that left, %d", c.holder, d.member.holder)
	}
	r.Complete(d, feedback.Outcome{Now: time.Unix(2001, 0), Result: feedback.Success, FirstByte: true})
	before := p.Status(time.Unix(2002, 0))
	r.bound(p, d.member, 1000) // a scrape and evidence that were on their way
	r.narrow(d.member)
	for i, s := range p.Status(time.Unix(2002, 0)) {
		if s.Index.Capacity != before[i].Index.Capacity {
			t.Errorf("the bound of %s went from %d to %d for a backend that left", s.Backend.ID, before[i].Index.Capacity, s.Index.Capacity)
		}
		if s.Index.Blocks != 0 {
			t.Errorf("%s holds %d blocks that belong to a backend that left", s.Backend.ID, s.Index.Blocks)
		}
	}
}

func TestPanickingHookLeaksNothing(t *testing.T) {
	r := New(Options{Hooks: Hooks{Decided: func(*Decision) { panic("a hook") }}})
	p, err := r.AddPool(spec("pool", nil, "http://b1:80"))
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = r.Route(docRequest(p, "doc", time.Unix(2000, 0)))
	}()
	if s := p.Status(time.Unix(2000, 0))[0]; s.InFlight != 0 || s.Queued != 0 || s.Index.Blocks != 0 {
		t.Errorf("after the panic: %d in flight, %d tokens queued, %d blocks", s.InFlight, s.Queued, s.Index.Blocks)
	}
}

// TestShortPromptsSpread: a prompt of fewer than two blocks has no prefix to hash either.
func TestShortPromptsSpread(t *testing.T) {
	config := DefaultConfig()
	config.Strategy = PrefixHash
	r, p := testPool(t, config, 3)
	share := make(map[string]int)
	for range 30 {
		d, err := r.Route(&Request{Now: time.Unix(2000, 0), Pool: p, Model: "m", StreamBytes: 100, HashedBytes: 100, Prefix: 7})
		if err != nil {
			t.Fatal(err)
		}
		share[d.Backend.ID]++
	}
	if len(share) != 3 {
		t.Errorf("30 short prompts went to %v", share)
	}
}

func TestSetConfigCallsWaiters(t *testing.T) {
	config := DefaultConfig()
	config.OnSaturation = Queue
	_, p := testPool(t, config, 1)
	w, _ := p.Join("", 1, 1)
	if err := p.SetConfig(DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	if !called(w) {
		t.Error("a waiter was not called although the threshold may have risen")
	}
	w.Leave(false)
}

// TestAnotherEngineAtTheSameURL: what was known of the engine before is not believed of the
// one that has its address now, and a request in flight there does not change that.
func TestAnotherEngineAtTheSameURL(t *testing.T) {
	r, p := testPool(t, DefaultConfig(), 1)
	set := func(instance string) {
		t.Helper()
		if _, err := p.SetBackends([]backends.Spec{{URL: "http://b0:80", Rank: backends.NoRank, Instance: instance}}); err != nil {
			t.Fatal(err)
		}
	}
	set("a")
	usage := feedback.Usage{Prompt: 6400, HasPrompt: true}
	play(t, r, docRequest(p, "doc", time.Unix(2000, 0)), time.Second, usage)
	flying, err := r.Route(docRequest(p, "other", time.Unix(2001, 0)))
	if err != nil {
		t.Fatal(err)
	}
	set("b")
	r.Replaced(p, p.Backends()[0], time.Unix(2001, 5e8))
	if at := p.Status(time.Unix(2002, 0))[0].Horizon; !at.Equal(time.Unix(2001, 5e8)) {
		t.Errorf("horizon %v: other routers are not told", at)
	}
	r.Complete(flying, feedback.Outcome{Result: feedback.Success, Now: time.Unix(2002, 0)})
	for _, doc := range []string{"doc", "other"} {
		if d := play(t, r, docRequest(p, doc, time.Unix(2010, 0)), time.Second, usage); d.MatchedBlocks != 0 {
			t.Errorf("%s: the new engine is thought to hold %d blocks", doc, d.MatchedBlocks)
		}
	}
	if d := play(t, r, docRequest(p, "doc", time.Unix(2020, 0)), time.Second, usage); d.MatchedBlocks != 100 {
		t.Errorf("what it was sent itself: %d blocks, want 100", d.MatchedBlocks)
	}
}
