package feedback

import "time"

// EngineState is what one look at an engine's metrics says. What an engine does not
// say is not 0: a value is valid only where its Has field, or its text, says so.
type EngineState struct {
	// At is when the page was read.
	At time.Time
	// Engine names whose page it is: "vllm", "sglang", or "" for an unknown page, in
	// which case nothing else is set.
	Engine string

	// Running and Waiting are requests, summed over the engine's data-parallel ranks.
	Running, Waiting       int
	HasRunning, HasWaiting bool
	// KVUsage is the part of the KV cache that live requests refer to, 0..1, of the
	// fullest rank. Cached but idle blocks count as free.
	KVUsage    float64
	HasKVUsage bool

	// Queries and Hits are tokens looked up in the prefix cache and found there, since
	// the engine's start.
	Queries, Hits float64
	HasHits       bool
	// PromptTokens is the prompt tokens of all requests since the engine's start,
	// cached ones included.
	PromptTokens    float64
	HasPromptTokens bool

	// CapacityTokens is the size of the KV cache in tokens, of one rank; 0 when not
	// said. BlockTokens is its block in tokens; 0 when not said.
	CapacityTokens, BlockTokens int
	// CachingOff is true when the engine says that prefix caching is disabled.
	CachingOff bool

	// Asleep is true when the engine says that it sleeps; HasSleep whether it said.
	Asleep, HasSleep bool
	// Adapters are the LoRA adapters of the requests that run or wait, those that the engine
	// has loaded for sure; MaxAdapters is how many it holds at a time, 0 when not said.
	Adapters    []string
	MaxAdapters int

	// Started is when the process started, in unix seconds; 0 when not said.
	Started float64
}

// Progress compares an engine's states from one scrape to the next. The zero value has
// seen nothing. It is not safe for concurrent use.
type Progress struct {
	last EngineState
	seen bool
}

// Change is what happened between two scrapes.
type Change struct {
	// Since is when the earlier one was made; zero for the first.
	Since time.Time
	// Restarted is true when a counter fell or the process start time changed: the
	// cache is empty.
	Restarted bool
	// FellAsleep is true when the engine went to sleep, which empties its cache.
	FellAsleep bool
	// Queries and Hits are the tokens looked up and found in between; HasHits is false
	// where that cannot be said.
	Queries, Hits float64
	HasHits       bool
}

// startTolerance is how far two readings of one process start time may differ, in
// seconds.
const startTolerance = 1

// Next takes in a state. States of unknown pages say nothing and are left out.
func (p *Progress) Next(s EngineState) Change {
	if s.Engine == "" {
		return Change{}
	}
	last := p.last
	if !p.seen {
		p.last, p.seen = s, true
		return Change{}
	}
	p.last = s
	c := Change{Since: last.At}
	if diff := s.Started - last.Started; s.Started > 0 && last.Started > 0 && (diff > startTolerance || diff < -startTolerance) {
		c.Restarted = true
	}
	both := s.HasHits && last.HasHits
	if both && (s.Hits < last.Hits || s.Queries < last.Queries) ||
		s.HasPromptTokens && last.HasPromptTokens && s.PromptTokens < last.PromptTokens {
		c.Restarted = true
	}
	c.FellAsleep = s.HasSleep && s.Asleep && !(last.HasSleep && last.Asleep)
	if both && !c.Restarted {
		c.Queries, c.Hits, c.HasHits = s.Queries-last.Queries, s.Hits-last.Hits, true
	}
	return c
}

// minUnreported is how many predicted tokens a window must hold before what the metrics
// say about it means anything.
const minUnreported = 50_000

// Unreported watches a backend whose answers do not report cached tokens: from one window
// to the next it compares what was predicted with what the engine's metrics say was
// found. It is not safe for concurrent use; the zero value is ready.
type Unreported struct {
	since           time.Time
	predicted, hits float64
}

// Predict adds an answer's predicted cached tokens, of an answer that reported none.
func (u *Unreported) Predict(tokens int) { u.predicted += float64(tokens) }

// Scraped takes in what happened between two scrapes. When the window holds enough
// predictions and less than half of them came true, lost is true and the horizon should
// move to the window's start.
func (u *Unreported) Scraped(c Change, now time.Time) (start time.Time, lost bool) {
	if !c.HasHits || c.Restarted {
		u.reset(now)
		return time.Time{}, false
	}
	if u.since.IsZero() {
		u.since = c.Since
	}
	u.hits += c.Hits
	if u.predicted < minUnreported {
		return time.Time{}, false
	}
	start, lost = u.since, u.hits < u.predicted/2
	u.reset(now)
	return start, lost
}

func (u *Unreported) reset(now time.Time) { *u = Unreported{since: now} }
