package router

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// Reason is why a backend was chosen.
type Reason uint8

// The reasons.
const (
	// LongestMatch: it holds the longest part of the prompt.
	LongestMatch Reason = iota
	// OverflowHolder: a longer match was full; it holds the next longest.
	OverflowHolder
	// Overflow: every holder was full; it is the cheapest with room to spare.
	Overflow
	// QueueGuarded: a longer match has so much queued that recomputing is cheaper.
	QueueGuarded
	// CommonHead: the backends' traffic has most of the prompt in common; it has the least
	// to do, and computes that once.
	CommonHead
	// NoMatch: no backend holds enough of the prompt; it is the cheapest.
	NoMatch
	// NoPrefix: the prompt has no usable prefix; placed by load.
	NoPrefix
	// Saturated: no backend has room to spare; it is the cheapest all the same.
	Saturated
	// OnlyBackend: nobody else can take the request.
	OnlyBackend
	// LeastBad: every backend is ejected or cooling, or does not answer probes; it comes back
	// first.
	LeastBad
	// AdapterPlaced: nobody who can take the prompt lately had requests for its LoRA adapter;
	// it has that loaded, or makes room for it soonest.
	AdapterPlaced
	// AdapterSpread: everybody who lately had requests for the adapter is busy; it has it
	// loaded as well, or makes room for it soonest.
	AdapterSpread
	// Pinned: the request named it, or continues a conversation stored there.
	Pinned
	// RandomChoice: by the RANDOM strategy.
	RandomChoice
	// FewestOutstanding: by the LEAST_OUTSTANDING_REQUESTS strategy.
	FewestOutstanding
	// HashedPrefix: by the PREFIX_HASH strategy.
	HashedPrefix
	// HashOverflow: the hashed backend was full; it has the fewest in flight.
	HashOverflow
	// CheapestTTFT: by the LEAST_EXPECTED_TTFT strategy.
	CheapestTTFT
)

var reasonNames = [...]string{
	LongestMatch:      "longest_match",
	OverflowHolder:    "overflow_holder",
	Overflow:          "overflow",
	QueueGuarded:      "queue_guard",
	CommonHead:        "common_head",
	NoMatch:           "no_match",
	NoPrefix:          "no_prefix",
	Saturated:         "saturated",
	OnlyBackend:       "only_backend",
	LeastBad:          "least_bad",
	AdapterPlaced:     "adapter_placed",
	AdapterSpread:     "adapter_spread",
	Pinned:            "pinned",
	RandomChoice:      "random",
	FewestOutstanding: "fewest_outstanding",
	HashedPrefix:      "hashed_prefix",
	HashOverflow:      "hash_overflow",
	CheapestTTFT:      "cheapest_ttft",
}

