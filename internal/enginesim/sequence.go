package enginesim

import "time"

// Request is what an engine is asked to compute: a prompt, and an answer whose
// length is known beforehand.
type Request struct {
	// PromptTokens is the length of the prompt in tokens, at least 1.
	PromptTokens int
	// OutputTokens is how many tokens are generated. With 0 the request ends
	// when its prompt is computed, as an embedding does.
	OutputTokens int
	// Blocks are the chained ids of the leading full blocks of prompt and
	// output taken as one run of tokens, see [Chain]. Blocks beyond the given
	// ids are computed but never found again by another request. The engine
	// keeps the slice and does not change it.
	Blocks []BlockID
	// Finish is the reason an answer of full length ends with; the zero value
	// is [FinishStop].
	Finish FinishReason
	// SkipCacheRead makes the request compute its whole prompt, as
	// prompt_logprobs does. Its blocks are cached all the same.
	SkipCacheRead bool
	// Tag is handed back by [Sequence.Tag]; the engine does not look at it.
	Tag any
}

// FinishReason says why a sequence ended.
type FinishReason uint8

// The reasons a sequence ends for, in the order of vLLM's finished_reason label.
const (
	FinishStop FinishReason = iota
	FinishLength
	FinishAbort
	finishReasons
)

// String returns the reason as vLLM's metrics spell it.
func (r FinishReason) String() string {
	switch r {
	case FinishStop:
		return "stop"
	case FinishLength:
		return "length"
	default:
		return "abort"
	}
}

// State is where a sequence is in its life.
type State uint8

// The states of a sequence.
const (
	// StateArriving is before the scheduler can see it: rendering, tokenising.
	StateArriving State = iota
	// StateWaiting is queued, new or preempted.
	StateWaiting
	// StateRunning is in the running batch.
	StateRunning
	// StateDone is finished or aborted.
	StateDone
)

// Sequence is a submitted request. Its methods may be called whenever the
// engine's may.
type Sequence struct {
	req   Request
	state State

	table     []int32 // the KV blocks it references, in order
	named     int     // leading blocks of table that carry their id
	computed  int     // tokens whose KV is computed or cached
	generated int
	scheduled int // tokens it computes in the step under way

	cached      int // at first admission
	admissions  int
	preemptions int
	counted     bool // prompt tokens are in the counters

	arrived, ready, admitted, first, last, finished time.Duration
}

// Progress is a sequence's record so far. Times are since the engine's start
// and 0 where the moment has not come.
type Progress struct {
	// State is where the sequence is now.
	State State
	// PromptTokens and OutputTokens repeat the request.
	PromptTokens, OutputTokens int
	// CachedTokens are the prompt tokens found in the prefix cache when it was
	// first admitted; a preemption does not change it.
	CachedTokens int
	// ComputedTokens are the tokens whose KV it holds now.
	ComputedTokens int
	// Generated are the output tokens so far.
	Generated int
	// Preemptions counts how often it lost its KV blocks.
	Preemptions int
	// Arrived, Ready, Admitted, FirstToken and Finished are the moments it was
	// submitted, became visible to the scheduler, was first scheduled, had its
	// first token and ended.
	Arrived, Ready, Admitted, FirstToken, Finished time.Duration
}

// Tag returns the request's tag.
func (s *Sequence) Tag() any { return s.req.Tag }

// Progress returns the sequence's record so far.
func (s *Sequence) Progress() Progress {
	return Progress{
		State:          s.state,
		PromptTokens:   s.req.PromptTokens,
		OutputTokens:   s.req.OutputTokens,
		CachedTokens:   s.cached,
		ComputedTokens: s.computed,
		Generated:      s.generated,
		Preemptions:    s.preemptions,
		Arrived:        s.arrived,
		Ready:          s.ready,
		Admitted:       s.admitted,
		FirstToken:     s.first,
		Finished:       s.finished,
	}
}

// total returns the tokens that must be computed before the next one comes.
func (s *Sequence) total() int { return s.req.PromptTokens + s.generated }

// decoding reports whether all that is left to compute is the last token.
func (s *Sequence) decoding() bool { return s.generated > 0 && s.computed+1 == s.total() }

// EventKind says what happened to a sequence.
type EventKind uint8

// The events of an engine.
const (
	// EventAdmitted: the sequence joined the running batch. Tokens are the
	// cached tokens it starts with; a preempted one is admitted again.
	EventAdmitted EventKind = iota
	// EventFirstToken: its first output token exists. Tokens is 1.
	EventFirstToken
	// EventToken: another output token exists. Tokens is 1.
	EventToken
	// EventFinished: it ended by itself. Tokens are all its output tokens.
	EventFinished
	// EventPreempted: it lost its blocks and waits again. Tokens are the tokens
	// it will have to compute anew or find in the cache.
	EventPreempted
)

// String returns the kind in one lower-case word or two.
func (k EventKind) String() string {
	switch k {
	case EventAdmitted:
		return "admitted"
	case EventFirstToken:
		return "first token"
	case EventToken:
		return "token"
	case EventFinished:
		return "finished"
	default:
		return "preempted"
	}
}

// Event is one thing that happened to one sequence in a step.
type Event struct {
	// At is the moment, since the engine's start.
	At time.Duration
	// Kind is what happened.
	Kind EventKind
	// Tokens depends on the kind.
	Tokens int
	// Sequence is whom it happened to.
	Sequence *Sequence
}

// seqQueue is a first-in first-out queue that preempted sequences reenter at
// the front.
type seqQueue struct {
	items []*Sequence
	head  int
}

func (q *seqQueue) len() int { return len(q.items) - q.head }

func (q *seqQueue) front() *Sequence { return q.items[q.head] }

func (q *seqQueue) pushBack(s *Sequence) {
	if q.head > 64 && q.head*2 > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, s)
}

func (q *seqQueue) pushFront(s *Sequence) {
	if q.head > 0 {
		q.head--
		q.items[q.head] = s
		return
	}
	q.items = append(q.items, nil)
	copy(q.items[1:], q.items)
	q.items[0] = s
}

func (q *seqQueue) popFront() *Sequence {
	s := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	return s
}

func (q *seqQueue) remove(s *Sequence) {
	for i := q.head; i < len(q.items); i++ {
		if q.items[i] == s {
			q.items = append(q.items[:i], q.items[i+1:]...)
			return
		}
	}
}
