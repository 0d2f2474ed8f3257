package rpc

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// Counts of any time of the last day can be had, to the minute of the last hour and to the
// quarter before, and nothing older is kept.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := newHistory(func() []*v1.PoolHits {
			minutes := uint64(time.Since(start) / time.Minute) // one token a minute
			return []*v1.PoolHits{{Pool: "p", Total: &v1.Hits{PromptTokens: minutes}}}
		})
		defer h.close()
		ask := func(since, wantFrom time.Duration) {
			t.Helper()
			then := h.before(since)
			now := h.count()[0]
			if from := then.at.Sub(start); from != wantFrom {
				t.Errorf("%v after the start, since %v: counted from %v, want %v", time.Since(start), since, from, wantFrom)
			}
			if got, want := then.sinceThen(now).GetTotal().GetPromptTokens(), now.GetTotal().GetPromptTokens()-uint64(wantFrom/time.Minute); got != want {
				t.Errorf("since %v: %d tokens, want %d", since, got, want)
			}
		}
		time.Sleep(30 * time.Second)
		ask(time.Minute, 0)
		time.Sleep(10 * time.Minute)
		ask(time.Minute, 9*time.Minute)
		ask(5*time.Minute, 5*time.Minute)
		ask(time.Hour, 0)
		time.Sleep(3*time.Hour - 10*time.Minute) // 3 h and half a minute
		ask(time.Minute, 179*time.Minute)
		ask(time.Hour, 120*time.Minute)
		ask(100*time.Minute, 75*time.Minute)
		ask(2*time.Hour, time.Hour)
		time.Sleep(100 * time.Hour)
		ask(24*time.Hour, 79*time.Hour)
		if n := len(h.past); n < 60+90 || n > 60+100 {
			t.Errorf("%d counts are remembered", n)
		}
	})
}

// A backend that joins counts from nothing, one that begins anew from its beginning.
func TestSinceThen(t *testing.T) {
	of := func(id string, tokens uint64) *v1.BackendHits {
		return &v1.BackendHits{Backend: id, Hits: &v1.Hits{DeliveredTokens: tokens}}
	}
	then := counts{pools: map[string]*v1.PoolHits{"p": {Pool: "p", Backends: []*v1.BackendHits{of("stays", 5), of("left", 7), of("anew", 9)}}}}
	got := then.sinceThen(&v1.PoolHits{Pool: "p", Backends: []*v1.BackendHits{of("stays", 8), of("joined", 4), of("anew", 2)}})
	var tokens []uint64
	for _, b := range got.GetBackends() {
		tokens = append(tokens, b.GetHits().GetDeliveredTokens())
	}
	if want := []uint64{3, 4, 2}; !slices.Equal(tokens, want) {
		t.Errorf("%v, want %v", tokens, want)
	}
}
