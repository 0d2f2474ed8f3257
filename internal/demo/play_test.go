package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/workload"
)

// script is a router that answers with numbers and remembers the prompts.
type script struct {
	*httptest.Server
	mu      sync.Mutex
	prompts map[string][][]string // by first message
	running map[string]bool
	overlap bool
}

func newScript(t *testing.T) *script {
	s := &script{prompts: make(map[string][][]string), running: make(map[string]bool)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req chatRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		session := req.Messages[0].Content
		s.mu.Lock()
		s.overlap = s.overlap || s.running[session]
		s.running[session] = true
		var texts []string
		for _, m := range req.Messages {
			texts = append(texts, m.Content)
		}
		s.prompts[session] = append(s.prompts[session], texts)
		n := len(s.prompts[session])
		s.mu.Unlock()
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"answer %d\"}}]}\n\n", n)
		s.mu.Lock()
		s.running[session] = false
		s.mu.Unlock()
		_, _ = io.WriteString(w, usage+done)
	}))
	t.Cleanup(s.Close)
	return s
}

func say(texts ...string) workload.Session {
	s := workload.Session{ID: texts[0]}
	for _, text := range texts {
		s.Turns = append(s.Turns, workload.Turn{
			Messages: []workload.Message{{Role: "user", Content: text}}, OutputTokens: 1, Think: time.Second, Gap: time.Second,
		})
	}
	return s
}

func newPlayer(s *script, text workload.Text) *player {
	return &player{
		client: newClient(s.URL, 2), text: text, users: 2, speed: maxSpeed,
		heed: func(answer, error) {}, stop: func() bool { return false },
	}
}

// A session waits for each answer and carries all of them on; every session is
// played once.
func TestPlayClosedLoop(t *testing.T) {
	s := newScript(t)
	text := workload.Text{Sessions: []workload.Session{say("a1", "a2", "a3"), say("b1", "b2"), say("c1")}}
	p := newPlayer(s, text)
	defer p.client.close()
	var mu sync.Mutex
	heard := 0
	p.heed = func(a answer, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil || a.prompt != 40 {
			t.Errorf("%+v, %v", a, err)
		}
		heard++
	}
	if err := p.play(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string][][]string{
		"a1": {{"a1"}, {"a1", "answer 1", "a2"}, {"a1", "answer 1", "a2", "answer 2", "a3"}},
		"b1": {{"b1"}, {"b1", "answer 1", "b2"}},
		"c1": {{"c1"}},
	}
	if diff := cmp.Diff(want, s.prompts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if heard != 6 || s.overlap {
		t.Errorf("%d of 6 answers heard, requests of one session at a time: %t", heard, !s.overlap)
	}
}

func TestPlayStops(t *testing.T) {
	s := newScript(t)
	p := newPlayer(s, workload.Text{Sessions: []workload.Session{say("a1", "a2", "a3")}})
	defer p.client.close()
	p.stop = func() bool { return true }
	if err := p.play(t.Context()); err != nil || len(s.prompts) != 0 {
		t.Errorf("a hopeless run sent %d sessions, %v", len(s.prompts), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p = newPlayer(s, workload.Text{Sessions: []workload.Session{say("b1", "b2", "b3")}})
	defer p.client.close()
	p.heed = func(answer, error) { cancel() }
	if err := p.play(ctx); !errors.Is(err, context.Canceled) || len(s.prompts["b1"]) != 1 {
		t.Errorf("after the end of the context %d requests were sent, %v", len(s.prompts["b1"]), err)
	}
}
