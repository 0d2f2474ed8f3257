package server_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/workload"
)

// talk is a conversation about something that others talk about, too. Every turn repeats
// all before it, answers included.
type talk struct {
	head  workload.Segment
	turns []turn
}

// turn is a question and its answer.
type turn struct {
	pause            time.Duration // before it: since the answer before, or the beginning
	question, answer workload.Segment
}

// makeTalks returns conversations about three documents, in the order in which they begin.
// They are on all the time, and no two moments are the same.
func makeTalks(n, turns int) []talk {
	rng := rand.New(rand.NewPCG(1, 2))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Float64() * float64(d)) }
	talks := make([]talk, n)
	for i := range talks {
		document := i % 3
		t := talk{head: workload.Segment{ID: uint64(1 + document), Tokens: 301 + 130*document}}
		for k := range turns {
			id := uint64(1000 + 100*i + 2*k)
			t.turns = append(t.turns, turn{
				pause:    time.Second + upTo(2*time.Second),
				question: workload.Segment{ID: id, Tokens: 20 + rng.IntN(60)},
				answer:   workload.Segment{ID: id + 1, Tokens: 30 + rng.IntN(60)},
			})
		}
		talks[i] = t
	}
	slices.SortFunc(talks, func(a, b talk) int { return cmp.Compare(a.turns[0].pause, b.turns[0].pause) })
	return talks
}

// talkSource plays conversations in replay. It implements [workload.Source].
type talkSource struct {
	talks []talk
	sent  [][]time.Duration // when the turns of each were sent
	begun int
}

// Next implements [workload.Source].
func (s *talkSource) Next() (next workload.Request, ok bool) {
	if s.begun == len(s.talks) {
		return next, false
	}
	s.begun++
	return s.turn(s.begun-1, 0)
}

// Ended implements [workload.Source].
func (s *talkSource) Ended(r *workload.Request, at time.Duration, _ bool) (next workload.Request, ok bool) {
	return s.turn(r.Session, at)
}

// turn is the next of a conversation, after a moment.
func (s *talkSource) turn(session int, after time.Duration) (next workload.Request, ok bool) {
	talk, k := &s.talks[session], len(s.sent[session])
	if k == len(talk.turns) {
		return next, false
	}
	prompt := []workload.Segment{talk.head}
	for _, before := range talk.turns[:k] {
		prompt = append(prompt, before.question, before.answer)
	}
	turn := &talk.turns[k]
	at := after + turn.pause
	s.sent[session] = append(s.sent[session], at)
	return workload.Request{
		At: at, Prompt: append(prompt, turn.question),
		OutputTokens: turn.answer.Tokens, Answer: turn.answer.ID, Session: session,
	}, true
}

// tokensOf makes up the tokens of a segment: the same for the same name, as far as they go.
func tokensOf(s workload.Segment) []enginesim.Token {
	rng := rand.New(rand.NewPCG(s.ID, 0))
	tokens := make([]enginesim.Token, s.Tokens)
	for i := range tokens {
		tokens[i] = enginesim.Token(rng.Uint32() >> 1)
	}
	return tokens
}
