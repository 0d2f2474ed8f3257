package rpc

import (
	"sync"
	"time"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// How far back counts can be had, and how densely: every minute of the last hour, every
// quarter of an hour of the last day.
const (
	minSince     = time.Minute
	maxSince     = 24 * time.Hour
	countEvery   = time.Minute
	denseSince   = time.Hour
	sparseEvery  = 15 * time.Minute
	rememberedBy = maxSince + sparseEvery
)

// history remembers what counts were at earlier times. It has one timer and no goroutine;
// its methods may be called at the same time.
type history struct {
	count func() []*v1.PoolHits // now, of all pools
	began time.Time

	mu     sync.Mutex
	past   []counts // the oldest first
	timer  *time.Timer
	closed bool
}

// counts are what counts were at a moment.
type counts struct {
	at    time.Time
	pools map[string]*v1.PoolHits
}

func newHistory(count func() []*v1.PoolHits) *history {
	h := &history{count: count, began: time.Now()}
	h.mu.Lock() // the timer may go off before it is assigned
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(countEvery, h.note)
	return h
}

// note remembers what the counts are now. It runs on the timer's goroutine.
func (h *history) note() {
	now := counts{time.Now(), make(map[string]*v1.PoolHits)}
	for _, p := range h.count() {
		now.pools[p.GetPool()] = p
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.past = append(h.thinned(now.at), now)
	h.timer.Reset(countEvery)
}

// thinned returns what is still to be remembered. h.mu is held.
func (h *history) thinned(now time.Time) []counts {
	kept := h.past[:0]
	var last time.Duration = -1 // the quarter of the one before
	for _, c := range h.past {
		age, quarter := now.Sub(c.at), c.at.Sub(h.began)/sparseEvery
		if age <= rememberedBy && (age <= denseSince || quarter != last) {
			kept = append(kept, c)
		}
		last = quarter
	}
	clear(h.past[len(kept):])
	return kept
}

// before returns the counts of the latest moment that is at least so long ago; those of the
// start, which are none, where nothing is remembered from then.
func (h *history) before(since time.Duration) counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := time.Now().Add(-since)
	found := counts{at: h.began}
	for _, c := range h.past {
		if c.at.After(asked) {
			break
		}
		found = c
	}
	return found
}

func (h *history) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.timer.Stop()
}

// sinceThen returns a pool's counts less those that there were already.
func (c counts) sinceThen(now *v1.PoolHits) *v1.PoolHits {
	then := c.pools[now.GetPool()]
	out := &v1.PoolHits{Pool: now.GetPool(), Total: lessHits(now.GetTotal(), then.GetTotal())}
	before := make(map[string]*v1.Hits)
	for _, b := range then.GetBackends() {
		before[b.GetBackend()] = b.GetHits()
	}
	for _, b := range now.GetBackends() {
		out.Backends = append(out.Backends, &v1.BackendHits{Backend: b.GetBackend(), Hits: lessHits(b.GetHits(), before[b.GetBackend()])})
	}
	return out
}

// lessHits is the difference between two counts of one thing. A count that is lower than
// before began anew.
func lessHits(now, then *v1.Hits) *v1.Hits {
	less := func(now, then uint64) uint64 {
		if now < then {
			return now
		}
		return now - then
	}
	return &v1.Hits{
		PromptTokens:           less(now.GetPromptTokens(), then.GetPromptTokens()),
		AvailableTokens:        less(now.GetAvailableTokens(), then.GetAvailableTokens()),
		CapturedTokens:         less(now.GetCapturedTokens(), then.GetCapturedTokens()),
		PredictedTokens:        less(now.GetPredictedTokens(), then.GetPredictedTokens()),
		ReportedPromptTokens:   less(now.GetReportedPromptTokens(), then.GetReportedPromptTokens()),
		DeliveredTokens:        less(now.GetDeliveredTokens(), then.GetDeliveredTokens()),
		LostToNoReuseTokens:    less(now.GetLostToNoReuseTokens(), then.GetLostToNoReuseTokens()),
		LostToOverflowTokens:   less(now.GetLostToOverflowTokens(), then.GetLostToOverflowTokens()),
		LostToLoadChoiceTokens: less(now.GetLostToLoadChoiceTokens(), then.GetLostToLoadChoiceTokens()),
		LostToStaleIndexTokens: less(now.GetLostToStaleIndexTokens(), then.GetLostToStaleIndexTokens()),
		UnreportedTokens:       less(now.GetUnreportedTokens(), then.GetUnreportedTokens()),
	}
}
