package feedback_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
	"pgregory.net/rapid"
)

// chainOf makes keys that belong to nobody else; of prolongs it.
func chainOf(family kvindex.Key, blocks int) []kvindex.Key {
	keys := make([]kvindex.Key, blocks)
	for i := range keys {
		keys[i] = family*1000 + kvindex.Key(i)
	}
	return keys
}

// claim is a piece of evidence of a chain of 100 blocks, 6,384 predicted tokens.
func claim(family kvindex.Key, dispatched kvindex.Stamp, observed int, missing, deepest kvindex.Stamp) feedback.Claim {
	return feedback.Claim{
		Dispatched: dispatched, Matched: chainOf(family, 100),
		Predicted: 6384, Observed: observed, EngineBlock: 16, Missing: missing, Deepest: deepest,
	}
}

func hit(family kvindex.Key, dispatched, deepest kvindex.Stamp) feedback.Claim {
	return claim(family, dispatched, 6384, 0, deepest)
}

func short(family kvindex.Key, dispatched, missing kvindex.Stamp) feedback.Claim {
	return claim(family, dispatched, 3200, missing, missing)
}

func nothing(family kvindex.Key, dispatched, missing kvindex.Stamp) feedback.Claim {
	return claim(family, dispatched, 0, missing, missing)
}

// step is a claim at a time and what is expected of it.
type step struct {
	claim   feedback.Claim
	now     kvindex.Stamp
	ruling  feedback.Ruling
	horizon kvindex.Stamp
}

