package router

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
)

func TestPinsAreBounded(t *testing.T) {
	var s pins
	now := time.Unix(1_000_000, 0)
	for i := range maxPins {
		s.put(PinKey(i+1), "b", now)
	}
	if s.where(1, now) == "" { // used last now
		t.Fatal("the first is gone")
	}
	s.put(maxPins+1, "b", now)
	s.put(maxPins+1, "b", now)
	for key, want := range map[PinKey]bool{1: true, 2: false, 3: true, maxPins + 1: true} {
		if got := s.where(key, now) != ""; got != want {
			t.Errorf("%d is known: %v", key, got)
		}
	}
	if n := s.all.Len(); n != maxPins {
		t.Errorf("%d pins, want %d", n, maxPins)
	}
	if s.where(1, now.Add(pinLife+1)) != "" || s.all.Len() != maxPins-1 {
		t.Error("a pin outlived its time")
	}
}

// TestSessions: a session stays where its first request went, though another backend holds
// its prompt; it moves where that one cannot take it, and stays there.
func TestSessions(t *testing.T) {
	now := time.Unix(2000, 0)
	r := New(Options{Epoch: now})
	p, err := r.AddPool(spec("pool", nil, "http://b1:80", "http://b2:80", "http://b3:80"))
	if err != nil {
		t.Fatal(err)
	}
	session := NewPinKey("session", "s", "")
	send := func(doc string, tried ...*backends.Backend) *Decision {
		t.Helper()
		now = now.Add(time.Second)
		req := docRequest(p, doc, now)
		req.Session, req.Tried = session, tried
		d, err := r.Route(req)
		if err != nil {
			t.Fatal(err)
		}
		r.Complete(d, feedback.Outcome{Now: now, Result: feedback.Success, FirstByte: true})
		return d
	}
	home := send("doc").Backend
	for i := range 5 {
		// Somebody else holds this prompt.
		doc := fmt.Sprint("other", i)
		req := docRequest(p, doc, now)
		req.Tried = []*backends.Backend{home}
		d, err := r.Route(req)
		if err != nil {
			t.Fatal(err)
		}
		r.Complete(d, feedback.Outcome{Now: now, Result: feedback.Success, FirstByte: true})
		if d := send(doc); d.Backend != home || d.Reason != Pinned {
			t.Errorf("request %d of the session went to %s (%v), want %s", i, d.Backend.ID, d.Reason, home.ID)
		}
	}
	next := send("doc", home).Backend // it failed there
	if d := send("doc"); d.Backend != next {
		t.Errorf("the session has moved to %s, and went to %s", next.ID, d.Backend.ID)
	}
	next.Drain(true)
	third := send("doc").Backend
	if third == next {
		t.Error("a draining backend got a session's request")
	}
	if _, err := p.SetBackends([]backends.Spec{{URL: "http://b9:80", Rank: backends.NoRank}}); err != nil {
		t.Fatal(err)
	}
	if d := send("doc"); d.Backend.ID != "b9:80" {
		t.Errorf("after all have left: %s", d.Backend.ID)
	}
}

// TestSessionHookThatPanics: no slot is lost with it.
func TestSessionHookThatPanics(t *testing.T) {
	now := time.Unix(2000, 0)
	r := New(Options{Epoch: now, Hooks: Hooks{Pinned: func(*Pool, PinKey, string, time.Time) { panic("hook") }}})
	p, err := r.AddPool(spec("pool", nil, "http://b1:80"))
	if err != nil {
		t.Fatal(err)
	}
	req := docRequest(p, "doc", now)
	req.Session = 7
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the hook was not called")
			}
		}()
		_, _ = r.Route(req)
	}()
	if n := p.Backends()[0].InFlight(); n != 0 {
		t.Errorf("%d in flight, want 0", n)
	}
}

// TestPinsAreTold: other routers hear of a pin when it is made or moves, and now and then
// while it is used; what is older than what is known changes nothing.
func TestPinsAreTold(t *testing.T) {
	now := time.Unix(2000, 0)
	told := 0
	r := New(Options{Epoch: now, Hooks: Hooks{Pinned: func(*Pool, PinKey, string, time.Time) { told++ }}})
	p, err := r.AddPool(spec("pool", nil, "http://b1:80", "http://b2:80"))
	if err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		backend string
		after   time.Duration
		want    int
	}{
		{"b1:80", 0, 1},
		{"b1:80", time.Second, 1},
		{"b2:80", 2 * time.Second, 2},
		{"b2:80", pinTold, 2},
		{"b2:80", pinTold + 3*time.Second, 3},
		{"", pinTold + 4*time.Second, 4},
	} {
		r.Pin(p, 7, tc.backend, now.Add(tc.after))
		if told != tc.want {
			t.Errorf("step %d: told %d times, want %d", i, told, tc.want)
		}
	}
	later := now.Add(pinTold + 5*time.Second)
	if got := p.Pinned(7, later); got != "" {
		t.Errorf("nowhere is %q", got)
	}
	r.PeerPin("pool", 7, "b1:80", now, later)
	if got := p.Pinned(7, later); got != "" {
		t.Errorf("old news: %q", got)
	}
	r.PeerPin("pool", 7, "b1:80", later, later)
	r.PeerPin("nowhere", 7, "b2:80", later, later)
	r.PeerPin("pool", 0, "b2:80", later, later)
	if got := p.Pinned(7, later); got != "b1:80" || told != 4 {
		t.Errorf("a peer's pin: %q, told %d times", got, told)
	}
	r.PeerPin("pool", 8, "b7:80", later, later)
	if got := p.Pinned(8, later); got != "" {
		t.Errorf("a backend that is not there: %q", got)
	}
}
