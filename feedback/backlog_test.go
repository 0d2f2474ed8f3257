package feedback_test

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"pgregory.net/rapid"
)

func TestBacklogsAddUpToOneQueue(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	mine := feedback.Backlog{Tokens: 6000, Began: at(0)}
	for _, tc := range []struct {
		name  string
		other feedback.Backlog
		want  int // at 3 s and 1,000 tokens a second
	}{
		{"nobody else", feedback.Backlog{}, 3000},
		{"another since later: the backend works since it has had work", feedback.Backlog{Tokens: 2000, Began: at(2)}, 5000},
		{"another since earlier", feedback.Backlog{Tokens: 2000, Began: at(-1)}, 4000},
		{"another saw progress", feedback.Backlog{Tokens: 2000, Began: at(-1), Progress: at(2)}, 7000},
		{"another saw progress and has nothing left", feedback.Backlog{Progress: at(2)}, 5000},
	} {
		if got := mine.Add(tc.other).Left(at(3), 1000); got != tc.want {
			t.Errorf("%s: %d tokens left, want %d", tc.name, got, tc.want)
		}
		if got := tc.other.Add(mine).Left(at(3), 1000); got != tc.want {
			t.Errorf("%s, the other way round: %d tokens left, want %d", tc.name, got, tc.want)
		}
	}
	if got := mine.Left(at(31), 1000); got != 6000 {
		t.Errorf("%d tokens left of a queue that may be stuck, want all", got)
	}
}

// TestBacklogOrderDoesNotMatter: the sum of several routers' work is the same in any order.
func TestBacklogOrderDoesNotMatter(t *testing.T) {
	draw := rapid.Custom(func(rt *rapid.T) feedback.Backlog {
		b := feedback.Backlog{Tokens: rapid.Int64Range(0, 5).Draw(rt, "tokens")}
		if b.Tokens > 0 {
			b.Began = time.Unix(rapid.Int64Range(1, 9).Draw(rt, "began"), 0)
		}
		if s := rapid.Int64Range(0, 9).Draw(rt, "progress"); s > 0 {
			b.Progress = time.Unix(s, 0)
		}
		return b
	})
	rapid.Check(t, func(rt *rapid.T) {
		a, b, c := draw.Draw(rt, "a"), draw.Draw(rt, "b"), draw.Draw(rt, "c")
		if left, right := a.Add(b).Add(c), a.Add(b.Add(c)); left != right {
			rt.Fatalf("(a+b)+c is %+v, a+(b+c) %+v", left, right)
		}
		if left, right := a.Add(b), b.Add(a); left != right {
			rt.Fatalf("a+b is %+v, b+a %+v", left, right)
		}
	})
}