func TestCorrector(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"a shortfall alone moves nothing", []step{
			{hit(1, 100, 90), 101, feedback.Confirmed, 0},
			{short(2, 110, 50), 111, feedback.Standing, 0},
		}},
		{"a second one of another chain moves the horizon to the lower", []step{
			{hit(1, 100, 90), 101, feedback.Confirmed, 0},
			{short(2, 110, 60), 111, feedback.Standing, 0},
			{short(3, 112, 50), 113, feedback.ShortfallMoved, 50},
		}},
		{"the same chain is no second witness", []step{
			{hit(1, 100, 90), 101, feedback.Confirmed, 0},
			{short(2, 110, 60), 111, feedback.Standing, 0},
			{short(2, 112, 50), 113, feedback.Standing, 0},
		}},
		{"nor is a longer prompt of the same chain", []step{
			{hit(1, 100, 90), 101, feedback.Confirmed, 0},
			{short(2, 110, 60), 111, feedback.Standing, 0},
			{feedback.Claim{Dispatched: 112, Matched: chainOf(2, 150), Predicted: 9000, Observed: 3200, EngineBlock: 16, Missing: 50}, 113, feedback.Standing, 0},
		}},
		{"two that share a head only are different witnesses", []step{
			{hit(1, 100, 90), 101, feedback.Confirmed, 0},
			{feedback.Claim{Dispatched: 110, Matched: append(chainOf(2, 50), chainOf(3, 50)...), Predicted: 6384, Observed: 3200, EngineBlock: 16, Missing: 60}, 111, feedback.Standing, 0},
			{feedback.Claim{Dispatched: 112, Matched: append(chainOf(2, 50), chainOf(4, 50)...), Predicted: 6384, Observed: 3200, EngineBlock: 16, Missing: 50}, 113, feedback.ShortfallMoved, 50},
		}},
		{"a confirmation of something unused for longer makes a claim void", []step{
			{hit(1, 100, 40), 101, feedback.Confirmed, 0},
			{short(2, 110, 60), 111, feedback.Void, 0},
			{short(3, 112, 53), 113, feedback.Void, 0},
		}},
		{"what has gone unused for longer than anything confirmed may be gone", []step{
			{hit(1, 100, 40), 101, feedback.Confirmed, 0},
			{short(2, 110, 45), 111, feedback.Standing, 0},
			{short(3, 112, 50), 113, feedback.ShortfallMoved, 45},
		}},
		{"a confirmation of the same chain does not", []step{
			{hit(2, 100, 40), 101, feedback.Confirmed, 0},
			{short(2, 110, 60), 111, feedback.Standing, 0},
			{short(3, 112, 53), 113, feedback.Void, 0},
		}},
		{"a confirmation that comes later voids a claim that stood", []step{
			{hit(1, 100, 90), 101, feedback.Confirmed, 0},
			{short(2, 110, 60), 111, feedback.Standing, 0},
			{hit(1, 112, 55), 113, feedback.Confirmed, 0},
			{short(3, 114, 50), 115, feedback.Standing, 0},
			{short(4, 116, 49), 117, feedback.ShortfallMoved, 49},
		}},
		{"a witness older than eight pieces of evidence does not count", []step{
			{hit(1, 100, 95), 101, feedback.Confirmed, 0},
			{short(2, 102, 60), 103, feedback.Standing, 0},
			{hit(1, 104, 96), 104, feedback.Confirmed, 0},
			{hit(1, 105, 97), 105, feedback.Confirmed, 0},
			{hit(1, 106, 98), 106, feedback.Confirmed, 0},
			{hit(1, 107, 99), 107, feedback.Confirmed, 0},
			{hit(1, 108, 99), 108, feedback.Confirmed, 0},
			{hit(1, 109, 99), 109, feedback.Confirmed, 0},
			{hit(1, 110, 99), 110, feedback.Confirmed, 0},
			{hit(1, 111, 99), 111, feedback.Confirmed, 0},
			{short(3, 112, 50), 113, feedback.Standing, 0},
		}},
		{"two in a row that find nothing are a loss", []step{
			{hit(1, 100, 0), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Void, 0},
			{nothing(3, 112, 50), 113, feedback.LossMoved, 110},
		}},
		{"not where eviction explains them", []step{
			{hit(1, 100, 95), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Standing, 0},
			{nothing(3, 112, 50), 113, feedback.ShortfallMoved, 50},
		}},
		{"three are, where eviction explains all but one", []step{
			{hit(1, 100, 80), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Standing, 0},
			{nothing(3, 112, 50), 113, feedback.ShortfallMoved, 50},
			{nothing(4, 114, 100), 115, feedback.LossMoved, 110},
		}},
		{"three with nothing between them are, where eviction hardly explains one", []step{
			{hit(1, 100, 52), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Standing, 0},
			{nothing(3, 112, 50), 113, feedback.ShortfallMoved, 50},
			{nothing(4, 114, 70), 115, feedback.LossMoved, 110},
		}},
		{"not where it explains them all", []step{
			{hit(1, 100, 55), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Standing, 0},
			{nothing(3, 112, 50), 113, feedback.ShortfallMoved, 50},
			{nothing(4, 114, 60), 115, feedback.ShortfallMoved, 60},
		}},
		{"nor two nearly as old as what was found", []step{
			{hit(1, 100, 40), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 55), 111, feedback.Void, 0},
			{nothing(3, 112, 56), 113, feedback.Void, 0},
		}},
		{"an answer sent before the row began says nothing of it", []step{
			{hit(1, 100, 0), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Void, 0},
			{hit(5, 105, 20), 112, feedback.Confirmed, 0},
			{nothing(3, 113, 70), 114, feedback.LossMoved, 110},
		}},
		{"one sent since that found what is older ends it", []step{
			{hit(1, 100, 0), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Void, 0},
			{hit(5, 111, 20), 112, feedback.Confirmed, 0},
			{nothing(3, 113, 70), 114, feedback.Void, 0},
		}},
		{"but not with something computed anew between", []step{
			{hit(1, 100, 95), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Standing, 0},
			{nothing(3, 112, 50), 113, feedback.ShortfallMoved, 50},
			{hit(5, 114, 113), 115, feedback.Confirmed, 50},
			{nothing(4, 116, 70), 117, feedback.ShortfallMoved, 60},
		}},
		{"nor does it where something used a moment before the row is found", []step{
			{hit(1, 1000, 0), 1001, feedback.Confirmed, 0},
			{nothing(2, 1010, 510), 1011, feedback.Void, 0},
			{hit(5, 1012, 1000), 1013, feedback.Confirmed, 0},
			{nothing(3, 1020, 520), 1021, feedback.Void, 0},
		}},
		{"nor where it is long ago that anything as old was found", []step{
			{hit(1, 100, 10), 101, feedback.Confirmed, 0},
			{nothing(2, 600, 560), 601, feedback.Void, 0},
			{nothing(3, 602, 562), 603, feedback.Void, 0},
		}},
		{"what was computed anew confirms nothing that was there before", []step{
			{hit(1, 100, 0), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 80), 111, feedback.Void, 0},
			{hit(2, 112, 111), 113, feedback.Confirmed, 0},
			{nothing(3, 114, 70), 115, feedback.LossMoved, 110},
		}},
		{"finding a head that others share and nothing older is finding nothing", []step{
			{hit(1, 100, 0), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Void, 0},
			{feedback.Claim{Dispatched: 112, Matched: chainOf(3, 100), Predicted: 6384, Observed: 1280, Fresh: 1280, EngineBlock: 16, Missing: 50}, 113, feedback.LossMoved, 110},
		}},
		{"not where something older was found", []step{
			{hit(1, 100, 10), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Void, 0},
			{feedback.Claim{Dispatched: 112, Matched: chainOf(3, 100), Predicted: 6384, Observed: 1600, Fresh: 1280, EngineBlock: 16, Missing: 50}, 113, feedback.Void, 0},
		}},
		{"not with a confirmation between", []step{
			{hit(1, 100, 10), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Void, 0},
			{hit(1, 111, 10), 112, feedback.Confirmed, 0},
			{nothing(3, 113, 50), 114, feedback.Void, 0},
		}},
		{"not of one chain", []step{
			{hit(1, 100, 10), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 111, feedback.Void, 0},
			{nothing(2, 112, 60), 113, feedback.Void, 0},
		}},
		{"what was sent before the horizon moved says nothing new", []step{
			{hit(1, 100, 0), 101, feedback.Confirmed, 0},
			{nothing(2, 110, 60), 120, feedback.Void, 0},
			{nothing(3, 112, 50), 121, feedback.LossMoved, 110},
			{nothing(4, 114, 50), 122, feedback.Stale, 110},
			{nothing(5, 118, 50), 123, feedback.Stale, 110},
			{nothing(6, 130, 125), 131, feedback.Void, 110},
			{nothing(7, 132, 126), 133, feedback.LossMoved, 130},
		}},
		{"after a move a claim that reaches further still stands", []step{
			{hit(1, 100, 95), 101, feedback.Confirmed, 0},
			{short(2, 110, 60), 111, feedback.Standing, 0},
			{short(3, 112, 50), 113, feedback.ShortfallMoved, 50},
			{short(4, 120, 55), 121, feedback.ShortfallMoved, 55},
			{short(5, 122, 70), 123, feedback.ShortfallMoved, 60},
		}},
		{"a claim that reaches no further is settled", []step{
			{hit(1, 100, 95), 101, feedback.Confirmed, 0},
			{short(2, 110, 60), 111, feedback.Standing, 0},
			{short(3, 112, 60), 113, feedback.ShortfallMoved, 60},
			{short(4, 120, 65), 121, feedback.Standing, 60},
		}},
		{"sent before the horizon moved, but of something newer", []step{
			{hit(1, 100, 95), 101, feedback.Confirmed, 0},
			{short(2, 110, 60), 114, feedback.Standing, 0},
			{short(3, 112, 50), 115, feedback.ShortfallMoved, 50},
			{short(4, 113, 49), 116, feedback.Stale, 50},
			{short(5, 113, 58), 117, feedback.ShortfallMoved, 58},
		}},
		{"the horizon never goes back", []step{
			{hit(1, 100, 95), 101, feedback.Confirmed, 0},
			{short(2, 110, 60), 111, feedback.Standing, 0},
			{short(3, 112, 55), 113, feedback.ShortfallMoved, 55},
			{short(4, 120, 30), 121, feedback.ShortfallMoved, 55},
			{short(5, 122, 20), 123, feedback.ShortfallMoved, 55},
		}},
		{"who never confirmed moves nothing", []step{
			{nothing(2, 110, 60), 111, feedback.Unproven, 0},
			{nothing(3, 112, 50), 113, feedback.Unproven, 0},
			{nothing(4, 114, 50), 115, feedback.Unproven, 0},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c feedback.Corrector
			for i, s := range tc.steps {
				ruling, horizon := c.Judge(s.claim, s.now)
				if ruling != s.ruling || horizon != s.horizon {
					t.Fatalf("step %d: got %v, horizon %d, want %v, horizon %d", i+1, ruling, horizon, s.ruling, s.horizon)
				}
			}
		})
	}
}

