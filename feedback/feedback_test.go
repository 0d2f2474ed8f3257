package feedback_test

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"pgregory.net/rapid"
)

func TestPredictorCached(t *testing.T) {
	for _, tc := range []struct {
		name                               string
		bytesPerToken                      float64
		engineBlock, matched, prompt, want int
	}{
		{"nothing matched", 4, 16, 0, 1000, 0},
		{"less than an engine block", 4, 16, 60, 1000, 0},
		{"whole engine blocks", 4, 16, 256, 1000, 64},
		{"rounded down", 4, 16, 4 * 79, 1000, 64},
		{"never the last token", 4, 16, 4000, 160, 144},
		{"one token more", 4, 16, 4000, 161, 160},
		{"token-exact engines", 4, 1, 4000, 160, 159},
		{"hybrid model, prompt shorter than a block", 4, 960, 3200, 800, 0},
		{"defaults", 0, 0, 256, 1000, 64},
		{"empty prompt", 4, 16, 100, 0, 0},
		{"Chinese text", 3, 16, 300, 1000, 96},
	} {
		if got := feedback.NewPredictor(tc.bytesPerToken, tc.engineBlock).Cached(tc.matched, tc.prompt); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestPredictorBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		block := rapid.IntRange(1, 2000).Draw(rt, "block")
		prompt := rapid.IntRange(0, 200_000).Draw(rt, "prompt")
		matched := rapid.IntRange(0, 1_000_000).Draw(rt, "matched")
		got := feedback.NewPredictor(rapid.Float64Range(1, 8).Draw(rt, "bpt"), block).Cached(matched, prompt)
		if got < 0 || got%block != 0 || prompt > 0 && got > (prompt-1)/block*block {
			rt.Fatalf("prompt %d, engine block %d: predicted %d", prompt, block, got)
		}
	})
}

func TestOutcome(t *testing.T) {
	for _, tc := range []struct {
		result              feedback.Result
		firstByte           bool
		answered, prefilled bool
	}{
		{feedback.Success, true, true, false},
		{feedback.ClientClosed, true, false, true},
		{feedback.ClientClosed, false, false, false},
		{feedback.UpstreamAborted, true, false, true},
		{feedback.Rejected, true, false, false},
		{feedback.EngineError, true, false, false},
		{feedback.Unavailable, false, false, false},
	} {
		o := feedback.Outcome{Result: tc.result, FirstByte: tc.firstByte}
		if o.Answered() != tc.answered || o.Prefilled() != tc.prefilled {
			t.Errorf("%v, first byte %v: answered %v, prefilled %v", tc.result, tc.firstByte, o.Answered(), o.Prefilled())
		}
	}
	seen := make(map[string]bool)
	for _, r := range feedback.Results() {
		if name := r.String(); name == "" || name == "unknown" || seen[name] {
			t.Errorf("result %d has the name %q", r, name)
		} else {
			seen[name] = true
		}
	}
}

// clock is a moment that moves by seconds.
func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func wantTokens(t *testing.T, q *feedback.PrefillQueue, when float64, want int) {
	t.Helper()
	if got := q.Tokens(at(when)); got != want {
		t.Errorf("at %v s: %d tokens queued, want %d", when, got, want)
	}
}

func TestQueueDecaysFromBecomingNonEmpty(t *testing.T) {
	var q feedback.PrefillQueue
	wantTokens(t, &q, 0, 0)
	first := q.Push(10_000, true, at(5))
	wantTokens(t, &q, 5, 10_000)
	wantTokens(t, &q, 7, 6_000)
	second := q.Push(3_000, true, at(7))
	wantTokens(t, &q, 7, 9_000)
	wantTokens(t, &q, 60, 13_000) // stuck: everything counts
	q.FirstToken(&first, at(60))
	wantTokens(t, &q, 60, 3_000)
	wantTokens(t, &q, 61, 1_000)
	wantTokens(t, &q, 62, 0)
	q.FirstToken(&first, at(62)) // once more does no harm
	q.FirstToken(&second, at(62))
	wantTokens(t, &q, 62, 0)
}

