package rpc

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// Steps follow each other without a gap, are as long as they should be, and lose nothing.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := newSteps(func() []*v1.PoolHits {
			seconds := uint64(time.Since(start) / time.Second) // one token a second
			return []*v1.PoolHits{{Pool: "p", Total: &v1.Hits{PromptTokens: seconds}}}
		})
		defer s.close()
		ask := func(since time.Duration, wantSteps int, wantStep, wantFrom time.Duration) {
			t.Helper()
			all := s.of("p", since)
			if len(all) != wantSteps {
				t.Fatalf("%v after the start, since %v: %d steps, want %d", time.Since(start), since, len(all), wantSteps)
			}
			at, sum := start.Add(wantFrom), uint64(0)
			for i, one := range all {
				from, to := one.GetFrom().AsTime(), one.GetTo().AsTime()
				if !from.Equal(at) {
					t.Errorf("step %d begins %v after the start, the one before ended %v after it", i, from.Sub(start), at.Sub(start))
				}
				if i < len(all)-1 && to.Sub(from) != wantStep {
					t.Errorf("step %d takes %v, want %v", i, to.Sub(from), wantStep)
				}
				at, sum = to, sum+one.GetHits().GetPromptTokens()
			}
			if !at.Equal(time.Now()) {
				t.Errorf("the last step ends %v ago", time.Since(at))
			}
			if want := uint64((time.Since(start) - wantFrom) / time.Second); sum != want {
				t.Errorf("since %v: %d tokens in all steps, want %d", since, sum, want)
			}
		}
		if all := s.of("p", time.Minute); len(all) != 0 {
			t.Errorf("at the start there are %d steps", len(all))
		}
		time.Sleep(2 * time.Second)
		ask(time.Minute, 1, 5*time.Second, 0)
		time.Sleep(60 * time.Second) // 62 s
		ask(time.Minute, 13, 5*time.Second, 0)
		ask(time.Hour, 2, time.Minute, 0)
		time.Sleep(3*time.Hour - 62*time.Second + 2*time.Second) // 3 h and 2 s
		ask(15*time.Minute, 181, 5*time.Second, 3*time.Hour-15*time.Minute)
		ask(time.Hour, 61, time.Minute, 2*time.Hour)
		ask(24*time.Hour, 37, 5*time.Minute, 0)
		time.Sleep(100 * time.Hour)
		ask(24*time.Hour, 24*12+1, 5*time.Minute, 79*time.Hour)
		if n := len(s.marks); n < 1440+168 || n > 1440+185 {
			t.Errorf("%d marks are remembered", n)
		}
		if all := s.of("unknown", time.Minute); all[0].GetHits().GetPromptTokens() != 0 {
			t.Errorf("of a pool without requests: %v", all[0])
		}
	})
}
