package replay

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// Result is what was measured in a run. Requests past the router are in Foreign alone.
type Result struct {
	// Requests came to the router; Answered were answered in full. Of the rest, Rejected
	// found no backend, Refused were longer than an engine's context, Aborted were left
	// by the client, Broken died with their engine.
	Requests, Answered, Rejected, Refused, Aborted, Broken int
	// Foreign are requests that reached an engine past the router.
	Foreign int
	// Preemptions counts sequences that lost their blocks to others.
	Preemptions int
	// Duration is when the last request ended, whatever befell the fleet later.
	Duration time.Duration

	// Samples are the admitted requests in the order in which they were admitted.
	Samples []Sample
	// TTFTs are the times to first token, sorted.
	TTFTs []time.Duration

	// Backends are the requests by backend, Overflow those for which a better backend
	// was full.
	Backends []int
	Overflow int
	// Busiest is the most requests that any backend had in flight at a decision, that
	// request included.
	Busiest int

	// Account is where the tokens of answered prompts went, as the router tells it.
	Account feedback.Account
	// Rulings count the evidence by what it came to.
	Rulings map[feedback.Ruling]int
	// Moves are the moves of horizons.
	Moves []Move
	// Recoveries are the faults, and how the router found out; only with an audit.
	Recoveries []*Recovery
	// Missed are the faults that nothing came of: by then, all requests had ended.
	Missed []Fault
	// Ejections counts backends taken out of rotation.
	Ejections int
	// Hopeless and Silent are the backends of which the router said so.
	Hopeless, Silent map[int]bool
	// Bounds are the last bounds on each backend's entries.
	Bounds []int
	// Entries and Gone are sums over samples of the index, every AuditEvery: entries
	// that can be checked, and those of them that no engine holds any more.
	Entries, Gone int
}

// Sample is one admitted request.
type Sample struct {
	// At is when it arrived; TTFT is 0 where no token came.
	At, TTFT time.Duration
	// Lasted is until the end of its answer, of Output tokens; both are 0 where that broke off.
	Lasted time.Duration
	Output int
	// Backend is where it went.
	Backend int
	// Prompt, Cached and Expected are tokens: of the prompt, found in the engine's cache
	// at admission, and expected there by the router, in this prompt's own units.
	Prompt, Cached, Expected int
	// Predicted is what the router expected in the pool's average units.
	Predicted int
}

// Move is a move of one backend's horizon.
type Move struct {
	At      time.Duration
	Backend int
	// Cause is what moved it.
	Cause string
	// Forgotten is how many entries the index lost. Of those, Checked could be compared
	// with the engine, and Held were still in its cache; 0 without an audit.
	Forgotten, Checked, Held int
}

// False reports whether the move was an error: the engine still held most of what the
// index was made to forget.
func (m Move) False() bool { return 2*m.Held > m.Checked }

func newResult(c Config) Result {
	return Result{
		Backends: make([]int, c.Backends),
		Rulings:  make(map[feedback.Ruling]int),
		Hopeless: make(map[int]bool),
		Silent:   make(map[int]bool),
	}
}

// answered notes the end of an answer in full.
func (r *Result) answered(fl *flight, lasted time.Duration) {
	r.Answered++
	s := &r.Samples[fl.sample]
	s.Lasted, s.Output = lasted, fl.ask.OutputTokens
}

// believed is what the router expected to be cached, in tokens of this prompt: the match
// in the prompt's own bytes per token, lowered by what is known of the backend.
func (fl *flight) believed() int {
	d := fl.decision
	if d.CapturedCached == 0 {
		return 0
	}
	perToken := float64(fl.stream) / float64(fl.prompt)
	matched := d.MatchedBlocks * fl.fleet.config.Router.BlockBytes
	own := feedback.NewPredictor(perToken, fl.node.engine.BlockSize()).Cached(matched, fl.prompt)
	return own * d.PredictedCached / d.CapturedCached
}

// admitted takes in what an engine found of a routed request.
func (r *Result) admitted(fl *flight) {
	d := fl.decision
	fl.sample = len(r.Samples)
	r.Samples = append(r.Samples, Sample{
		At: fl.at, Backend: fl.node.number,
		Prompt: fl.prompt, Cached: fl.cached, Expected: fl.believed(), Predicted: d.PredictedCached,
	})
	r.Backends[fl.node.number]++
	if d.Reason.IsOverflow() {
		r.Overflow++
	}
}

func (r *Result) firstToken(fl *flight, ttft time.Duration) {
	r.Samples[fl.sample].TTFT = ttft
	r.TTFTs = append(r.TTFTs, ttft)
}

func (r *Result) judged(_ *router.Decision, _ feedback.Claim, ruling feedback.Ruling) {
	r.Rulings[ruling]++
}

func (r *Result) accounted(_ *router.Decision, a feedback.Account) { r.Account.Add(a) }

func (r *Result) ejected(*router.Pool, *backends.Backend, time.Time) { r.Ejections++ }

func (r *Result) close(f *Fleet) {
	slices.Sort(r.TTFTs)
	for _, recovery := range r.Recoveries {
		recovery.left = nil
	}
	for _, n := range f.nodes {
		r.Bounds = append(r.Bounds, f.index.Stats(n.holder).Capacity)
	}
}