func TestQueueLeave(t *testing.T) {
	var q feedback.PrefillQueue
	gone, stays := q.Push(4_000, true, at(0)), q.Push(6_000, true, at(0))
	q.Leave(&gone, at(0))
	wantTokens(t, &q, 0, 6_000)
	q.Leave(&gone, at(0))
	q.Leave(&stays, at(1))
	wantTokens(t, &q, 1, 0)
	next := q.Push(500, true, at(100)) // the clock starts again with a non-empty queue
	wantTokens(t, &q, 100, 500)
	q.Leave(&next, at(100))
}

func TestQueueOfSilentAnswers(t *testing.T) {
	var q feedback.PrefillQueue
	// Not streamed: no first token will be seen, so 8,000 tokens leave after 4 s.
	silent := q.Push(8_000, false, at(0))
	streamed := q.Push(20_000, true, at(0))
	wantTokens(t, &q, 2, 24_000)
	wantTokens(t, &q, 4, 20_000) // and what it took is not counted twice
	wantTokens(t, &q, 5, 18_000)
	q.Leave(&silent, at(5)) // it has left already
	wantTokens(t, &q, 5, 18_000)
	q.FirstToken(&streamed, at(6))
	wantTokens(t, &q, 6, 0)

	early := q.Push(8_000, false, at(10))
	q.FirstToken(&early, at(11)) // answered before it was presumed to be
	wantTokens(t, &q, 11, 0)
	wantTokens(t, &q, 20, 0)
}

// TestQueueTellsWhoIsPrefilledAlone: engines prefill one prompt after the other, so what one
// took is the time from the first token before its own.
func TestQueueTellsWhoIsPrefilledAlone(t *testing.T) {
	var q feedback.PrefillQueue
	want := func(ticket *feedback.Ticket, when, since float64, known bool) {
		t.Helper()
		if got, ok := q.FirstToken(ticket, at(when)); ok != known || known && !got.Equal(at(since)) {
			t.Errorf("first token at %v s: since %v, %v, want %v, %v", when, got, ok, at(since), known)
		}
	}
	a, b, c := q.Push(1, true, at(0)), q.Push(1, true, at(1)), q.Push(1, true, at(2))
	want(&a, 3, 0, true) // nothing waited before it
	want(&c, 5, 3, true)
	want(&b, 6, 5, true)

	d, e := q.Push(1, true, at(10)), q.Push(1, true, at(11))
	want(&e, 12, 0, false) // before its turn, so the engine did not finish d first
	want(&d, 13, 10, true)

	silent, f := q.Push(2000, false, at(20)), q.Push(1, true, at(20))
	want(&f, 22, 0, false) // when the silent one's turn ended is presumed, not known
	want(&silent, 23, 0, false)
	g := q.Push(1, true, at(30))
	want(&g, 31, 30, true)
}

// TestQueueReturnsToZero: whatever the order of events, a queue whose requests have
// all ended holds nothing, and never less than nothing.
func TestQueueReturnsToZero(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var q feedback.PrefillQueue
		var tickets []feedback.Ticket
		now := 0.0
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			now += rapid.Float64Range(0, 40).Draw(rt, "pause")
			switch op := rapid.SampledFrom([]string{"push", "push", "first", "leave"}).Draw(rt, "op"); {
			case op == "push":
				tickets = append(tickets, q.Push(rapid.IntRange(-1, 50_000).Draw(rt, "tokens"), rapid.Bool().Draw(rt, "streamed"), at(now)))
			case len(tickets) > 0:
				i := rapid.IntRange(0, len(tickets)-1).Draw(rt, "which")
				if op == "first" {
					q.FirstToken(&tickets[i], at(now))
				} else {
					q.Leave(&tickets[i], at(now))
				}
			}
			if got := q.Tokens(at(now)); got < 0 {
				rt.Fatalf("%d tokens queued", got)
			}
		}
		for i := range tickets {
			q.Leave(&tickets[i], at(now))
		}
		if got := q.Tokens(at(now)); got != 0 {
			rt.Fatalf("all requests ended and %d tokens are queued", got)
		}
	})
}

func TestQueueDoesNotAllocateWhenRead(t *testing.T) {
	var q feedback.PrefillQueue
	q.Push(1000, true, at(0))
	if got := testing.AllocsPerRun(100, func() { q.Tokens(at(0.1)) }); got != 0 {
		t.Errorf("Tokens: %v allocations, want 0", got)
	}
}
