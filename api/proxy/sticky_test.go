package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/router"
)

const (
	sessionHeader = "X-Amzn-SageMaker-Session-Id"
	begunHeader   = "X-Amzn-SageMaker-New-Session-Id"
	endedHeader   = "X-Amzn-SageMaker-Closed-Session-Id"
)

// TestSessions: a session that an engine begins comes back to it, whatever its prompts are and
// whoever holds them, until the engine ends it. One that the client names stays where it began.
func TestSessions(t *testing.T) {
	var urls []string
	got := new(seen)
	for i := range 4 {
		name := fmt.Sprint("engine-", i)
		urls = append(urls, engine(t, func(w http.ResponseWriter, r *http.Request) {
			session := r.Header.Get(sessionHeader)
			got.add(request{host: name, method: session, body: readAll(r)})
			switch {
			case session == "NEW_SESSION":
				w.Header().Set(begunHeader, name+"-s1; Expires=2030-01-01T00:00:00Z")
			case strings.HasSuffix(r.URL.Path, "completions") && strings.Contains(got.last().body, "goodbye"):
				w.Header().Set(endedHeader, session)
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"id":"x","object":"chat.completion","choices":[]}`)
		}))
	}
	f := start(t, urls)
	n := 0
	send := func(text, session string) (host string, a answer) {
		t.Helper()
		a = f.send("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"`+text+`"}]}`, sessionHeader, session)
		n++
		f.await(n)
		wantOK(t, a)
		if r := got.last(); r.method != session {
			t.Errorf("the engine was told of session %q, want %q", r.method, session)
		}
		return got.last().host, a
	}
	for i := range 3 {
		home, a := send(story(fmt.Sprint(i), 3000), "NEW_SESSION")
		id, _, _ := strings.Cut(a.Header.Get(begunHeader), ";")
		if id == "" {
			t.Fatal("the client is not told of its session")
		}
		for turn := range 6 {
			host, a := send(story(fmt.Sprint(i, turn), 3000), id)
			if host != home || a.Header.Get("X-Warmroute-Reason") != router.Pinned.String() {
				t.Errorf("session %s went to %s (%s), want %s", id, host, a.Header.Get("X-Warmroute-Reason"), home)
			}
		}
		send("goodbye", id)
		if _, a := send("again", id); a.Header.Get("X-Warmroute-Reason") == router.Pinned.String() {
			t.Errorf("session %s has ended, and is pinned", id)
		}
	}
	home, _ := send(story("own", 3000), "named by the client")
	for turn := range 6 {
		if host, _ := send(story(fmt.Sprint("own", turn), 3000), "named by the client"); host != home {
			t.Errorf("the client's session went to %s, want %s", host, home)
		}
	}
	f.settled(n)
}

// TestStoredAnswersInUse: an answer that is read, or followed by another one, is remembered for
// another day.
func TestStoredAnswersInUse(t *testing.T) {
	engines := make(map[string]http.HandlerFunc)
	for _, name := range []string{"a", "b", "c"} {
		engines[name+":80"] = func(w http.ResponseWriter, r *http.Request) {
			id := "resp_" + name
			if strings.Contains(r.URL.Path, "resp_") || strings.Contains(r.Header.Get("X-Turn"), "next") {
				id = "resp_next"
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"id":"`+id+`","object":"response","status":"completed","output":[]}`)
		}
	}
	for _, test := range []struct{ name, method, path, body string }{
		{"read", "GET", "/v1/responses/%s", ""},
		{"followed", "POST", "/v1/responses", `{"model":"m","input":"go on","previous_response_id":"%s"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			virtual(t, engines, nil, func(t *testing.T, f *fleet) {
				first := f.send("POST", "/v1/responses", `{"model":"m","input":"hello"}`)
				wantOK(t, first)
				home := first.Header.Get("X-Warmroute-Backend")
				id := "resp_" + strings.TrimSuffix(home, ":80")
				fill := func(s string) string { return strings.Replace(s, "%s", id, 1) }
				for range 3 {
					time.Sleep(20 * time.Hour)
					wantOK(t, f.send(test.method, fill(test.path), fill(test.body), "X-Turn", "next"))
				}
				time.Sleep(20 * time.Hour)
				wantOK(t, f.send("GET", "/v1/responses/"+id, ""))
				time.Sleep(25 * time.Hour)
				if a := f.send("GET", "/v1/responses/"+id, ""); a.StatusCode != http.StatusNotFound {
					t.Errorf("after a day without use: %d", a.StatusCode)
				}
			})
		})
	}
}

func TestSessionIDsThatAreNone(t *testing.T) {
	f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{}`) })})
	for _, id := range []string{"", strings.Repeat("s", 257), "s\tx", "ü"} {
		a := f.send("POST", "/v1/chat/completions", `{"model":"m","messages":[]}`, sessionHeader, id)
		if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "Session-Id must be NEW_SESSION or 1 to 256") {
			t.Errorf("%q: %d %s", id, a.StatusCode, a.body)
		}
	}
}