// HitRate is cached ÷ prompt tokens of all admitted requests.
func (r *Result) HitRate() float64 {
	prompt, cached := 0, 0
	for _, s := range r.Samples {
		prompt += s.Prompt
		cached += s.Cached
	}
	return ratio(cached, prompt)
}

// Precision is how much of what the router expected to be cached was: per request no more
// than was expected, over all requests.
func (r *Result) Precision() float64 {
	right, expected := 0, 0
	for _, s := range r.Samples {
		right += min(s.Cached, s.Expected)
		expected += s.Expected
	}
	return ratio(right, expected)
}

// Recall is how much of what the chosen backend held at admission the router had
// expected: per request no more than was held, over all requests.
func (r *Result) Recall() float64 {
	right, held := 0, 0
	for _, s := range r.Samples {
		right += min(s.Cached, s.Expected)
		held += s.Cached
	}
	return ratio(right, held)
}

// DeliveredShare is delivered ÷ predicted tokens, the sums of all requests, in the units
// the router predicts in. Errors in both directions cancel in it.
func (r *Result) DeliveredShare() float64 {
	delivered, predicted := 0, 0
	for _, s := range r.Samples {
		if s.Predicted > 0 {
			delivered += s.Cached
			predicted += s.Predicted
		}
	}
	return ratio(delivered, predicted)
}

// Stale is the share of the index's entries that no engine held any more, over all
// samples of the audit.
func (r *Result) Stale() float64 { return ratio(r.Gone, r.Entries) }

// Quantile is a quantile of the time to first token, q in 0..1; 0 when there was none.
func (r *Result) Quantile(q float64) time.Duration { return quantile(r.TTFTs, q) }

// Mean is the mean time to first token.
func (r *Result) Mean() time.Duration {
	var sum time.Duration
	for _, t := range r.TTFTs {
		sum += t
	}
	return sum / time.Duration(max(len(r.TTFTs), 1))
}

// Window returns the requests that arrived in a part of the run as a result of their own:
// samples, times to first token and requests by backend.
func (r *Result) Window(from, to time.Duration) *Result {
	w := &Result{Backends: make([]int, len(r.Backends))}
	for _, s := range r.Samples {
		if s.At < from || s.At >= to {
			continue
		}
		w.Samples = append(w.Samples, s)
		w.Requests++
		w.Backends[s.Backend]++
		if s.TTFT > 0 {
			w.TTFTs = append(w.TTFTs, s.TTFT)
		}
	}
	slices.Sort(w.TTFTs)
	return w
}

// Shares are the smallest and the largest part of the requests that one backend got.
func (r *Result) Shares() (least, most float64) {
	total := 0
	for _, n := range r.Backends {
		total += n
	}
	return ratio(slices.Min(r.Backends), total), ratio(slices.Max(r.Backends), total)
}

// Prefilled are the prompt tokens that were not cached, by backend.
func (r *Result) Prefilled() []int {
	tokens := make([]int, len(r.Backends))
	for _, s := range r.Samples {
		tokens[s.Backend] += s.Prompt - s.Cached
	}
	return tokens
}

// OverflowShare is the part of the admitted requests for which a better backend was full.
func (r *Result) OverflowShare() float64 { return ratio(r.Overflow, len(r.Samples)) }

// FalseMoves counts the moves of horizons that were errors.
func (r *Result) FalseMoves() int {
	n := 0
	for _, m := range r.Moves {
		if m.False() {
			n++
		}
	}
	return n
}

// MovesByCause counts the moves of horizons.
func (r *Result) MovesByCause() map[string]int {
	n := make(map[string]int)
	for _, m := range r.Moves {
		n[m.Cause]++
	}
	return n
}

// Header names the columns of [Result.Row].
const Header = "requests  hit %  precision  recall  dlv/pred  P50 s   P90 s   P99 s   mean s  shares %     ovfl %  gone %  moves  false"

// Row is the result as one line of a table.
func (r *Result) Row() string {
	least, most := r.Shares()
	return fmt.Sprintf("%8d  %5.2f  %9.4f  %6.4f  %8.4f  %-6.3f  %-6.3f  %-6.3f  %-6.3f  %4.1f - %-4.1f  %6.2f  %6.2f  %5d  %5d",
		r.Requests, 100*r.HitRate(), r.Precision(), r.Recall(), r.DeliveredShare(),
		r.Quantile(.5).Seconds(), r.Quantile(.9).Seconds(), r.Quantile(.99).Seconds(), r.Mean().Seconds(),
		100*least, 100*most, 100*r.OverflowShare(), 100*r.Stale(), len(r.Moves), r.FalseMoves())
}

// Events says in one line what befell the fleet and what the router made of it.
func (r *Result) Events() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d answered, %d aborted, %d broken, %d rejected, %d foreign, %d ejections; horizon moves:",
		r.Answered, r.Aborted, r.Broken, r.Rejected+r.Refused, r.Foreign, r.Ejections)
	counts := r.MovesByCause()
	for _, cause := range router.Causes() {
		fmt.Fprintf(&b, " %s %d", cause, counts[cause])
	}
	b.WriteString("; evidence:")
	for _, ruling := range feedback.Rulings() {
		fmt.Fprintf(&b, " %s %d", ruling, r.Rulings[ruling])
	}
	return b.String()
}

func ratio(a, b int) float64 { return float64(a) / float64(max(b, 1)) }

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
