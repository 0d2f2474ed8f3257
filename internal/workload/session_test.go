package workload_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/workload"
)

func message(role, text string) workload.Message { return workload.Message{Role: role, Content: text} }

func turns(n int) []workload.Turn {
	all := make([]workload.Turn, n)
	for i := range all {
		all[i] = workload.Turn{Messages: []workload.Message{message(workload.RoleUser, "x")}, OutputTokens: 10 * (i + 1)}
	}
	return all
}

func TestLimit(t *testing.T) {
	text := workload.Text{Sessions: []workload.Session{{ID: "a", Turns: turns(3)}, {ID: "b", Turns: turns(2)}}}
	for _, c := range []struct {
		limit    int
		want     []int // turns of each session
		requests int
	}{
		{-1, []int{3, 2}, 5},
		{0, []int{3, 2}, 5},
		{1, []int{1}, 1},
		{3, []int{3}, 3},
		{4, []int{3, 1}, 4},
		{9, []int{3, 2}, 5},
	} {
		cut := text.Limit(c.limit)
		var got []int
		for _, s := range cut.Sessions {
			got = append(got, len(s.Turns))
		}
		if diff := cmp.Diff(c.want, got); diff != "" || cut.Requests() != c.requests {
			t.Errorf("Limit(%d): %d requests, turns %v, want %d, %v", c.limit, cut.Requests(), got, c.requests, c.want)
		}
	}
	if text.Requests() != 5 {
		t.Errorf("Limit changed the workload it was called on: %d requests", text.Requests())
	}
}

func TestCapOutput(t *testing.T) {
	text := workload.Text{Name: "t", Sessions: []workload.Session{{ID: "a", Turns: turns(3)}}}
	capped := text.CapOutput(15)
	var got []int
	for _, turn := range capped.Sessions[0].Turns {
		got = append(got, turn.OutputTokens)
	}
	if diff := cmp.Diff([]int{10, 15, 15}, got); diff != "" {
		t.Error(diff)
	}
	if text.Sessions[0].Turns[2].OutputTokens != 30 || capped.Name != "t" {
		t.Error("CapOutput changed the workload it was called on, or lost its name")
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*workload.Session){
		"no requests":  func(s *workload.Session) { s.Turns = nil },
		"no messages":  func(s *workload.Session) { s.Turns[1].Messages = nil },
		"no output":    func(s *workload.Session) { s.Turns[1].OutputTokens = 0 },
		"negative":     func(s *workload.Session) { s.Turns[1].Think = -time.Second },
		"negative gap": func(s *workload.Session) { s.Turns[1].Gap = -time.Second },
	} {
		s := workload.Session{ID: "a", Turns: turns(2)}
		change(&s)
		if err := (workload.Text{Sessions: []workload.Session{s}}).Validate(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := (workload.Text{Sessions: []workload.Session{{ID: "a", Turns: turns(2)}}}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestConversation(t *testing.T) {
	var c workload.Conversation
	ask := func(whole bool, want ...workload.Message) {
		t.Helper()
		got := c.Ask(workload.Turn{Messages: []workload.Message{message(workload.RoleUser, "q")}, Whole: whole})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	q := message(workload.RoleUser, "q")
	ask(false, q)
	c.Answer("a")
	ask(false, q, message(workload.RoleAssistant, "a"), q)
	c.Answer("")
	ask(false, q, message(workload.RoleAssistant, "a"), q, q)
	ask(true, q)
	c.Answer("b")
	ask(false, q, message(workload.RoleAssistant, "b"), q)
}
