package enginesim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestInvariants drives an engine with random operations and checks after each
// that its books balance, and at the end that every sequence ended once.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEngine(t)
		d := &driver{engine: e, ended: make(map[*Sequence]int)}
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			d.operate(t)
			checkBooks(t, e)
		}
		e.Wake(d.now)
		for i := 0; ; i++ {
			at, ok := e.NextStep()
			if !ok {
				break
			}
			if i > 100_000 {
				t.Fatal("engine does not come to rest")
			}
			d.step(t, at)
			checkBooks(t, e)
		}
		d.checkEnd(t)
	})
}

func drawEngine(t *rapid.T) *Engine {
	profile := plainProfile()
	profile.RequestOverhead = time.Duration(rapid.IntRange(0, 2).Draw(t, "overhead")) * 7 * time.Millisecond
	e, err := New(Config{
		Profile:        profile,
		BlockSize:      rapid.IntRange(1, 5).Draw(t, "block"),
		KVTokens:       rapid.IntRange(20, 80).Draw(t, "kv"),
		MaxSeqs:        rapid.IntRange(1, 5).Draw(t, "seqs"),
		AdmitPartial:   rapid.Bool().Draw(t, "partial"),
		RecountLookups: rapid.Bool().Draw(t, "recount"),
		// A budget below the number of sequences starves some of them in a
		// step, as it should.
		MaxBatchedTokens: rapid.IntRange(2, 40).Draw(t, "budget"),
		Jitter:           rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "jitter"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// driver submits, aborts and steps, and counts ends.
type driver struct {
	engine    *Engine
	now       time.Duration
	submitted []*Sequence
	ended     map[*Sequence]int
}

func (d *driver) operate(t *rapid.T) {
	e := d.engine
	switch rapid.SampledFrom([]string{"submit", "submit", "step", "step", "step", "abort", "reset", "lose", "sleep", "wake"}).
		Draw(t, "operation") {
	case "submit":
		d.submit(t)
	case "step":
		if at, ok := e.NextStep(); ok {
			d.step(t, at)
		}
	case "abort":
		if len(d.submitted) > 0 {
			s := rapid.SampledFrom(d.submitted).Draw(t, "whom")
			done := s.Progress().State == StateDone
			if e.Abort(d.now, s) == done {
				t.Fatalf("Abort = %t of a sequence that is done = %t", !done, done)
			}
			if !done {
				d.ended[s]++
			}
		}
	case "reset":
		e.ResetPrefixCache(d.now, rapid.Bool().Draw(t, "preempt"))
	case "lose":
		e.LoseCache()
	case "sleep":
		e.Sleep(d.now)
	case "wake":
		e.Wake(d.now)
	}
}

func (d *driver) submit(t *rapid.T) {
	e := d.engine
	d.now += time.Duration(rapid.IntRange(0, 30).Draw(t, "later")) * time.Millisecond
	req := Request{
		PromptTokens:  rapid.IntRange(1, 30).Draw(t, "prompt"),
		OutputTokens:  rapid.IntRange(0, 12).Draw(t, "out"),
		SkipCacheRead: rapid.IntRange(0, 9).Draw(t, "skip") == 0,
	}
	// Chains from a small tree: a family, then a branching point.
	family := rapid.IntRange(1, 3).Draw(t, "family")
	branch := rapid.IntRange(0, 4).Draw(t, "branch")
	for i := range (req.PromptTokens + req.OutputTokens) / e.BlockSize() {
		id := BlockID(family*1000 + i)
		if i >= branch {
			id += BlockID(100 * branch)
		}
		req.Blocks = append(req.Blocks, id)
	}
	s, err := e.Submit(d.now, req)
	if err != nil {
		if req.PromptTokens+req.OutputTokens <= e.MaxTokens() {
			t.Fatal(err)
		}
		return
	}
	d.submitted = append(d.submitted, s)
}

func (d *driver) step(t *rapid.T, at time.Duration) {
	if at < d.engine.clock {
		t.Fatalf("NextStep = %s is before the clock %s", at, d.engine.clock)
	}
	d.now = max(d.now, at)
	for _, ev := range d.engine.Step(at) {
		if ev.At > at {
			t.Fatalf("event at %s in a step at %s", ev.At, at)
		}
		if ev.Kind == EventFinished {
			d.ended[ev.Sequence]++
		}
	}
}

func (d *driver) checkEnd(t *rapid.T) {
	st := d.engine.Stats()
	if st.FreeBlocks != st.TotalBlocks || st.Arriving+st.Waiting+st.Running != 0 {
		t.Fatalf("at rest: %d of %d blocks free, %d arriving, %d waiting, %d running",
			st.FreeBlocks, st.TotalBlocks, st.Arriving, st.Waiting, st.Running)
	}
	for _, s := range d.submitted {
		p := s.Progress()
		if d.ended[s] != 1 || p.State != StateDone {
			t.Fatalf("sequence ended %d times, state %d", d.ended[s], p.State)
		}
		if p.CachedTokens >= p.PromptTokens {
			t.Fatalf("%d cached of %d prompt tokens: the last must be computed", p.CachedTokens, p.PromptTokens)
		}
	}
	finished := int64(0)
	for _, n := range st.Finished {
		finished += n
	}
	if finished != int64(len(d.submitted)) || st.Submitted != finished {
		t.Fatalf("%d submitted, %d accepted, %d finished", len(d.submitted), st.Submitted, finished)
	}
}

// checkBooks compares the cache's counts with what a walk over it finds.
func checkBooks(t *rapid.T, e *Engine) {
	c := e.cache
	refs := make([]int32, len(c.blocks))
	for _, s := range e.running {
		if len(s.table) < blocksOf(s.computed, c.size) {
			t.Fatalf("%d blocks for %d computed tokens", len(s.table), s.computed)
		}
		for _, b := range s.table {
			refs[b]++
		}
	}
	onList := make([]bool, len(c.blocks))
	free := 0
	for b := c.blocks[0].next; b != 0; b = c.blocks[b].next {
		if onList[b] || refs[b] != 0 {
			t.Fatalf("block %d is free twice or in use by %d", b, refs[b])
		}
		onList[b] = true
		free++
	}
	if free != c.free {
		t.Fatalf("%d blocks on the free list, counted %d", free, c.free)
	}
	cached := 0
	for b := 1; b < len(c.blocks); b++ {
		block := &c.blocks[b]
		if block.refs != refs[b] || (block.refs == 0) != onList[b] {
			t.Fatalf("block %d: %d references counted, %d found, free = %t", b, block.refs, refs[b], onList[b])
		}
		if block.hashed {
			cached++
			if !holders(c, block.id)[int32(b)] {
				t.Fatalf("block %d is not found by its id %d", b, block.id)
			}
		}
	}
	if cached != c.cached {
		t.Fatalf("%d blocks with an id, counted %d", cached, c.cached)
	}
	for id := range c.byID {
		if len(holders(c, id)) == 0 {
			t.Fatalf("id %d has no holder", id)
		}
	}
}

// holders returns the blocks that hold an id.
func holders(c *blockCache, id BlockID) map[int32]bool {
	out := make(map[int32]bool)
	for b := c.byID[id]; b != 0; b = c.blocks[b].same {
		if c.blocks[b].id == id && c.blocks[b].hashed {
			out[b] = true
		}
	}
	return out
}

// TestRepeatable checks that equal calls with an equal seed give equal events,
// and that the seed matters where there is jitter.
func TestRepeatable(t *testing.T) {
	play := func(seed uint64) []string {
		profile, err := ProfileByName("llama-8b-l40s")
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(Config{Profile: profile, KVTokens: 4096, Jitter: 0.05, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		var log []string
		for i := range 40 {
			req := Request{PromptTokens: 100 + 37*i%900, OutputTokens: 5 + i%20, Tag: i}
			for b := range (req.PromptTokens + req.OutputTokens) / 16 {
				req.Blocks = append(req.Blocks, BlockID(i%5*1000+b))
			}
			if _, err := e.Submit(time.Duration(i)*50*time.Millisecond, req); err != nil {
				t.Fatal(err)
			}
		}
		for at, ok := e.NextStep(); ok; at, ok = e.NextStep() {
			for _, ev := range e.Step(at) {
				log = append(log, fmt.Sprint(ev.At, ev.Kind, ev.Tokens, ev.Sequence.Tag()))
			}
		}
		return log
	}
	first := play(7)
	if len(first) < 400 {
		t.Fatalf("only %d events", len(first))
	}
	if !slices.Equal(first, play(7)) {
		t.Error("the same seed gave other events")
	}
	if slices.Equal(first, play(8)) {
		t.Error("another seed gave the same events in spite of jitter")
	}
}
