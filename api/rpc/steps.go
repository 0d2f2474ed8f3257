package rpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// How densely counts are remembered, and for how long: every 5 s of the last quarter of an
// hour, every minute of the last day. A mark is one look at the counts.
const (
	markEvery   = 5 * time.Second
	denseMarks  = 15 * time.Minute
	sparseMarks = time.Minute
)

// steps remembers what pools' counts were, to say what became of prompt tokens step by step.
// It has one timer and no goroutine; its methods may be called at the same time.
type steps struct {
	count func() []*v1.PoolHits // now, of all pools
	began time.Time

	mu     sync.Mutex
	marks  []mark // the oldest first
	timer  *time.Timer
	closed bool
}

// mark is what the counts were, in all, after so many times markEvery since the beginning.
type mark struct {
	n     int
	at    time.Time
	pools map[string]*v1.Hits
}

func newSteps(count func() []*v1.PoolHits) *steps {
	s := &steps{count: count, began: time.Now()}
	s.mu.Lock() // the timer may go off before it is assigned
	defer s.mu.Unlock()
	s.marks = []mark{s.look(0)}
	s.timer = time.AfterFunc(markEvery, s.note)
	return s
}

// look is a mark of now.
func (s *steps) look(n int) mark {
	m := mark{n, time.Now(), make(map[string]*v1.Hits)}
	for _, p := range s.count() {
		m.pools[p.GetPool()] = p.GetTotal()
	}
	return m
}

// note remembers what the counts are now. It runs on the timer's goroutine.
func (s *steps) note() {
	m := s.look(int(time.Since(s.began) / markEvery))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	kept := s.marks[:0]
	for _, old := range s.marks {
		age := m.at.Sub(old.at)
		if age <= denseMarks+markEvery || age <= maxSince+sparseMarks && old.on(sparseMarks) {
			kept = append(kept, old)
		}
	}
	clear(s.marks[len(kept):])
	s.marks = append(kept, m)
	s.timer.Reset(time.Until(s.began.Add(time.Duration(m.n+1) * markEvery)))
}

// on reports whether a step of some length ends at the mark.
func (m mark) on(step time.Duration) bool { return m.n%int(step/markEvery) == 0 }

// stepOf is how long the steps are of so long a time.
func stepOf(since time.Duration) time.Duration {
	switch {
	case since <= denseMarks:
		return markEvery
	case since <= 4*time.Hour:
		return time.Minute
	}
	return 5 * time.Minute
}

// of are the steps of a pool, from so long ago until now.
func (s *steps) of(pool string, since time.Duration) []*v1.HitStep {
	now := s.look(0)
	step, asked := stepOf(since), now.at.Add(-since)
	s.mu.Lock()
	defer s.mu.Unlock()
	var ends []mark
	for _, m := range s.marks {
		if !m.on(step) {
			continue
		}
		if !m.at.After(asked) {
			ends = ends[:0]
		}
		ends = append(ends, m)
	}
	if len(ends) > 0 && now.at.After(ends[len(ends)-1].at) {
		ends = append(ends, now)
	}
	var all []*v1.HitStep
	for i := 1; i < len(ends); i++ {
		all = append(all, &v1.HitStep{
			From: timestamppb.New(ends[i-1].at), To: timestamppb.New(ends[i].at),
			Hits: lessHits(ends[i].pools[pool], ends[i-1].pools[pool]),
		})
	}
	return all
}

func (s *steps) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.timer.Stop()
}

// GetHitHistory implements the generated interface.
func (a *Admin) GetHitHistory(_ context.Context, in *v1.GetHitHistoryRequest) (*v1.GetHitHistoryResponse, error) {
	p, err := a.pool(in.GetPool())
	if err != nil {
		return nil, failure(err)
	}
	since := denseMarks
	if in.GetSince() != nil {
		if since, err = validSince(in.GetSince()); err != nil {
			return nil, failure(err)
		}
	}
	return &v1.GetHitHistoryResponse{Steps: a.steps.of(p.Name(), since)}, nil
}
