package intake

import (
	"net/http"
	"testing"
	"time"

	"github.com/warmroute/warmroute/feedback"
)

func TestUsedTokens(t *testing.T) {
	reported := feedback.Usage{HasPrompt: true, Prompt: 90, HasCompletion: true, Completion: 7}
	for _, test := range []struct {
		name string
		r    feedback.Record
		want int
	}{
		{"reported", feedback.Record{Attempts: 1, Status: 200, Usage: reported, Events: 9}, 97},
		{"no answer's tokens", feedback.Record{Attempts: 1, Status: 200, Usage: feedback.Usage{HasPrompt: true, Prompt: 90}, Events: 9}, 99},
		{"nothing reported", feedback.Record{Attempts: 1, Status: 200}, 100},
		{"a stream that nobody waited for the end of", feedback.Record{Attempts: 1, Status: StatusClientClosed, TTFT: time.Second, Events: 800}, 900},
		{"a client that left before", feedback.Record{Attempts: 1, Status: StatusClientClosed}, 100},
		{"broken off", feedback.Record{Attempts: 1, Status: http.StatusBadGateway, TTFT: time.Second, Events: 20}, 120},
		{"refused", feedback.Record{Attempts: 1, Status: http.StatusBadRequest}, 0},
		{"never sent", feedback.Record{Status: StatusClientClosed}, 0},
	} {
		if got := UsedTokens(&test.r, 100); got != test.want {
			t.Errorf("%s: %d tokens, want %d", test.name, got, test.want)
		}
	}
}

// Sessions and stored answers are those of who has them: the same id of another is another.
func TestOwners(t *testing.T) {
	for _, key := range []func(id, owner string) bool{
		func(id, owner string) bool { return SessionKey(id, owner, "s") == SessionKey("id", "", "s") },
		func(id, owner string) bool { return ResponseKey(id, owner, "s") == ResponseKey("id", "", "s") },
		func(id, owner string) bool { return SessionKey(id, owner, "s") == ResponseKey("id", "", "s") },
	} {
		if key("id", "acme") || key("idacme", "") {
			t.Error("an id of one owner is that of another")
		}
	}
}