// String returns the reason as headers, logs and metrics name it.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// Reasons returns all reasons, for metrics that exist from the start.
func Reasons() []Reason {
	all := make([]Reason, len(reasonNames))
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

// IsOverflow reports whether the reason is that a better backend was full.
func (r Reason) IsOverflow() bool {
	return r == OverflowHolder || r == Overflow || r == Saturated || r == HashOverflow || r == AdapterSpread
}

// Decision is one choice of a backend. It holds an in-flight slot until
// [Router.Complete]; the exported fields do not change.
type Decision struct {
	// Pool, Strategy and Backend are where, by which rule, and what was chosen.
	Pool     *Pool
	Strategy string
	Backend  *backends.Backend
	Reason   Reason
	// At is the moment of the decision.
	At time.Time

	// PromptBlocks, MatchedBlocks and AvailableBlocks are the blocks of the prompt,
	// those of them that the chosen backend is thought to hold, and the most that
	// any eligible backend is.
	PromptBlocks, MatchedBlocks, AvailableBlocks int
	// PromptTokens estimates the prompt's length; AvailableCached is the best match on
	// any eligible backend, CapturedCached the match on the chosen one, and
	// PredictedCached what it is expected to find cached, which is less where its
	// matches have not come true. In tokens.
	PromptTokens, AvailableCached, CapturedCached, PredictedCached int
	// InFlight, Limit and Queued are the chosen backend's load before this request:
	// requests in flight, its threshold at that moment, and tokens to prefill.
	InFlight, Limit, Queued int
	// Eligible is how many backends were considered, and Considered the foremost of them;
	// nil while nobody watches ([Router.Watch]).
	Eligible   int
	Considered []feedback.Considered
	// Alternatives are those of them that would take the request next, at most as many as
	// were asked for.
	Alternatives []*backends.Backend

	id        uint64
	member    *member
	asked     asked
	blocks    []kvindex.Key
	slot      backends.Slot
	ticket    feedback.Ticket
	receipt   kvindex.Receipt
	promise   kvindex.Promise // what other routers expect, until it is kept; guarded by member.mu
	renewed   kvindex.Stamp   // last use given to the blocks since the receipt; guarded by member.mu
	firstSeen atomic.Bool
	firstAt   time.Time // written once, by whoever sets firstSeen
	// Since when the backend prefilled this prompt and no other, where that is known.
	prefillSince time.Time
	prefillKnown bool
	completed    atomic.Bool
}

// asked is what of a request is needed again when its answer is in.
type asked struct {
	scope                    kvindex.Key
	route                    string
	adapter                  string // empty: the prompt is for no LoRA adapter
	streamBytes, hashedBytes int
	blockBytes               int
	noEvidence, binary       bool
	streamed                 bool
	dispatch                 uint64 // the backend's count of dispatches, this one included
}

// ID is the decision's name in headers, logs and reports: 16 hex digits.
func (d *Decision) ID() string {
	s := strconv.FormatUint(d.id, 16)
	return "0000000000000000"[len(s):] + s
}

// Keys are the block keys of the prompt. They are the caller's of [Router.Route], and
// nothing from the moment [Router.Complete] returns.
func (d *Decision) Keys() []kvindex.Key { return d.blocks }

// Record fills in what a record tells of the decision.
func (d *Decision) Record(r *feedback.Record) {
	r.Strategy, r.Reason, r.Backend, r.DecisionID, r.Why = d.Strategy, d.Reason.String(), d.Backend.ID, d.ID(), d.Explain()
	r.Overflow, r.InFlight, r.MatchedBlocks = d.Reason.IsOverflow(), d.InFlight, d.MatchedBlocks
	r.PromptTokens, r.PredictedCached, r.AvailableCached = d.PromptTokens, d.PredictedCached, d.AvailableCached
	r.Eligible, r.Considered = d.Eligible, d.Considered
}

// Explain says in one line why the backend was chosen. Every decision has it in its record.
func (d *Decision) Explain() string {
	var buf [256]byte
	return string(d.explain(buf[:0]))
}

func (d *Decision) explain(w words) words {
	id := d.Backend.ID
	switch d.Reason {
	case LongestMatch:
		return w.text("longest match: ").held(d).text("; ").load(d)
	case OverflowHolder:
		return w.text("overflow: a backend that holds ").number(d.AvailableBlocks).text(" blocks is full; ").held(d).text(", the next longest match; ").load(d)
	case Overflow:
		return w.text("overflow: every backend that holds the prompt (up to ").number(d.AvailableBlocks).text(" blocks) is full; ").text(id).text(" is the cheapest with room; ").load(d)
	case QueueGuarded:
		return w.text("queue guard: waiting for the backend that holds ").number(d.AvailableBlocks).text(" blocks would cost more than recomputing; ").held(d).text("; ").load(d)
	case CommonHead:
		return w.text("common head: most of what comes here begins like this prompt (up to ").number(d.AvailableBlocks).text(" blocks held elsewhere), so ").text(id).text(" computes it once; ").load(d)
	case NoMatch:
		return w.text("no backend holds enough of the prompt (best ").number(d.AvailableBlocks).text(" of ").number(d.PromptBlocks).text(" blocks): ").text(id).text(" is the cheapest; ").load(d)
	case NoPrefix:
		return w.text("no usable prefix: ").text(id).text(" by load; ").load(d)
	case Saturated:
		return w.text("no backend has room to spare: ").text(id).text(" is the cheapest of all; ").load(d)
	case OnlyBackend:
		return w.text("only backend that can take it: ").text(id).text("; ").load(d)
	case LeastBad:
		return w.text("every backend is ejected, cooling or out of touch: ").text(id).text(" is the least bad")
	case AdapterPlaced:
		return w.text("nobody who can take it lately had requests for the adapter: ").text(id).text(" has it loaded, or makes room for it soonest; ").load(d)
	case AdapterSpread:
		return w.text("everybody who lately had requests for the adapter is busy: ").text(id).text(" has it loaded as well, or makes room for it soonest; ").load(d)
	case Pinned:
		return w.text("the request belongs to ").text(id)
	case RandomChoice:
		return w.text("at random from ").number(d.Eligible).text(" backends; ").held(d)
	case FewestOutstanding:
		return w.text("fewest in flight: ").text(id).text("; ").load(d)
	case HashedPrefix:
		return w.text("the hash of the prefix names ").text(id).text("; ").load(d)
	case HashOverflow:
		return w.text("overflow: the backend that the prefix hash names is full; ").text(id).text(" has the fewest in flight; ").load(d)
	case CheapestTTFT:
		return w.text("smallest expected time to first token: ").held(d).text("; ").load(d)
	}
	return w.text(d.Reason.String())
}

// words is a line of text that is put together without an allocation for each number.
type words []byte

func (w words) text(s string) words { return append(w, s...) }

func (w words) number(n int) words { return strconv.AppendInt(w, int64(n), 10) }

// held says how much of the prompt the chosen backend holds.
func (w words) held(d *Decision) words {
	return w.text(d.Backend.ID).text(" holds ").number(d.MatchedBlocks).text(" of ").number(d.PromptBlocks).text(" blocks")
}

// load says how busy the chosen backend was.
func (w words) load(d *Decision) words {
	return w.number(d.InFlight).text(" of ").number(d.Limit).text(" in flight, ").number(d.Queued).text(" tokens queued")
}
