package workload

import (
	"slices"
	"time"
)

// traceBuilder gathers the requests of a trace by session.
type traceBuilder struct {
	byID     map[string]int
	sessions []tracedSession
	kept     memory
}

// tracedSession is a session as far as it has been read.
type tracedSession struct {
	Session
	first, last time.Duration // timestamps, on the trace's own clock
}

func newTraceBuilder() *traceBuilder { return &traceBuilder{byID: make(map[string]int)} }

// append adds a request that was sent at a moment on the trace's clock. Lines of a
// session need not be in the order of their timestamps: they count as they stand,
// and no pause is negative.
func (b *traceBuilder) append(session string, at time.Duration, turn Turn) {
	i, known := b.byID[session]
	if !known {
		i = len(b.sessions)
		b.byID[session] = i
		b.sessions = append(b.sessions, tracedSession{Session: Session{ID: session}, first: at, last: at})
	}
	s := &b.sessions[i]
	turn.Gap = min(max(at-s.last, 0), maxGap)
	s.first, s.last = min(s.first, at), at
	s.Turns = append(s.Turns, turn)
}

// text returns the sessions in the order in which they began, from 0 on.
func (b *traceBuilder) text() []Session {
	slices.SortStableFunc(b.sessions, func(a, c tracedSession) int { return int(min(max(a.first-c.first, -1), 1)) })
	out := make([]Session, 0, len(b.sessions))
	for _, s := range b.sessions {
		s.Start = s.first - b.sessions[0].first
		out = append(out, s.Session)
	}
	return out
}
