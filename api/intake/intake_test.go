package intake

import (
	"strings"
	"testing"

	"github.com/warmroute/warmroute/feedback"
)

func TestPrintable(t *testing.T) {
	for s, want := range map[string]bool{
		"": false, "a": true, "~": true, " a": false, "a b": true, "a\x7f": false, "a\n": false, "é": false,
		strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
	} {
		if got := Printable(s, 64); got != want {
			t.Errorf("Printable(%q) = %v", s, got)
		}
	}
}

func TestBudget(t *testing.T) {
	budget := NewBudget(100)
	var a, b Share
	a.Open(budget)
	b.Open(budget)
	steps := []struct {
		what     string
		ok, want bool
	}{
		{"hold", a.Hold(60), true},
		{"hold less", a.Hold(10), true},
		{"hold more", a.Hold(70), true},
		{"no room", b.Hold(31), false},
		{"the rest", b.Hold(30), true},
		{"no room to read it", a.Take(1), false},
	}
	for _, s := range steps {
		if s.ok != s.want {
			t.Errorf("%s: %v", s.what, s.ok)
		}
	}
	if budget.Held() != 100 {
		t.Errorf("%d bytes are held", budget.Held())
	}
	b.Release()
	b.Release()
	a.Charge(7)
	if !a.Take(20) || budget.Held() != 97 {
		t.Errorf("after a release %d bytes are held", budget.Held())
	}
	a.Trim()
	if budget.Held() != 77 {
		t.Errorf("after the tree %d bytes are held", budget.Held())
	}
	a.Release()
	if budget.Held() != 0 {
		t.Errorf("at the end %d bytes are held", budget.Held())
	}
	a.Open(budget)
	if a.Hold(90); !a.Take(1000) { // alone
		t.Error("a body that is alone cannot be parsed")
	}
}

func TestJudge(t *testing.T) {
	for status, want := range map[int]struct {
		result feedback.Result
		blame  feedback.Blame
	}{
		200: {feedback.Success, feedback.Healthy},
		302: {feedback.Success, feedback.Healthy},
		400: {feedback.Rejected, feedback.Healthy},
		404: {feedback.NotFound, feedback.Healthy},
		429: {feedback.Saturated, feedback.Overloaded},
		500: {feedback.EngineError, feedback.Strike},
		501: {feedback.EngineError, feedback.Healthy},
		503: {feedback.Saturated, feedback.Overloaded},
		529: {feedback.Saturated, feedback.Overloaded},
	} {
		if result, blame := Judge(status); result != want.result || blame != want.blame {
			t.Errorf("Judge(%d) = %v, %v, want %v, %v", status, result, blame, want.result, want.blame)
		}
	}
}
