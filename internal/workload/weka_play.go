package workload

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// wekaTrace is a trace as it is kept. It does not change.
type wekaTrace struct {
	block    int // tokens
	requests int
	sessions []wekaSession
}

// wekaPlay is one play of a trace. It implements [Source].
type wekaPlay struct {
	trace *wekaTrace
	talks []wekaTalk // by session
	order []int      // sessions as they begin
	next  int        // in order
}

// wekaTalk is how far a session has come.
type wekaTalk struct {
	begin time.Duration
	turns int        // that were sent
	runs  []blockRun // the blocks of the last prompt
}

func (t *wekaTrace) workload(c WekaConfig) *Workload {
	window := faster(cmp.Or(c.Window, wekaDefaultWindow), c.Load)
	return &Workload{Name: "Weka agent trace", Requests: t.requests, Play: func(seed uint64) Source { return t.play(window, seed) }}
}

func (t *wekaTrace) play(window time.Duration, seed uint64) Source {
	rng := rand.New(rand.NewPCG(seed, 0x77656b61))
	p := &wekaPlay{trace: t, talks: make([]wekaTalk, len(t.sessions))}
	for i := range p.talks {
		p.talks[i].begin = time.Duration(rng.Float64() * float64(window))
		if len(t.sessions[i].turns) > 0 {
			p.order = append(p.order, i)
		}
	}
	slices.SortStableFunc(p.order, func(a, b int) int { return cmp.Compare(p.talks[a].begin, p.talks[b].begin) })
	return p
}

// Next implements [Source].
func (p *wekaPlay) Next() (Request, bool) {
	if p.next == len(p.order) {
		return Request{}, false
	}
	session := p.order[p.next]
	p.next++
	return p.ask(session, p.talks[session].begin), true
}

// Ended implements [Source].
func (p *wekaPlay) Ended(r *Request, at time.Duration, _ bool) (Request, bool) {
	turns, sent := p.trace.sessions[r.Session].turns, p.talks[r.Session].turns
	if sent == len(turns) {
		return Request{}, false
	}
	return p.ask(r.Session, at+turns[sent].think), true
}

// ask makes a session's next request.
func (p *wekaPlay) ask(session int, at time.Duration) Request {
	s, talk := &p.trace.sessions[session], &p.talks[session]
	turn := &s.turns[talk.turns]
	talk.turns++
	// Ids count from 1: those of the head are 1..headBlocks.
	border := s.headBlocks + 1
	talk.runs = firstBlocks(talk.runs, uint64(turn.keep)) //nolint:gosec // not negative
	for _, r := range turn.runs {
		talk.runs = appendRun(talk.runs, r, border)
	}
	prompt := make([]Segment, 0, len(talk.runs)+1)
	rest := int(turn.prompt)
	for _, r := range talk.runs {
		content := s.own
		if r.start < border {
			content = s.head
		}
		tokens := int(r.length) * p.trace.block //nolint:gosec // a prompt's blocks
		prompt = append(prompt, Segment{ID: nameOf(content, r.start), Tokens: tokens})
		rest -= tokens
	}
	if rest > 0 {
		prompt = append(prompt, Segment{ID: nameOf(s.own, ^uint64(talk.turns)), Tokens: rest}) //nolint:gosec // a count
	}
	return Request{At: at, Prompt: prompt, OutputTokens: int(turn.output), Session: session}
}