func TestCorrectorHopeless(t *testing.T) {
	var c feedback.Corrector
	for i := range 8 {
		if c.Hopeless() {
			t.Fatalf("hopeless after %d pieces of evidence", i)
		}
		c.Judge(nothing(kvindex.Key(i), kvindex.Stamp(100+i), 50), kvindex.Stamp(100+i))
	}
	if !c.Hopeless() {
		t.Error("not hopeless after 8 pieces of evidence without a confirmation")
	}
	c.Judge(hit(99, 200, 100), 201)
	if c.Hopeless() {
		t.Error("hopeless although it confirmed")
	}
}

// TestCorrectorProperties: the horizon is monotone, never newer than any dispatch it
// rests on, and moves only with a ruling that says so.
func TestCorrectorProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var c feedback.Corrector
		now, last := kvindex.Stamp(1000), kvindex.Stamp(0)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now += kvindex.Stamp(rapid.IntRange(1, 50).Draw(rt, "pause"))
			dispatched := now - kvindex.Stamp(rapid.IntRange(1, 100).Draw(rt, "took"))
			use := dispatched - kvindex.Stamp(rapid.IntRange(1, 500).Draw(rt, "age"))
			observed := rapid.SampledFrom([]int{0, 15, 16, 3200, 5744, 5746, 6384, 7000}).Draw(rt, "observed")
			ruling, horizon := c.Judge(claim(kvindex.Key(rapid.IntRange(1, 5).Draw(rt, "family")), dispatched, observed, use, use), now)
			if horizon < last {
				rt.Fatalf("the horizon went from %d to %d", last, horizon)
			}
			if horizon > last && !ruling.Moved() {
				rt.Fatalf("%v moved the horizon", ruling)
			}
			if horizon >= now {
				rt.Fatalf("the horizon %d is not in the past of %d", horizon, now)
			}
			last = horizon
		}
		if got := c.Horizon(); got != last {
			rt.Fatalf("Horizon: got %d, want %d", got, last)
		}
		if got := c.Raise(now, now); got != now {
			rt.Fatalf("Raise: got %d, want %d", got, now)
		}
	})
}

func TestRulingNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range feedback.Rulings() {
		if name := r.String(); name == "" || name == "unknown" || seen[name] {
			t.Errorf("ruling %d has the name %q", r, name)
		} else {
			seen[name] = true
		}
	}
}

func TestEvidence(t *testing.T) {
	receipt := &kvindex.Receipt{Before: 100, Recorded: 120, Stamp: 1000}
	receipt.Uses[0] = kvindex.Use{Until: 40, Last: 900}
	receipt.Uses[1] = kvindex.Use{Until: 100, Last: 500}
	answer := func(change func(*feedback.Answer)) feedback.Answer {
		a := feedback.Answer{
			PromptTokens: 7680, Cached: 6400, StreamBytes: 120 * 256, MatchedBytes: 100 * 256, BlockBytes: 256,
			EngineBlock: 16, Receipt: receipt, Keys: chainOf(1, 120),
		}
		change(&a)
		return a
	}
	type want struct {
		Predicted        int
		Missing, Deepest kvindex.Stamp
		OK               bool
		Fresh            int
	}
	for _, tc := range []struct {
		name   string
		change func(*feedback.Answer)
		want   want
	}{
		{"all of it", func(*feedback.Answer) {}, want{6400, 500, 500, true, 2560}},
		{"in this answer's own units", func(a *feedback.Answer) { a.PromptTokens = 15360 }, want{12800, 500, 500, true, 5120}},
		{"missing in the tail", func(a *feedback.Answer) { a.Cached = 2560 }, want{6400, 500, 500, true, 2560}},
		{"missing in the head", func(a *feedback.Answer) { a.Cached = 2048 }, want{6400, 900, 500, true, 0}},
		{"where the head ends, give or take", func(a *feedback.Answer) { a.Cached = 2496 }, want{6400, 500, 500, true, 2560}},
		{"missing from the start", func(a *feedback.Answer) { a.Cached = 0 }, want{6400, 900, 500, true, 0}},
		{"hybrid models have large blocks", func(a *feedback.Answer) { a.EngineBlock = 960 }, want{5760, 500, 500, true, 2560}},
		{"too little predicted", func(a *feedback.Answer) { a.PromptTokens = 140 }, want{}},
		{"nothing matched", func(a *feedback.Answer) { a.Receipt = &kvindex.Receipt{} }, want{}},
		{"no tokens reported", func(a *feedback.Answer) { a.PromptTokens = 0 }, want{}},
		{"with an image, nothing found", func(a *feedback.Answer) { a.Binary, a.Cached = true, 0 }, want{6400, 900, 500, true, 0}},
		{"with an image, found in part", func(a *feedback.Answer) { a.Binary, a.Cached = true, 3000 }, want{}},
	} {
		c, ok := feedback.Evidence(answer(tc.change))
		got := want{c.Predicted, c.Missing, c.Deepest, ok, c.Fresh}
		if !ok {
			got = want{}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestReporting(t *testing.T) {
	number := func(n int) feedback.Usage {
		return feedback.Usage{HasPrompt: true, Prompt: 1000, HasCached: true, Cached: n}
	}
	null := feedback.Usage{HasPrompt: true, Prompt: 1000, CachedNull: true}
	absent := feedback.Usage{HasPrompt: true, Prompt: 1000}
	local := feedback.Usage{HasPrompt: true, Prompt: 1000, HasCached: true, Cached: 900, HasLocal: true, Local: 64}
	type read struct {
		usage  feedback.Usage
		cold   bool
		cached int
		ok     bool
	}
	for _, tc := range []struct {
		name  string
		reads []read
	}{
		{"a positive number proves the route", []read{{number(0), true, 0, false}, {number(64), false, 64, true}, {number(0), false, 0, true}}},
		{"null is a miss where misses come as null", []read{{null, true, 0, false}, {number(64), false, 64, true}, {null, false, 0, true}, {absent, false, 0, true}}},
		{"not where they come as 0", []read{{number(0), true, 0, false}, {number(64), false, 64, true}, {null, true, 0, false}, {null, false, 0, false}}},
		{"not before one was seen to", []read{{number(64), false, 64, true}, {null, false, 0, false}, {null, true, 0, true}, {null, false, 0, true}}},
		{"without usage nothing is known", []read{{number(64), false, 64, true}, {feedback.Usage{}, true, 0, false}, {null, false, 0, false}}},
		{"what is in the engine's own cache counts", []read{{local, false, 64, true}}},
	} {
		var r feedback.Reporting
		for i, step := range tc.reads {
			if cached, ok := r.Read(step.usage, step.cold); cached != step.cached || ok != step.ok {
				t.Errorf("%s: read %d: got %d, %v, want %d, %v", tc.name, i+1, cached, ok, step.cached, step.ok)
			}
		}
	}
	var silent feedback.Reporting
	for i := range 20 {
		if silent.Silent() {
			t.Fatalf("silent after %d answers", i)
		}
		silent.Read(absent, false)
	}
	if !silent.Silent() {
		t.Error("not silent after 20 answers without a number")
	}
	if silent.Read(number(0), false); silent.Silent() {
		t.Error("silent although it said 0")
	}
}

func TestUnits(t *testing.T) {
	var u feedback.Units
	if got := u.BytesPerToken(); got != 4 {
		t.Errorf("nothing learned: %v bytes a token, want 4", got)
	}
	u.Observe(1000, 0)
	u.Observe(10, 1000)     // a hundredth of a byte a token: an image
	u.Observe(100_000, 100) // text that the engine did not get
	if got := u.BytesPerToken(); got != 4 {
		t.Errorf("after nonsense: %v bytes a token, want 4", got)
	}
	for range 100 {
		u.Observe(4000, 2000)
	}
	if got := u.BytesPerToken(); got < 2 || got > 2.03 {
		t.Errorf("after 200,000 tokens of 2 bytes: %v", got)
	}
	for range 2000 {
		u.Observe(10_000, 2000)
	}
	if got := u.BytesPerToken(); got < 4.5 || got > 5 {
		t.Errorf("after 4 M tokens of 5 bytes: %v, want the old ones to fade", got)
	}
}

func TestPrefillRate(t *testing.T) {
	var r feedback.PrefillRate
	for range 19 {
		r.Observe(10_000, time.Second, false)
	}
	r.Observe(255, time.Millisecond, false) // too small
	r.Observe(5000, 0, false)
	r.Observe(4000, time.Millisecond, true) // perhaps begun before
	if got := r.Rate(); got != feedback.DefaultPrefillRate {
		t.Errorf("after 19 samples: %v, want the default", got)
	}
	r.Observe(10_000, time.Second, false)
	if got := r.Rate(); got != 10_000 {
		t.Errorf("after 20 samples: %v, want 10,000", got)
	}
	for i := range 64 {
		r.Observe((i+1)*1000, time.Second, false)
	}
	if got := r.Rate(); got < 31_000 || got > 33_000 { // a quarter of all tokens are in the slower half
		t.Errorf("of 1,000 to 64,000: %v, want the lower quartile of tokens", got)
	}
}

func TestCalibration(t *testing.T) {
	var c feedback.Calibration
	if _, known := c.CutShare(1); known || c.Factor(1) != 1 {
		t.Error("an unknown scope: want factor 1 and no share")
	}
	c.Observe(1, 0)
	if got := c.Factor(1); got != 0.75 {
		t.Errorf("after one miss: %v, want 0.75", got)
	}
	if got := c.Factor(2); got != 1 {
		t.Errorf("another scope: %v, want 1", got)
	}
	for range 30 {
		c.Observe(1, 0)
	}
	if got := c.Factor(1); got > 0.001 {
		t.Errorf("after 31 misses: %v, want about 0", got)
	}
	for range 30 {
		c.Observe(1, 3) // more than predicted is all of it
	}
	if got := c.Factor(1); got < 0.999 || got > 1 {
		t.Errorf("after 30 hits: %v, want about 1", got)
	}
	c.ObserveCut(1, 0.5)
	c.ObserveCut(1, 0.9)
	if got, known := c.CutShare(1); got != 0.6 || !known {
		t.Errorf("share beyond the cut: %v, known %v, want 0.6", got, known)
	}
	c.ObserveCut(3, 0)
	if got, known := c.CutShare(3); got != 0 || !known {
		t.Errorf("a scope that delivers nothing: %v, known %v, want 0 and known", got, known)
	}
	for scope := range kvindex.Key(5000) {
		c.Observe(scope+10, 0)
	}
	if got := c.Factor(1); got != 1 {
		t.Errorf("a scope of long ago: %v, want it forgotten", got)
	}
}

func TestSettle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(name string) int { return rapid.IntRange(0, 10_000).Draw(rt, name) }
		prompt, captured := n("prompt"), n("captured")
		available := captured + n("more")
		reported, overflow := rapid.Bool().Draw(rt, "reported"), rapid.Bool().Draw(rt, "overflow")
		a := feedback.Settle(prompt, available, captured, n("predicted"), min(n("cached"), prompt), reported, overflow)
		if sum := a.Delivered + a.NoReuse + a.Overflow + a.LoadChoice + a.StaleIndex + a.Unreported; sum != a.Prompt || a.Prompt != prompt {
			rt.Fatalf("%+v adds up to %d, want %d", a, sum, prompt)
		}
		for _, part := range []int{a.Available, a.Captured, a.Predicted, a.Delivered, a.NoReuse, a.Overflow, a.LoadChoice, a.StaleIndex, a.Unreported} {
			if part < 0 || part > prompt {
				rt.Fatalf("a part of %+v is not within the prompt", a)
			}
		}
		if reported && a.Unreported != 0 || !reported && (a.Delivered != 0 || a.StaleIndex != 0) || overflow && a.LoadChoice != 0 || !overflow && a.Overflow != 0 {
			rt.Fatalf("%+v blames what did not happen", a)
		}
	})
}

// TestFollowSettlesNoMoreThanItSays: another router's horizon is of what is old, not of the
// whole cache.
func TestFollowSettlesNoMoreThanItSays(t *testing.T) {
	for _, tc := range []struct {
		name string
		move func(*feedback.Corrector)
		want feedback.Ruling
	}{
		{"followed", func(c *feedback.Corrector) { c.Follow(5, 112) }, feedback.LossMoved},
		{"raised", func(c *feedback.Corrector) { c.Raise(5, 112) }, feedback.Void},
	} {
		var c feedback.Corrector
		for _, s := range []step{{hit(1, 100, 8), 101, feedback.Confirmed, 0}, {nothing(2, 110, 75), 111, feedback.Void, 0}} {
			if got, _ := c.Judge(s.claim, s.now); got != s.ruling {
				t.Fatalf("%s: got %v, want %v", tc.name, got, s.ruling)
			}
		}
		tc.move(&c)
		if got, _ := c.Judge(nothing(3, 114, 60), 115); got != tc.want || c.Horizon() < 5 {
			t.Errorf("%s: got %v, horizon %d, want %v", tc.name, got, c.Horizon(), tc.want)
		}
	}
}
