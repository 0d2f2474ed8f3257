package workload_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/workload"
)

func TestReadAgentText(t *testing.T) {
	w := open(t, workload.KindAgentText, workload.Options{Users: 2})
	requests := play(t, w, 1, 0)
	sessions := bySession(requests)
	one, two, three := sessions[0], sessions[1], sessions[2]
	if w.Requests != 5 || len(one) != 2 || len(two) != 2 || len(three) != 1 {
		t.Fatalf("sessions of %d, %d and %d requests, want 2, 2 and 1 of 5: %d", len(one), len(two), len(three), w.Requests)
	}
	for _, c := range []struct {
		name    string
		r       workload.Request
		lengths []int
		output  int
	}{
		{"text of 523 bytes", one[0], []int{64, 64, 3}, 1},
		{"and more", one[1], []int{64, 64, 6}, 1},
		{"messages of 300 and 8 bytes", two[0], []int{64, 11, 2}, 1},
		{"an empty prompt", three[0], []int{1}, 1},
	} {
		if diff := cmp.Diff(c.lengths, lengths(c.r.Prompt)); diff != "" || c.r.OutputTokens != c.output {
			t.Errorf("%s: output %d, want %d, prompt (-want +got):\n%s", c.name, c.r.OutputTokens, c.output, diff)
		}
	}
	// Whole chunks are shared, also across sessions, where the same role says them.
	if got := common(one[0].Prompt, one[1].Prompt); got != 128 {
		t.Errorf("a prompt and the next share %d tokens, want 128", got)
	}
	if got := common(two[0].Prompt, two[1].Prompt); got != 0 {
		t.Errorf("what the system says and what the user says share %d tokens", got)
	}
	if got := common(one[0].Prompt, two[1].Prompt); got != 64 {
		t.Errorf("messages with the same beginning share %d tokens, want 64", got)
	}
}

// Two users begin a quarter of a second apart; who has ended a session takes up the next;
// recorded gaps between requests are kept.
func TestAgentTextUsers(t *testing.T) {
	type sent struct {
		Session int
		At      time.Duration
	}
	got := make([]sent, 0, 5)
	for _, r := range play(t, open(t, workload.KindAgentText, workload.Options{Users: 2}), 1, 0) {
		got = append(got, sent{r.Session, r.At})
	}
	want := []sent{
		{0, 0},
		{1, 250 * time.Millisecond},
		{1, 1250 * time.Millisecond}, // the answer took longer than the gap of half a second
		{2, 2250 * time.Millisecond},
		{0, 2500 * time.Millisecond},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The load is a matter of users.
func TestAgentTextLoad(t *testing.T) {
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, `{"timestamp": 1, "input": "x", "output": "", "session_id": "%d"}`+"\n", i)
	}
	for _, c := range []struct {
		users int
		load  float64
		want  int
	}{{0, 0, workload.DefaultAgentTextUsers}, {3, 2, 6}, {3, 0.01, 1}, {40, 1, 30}} {
		w, err := workload.ReadAgentText(strings.NewReader(text.String()), workload.AgentTextConfig{Users: c.users, Load: c.load})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for source := w.Play(1); ; n++ {
			if _, ok := source.Next(); !ok {
				break
			}
		}
		if n != c.want {
			t.Errorf("%d users under a load of %v are %d, want %d", c.users, c.load, n, c.want)
		}
	}
}
