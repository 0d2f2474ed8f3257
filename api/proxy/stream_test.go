package proxy_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/warmroute/warmroute/feedback"
)

func TestChatWhole(t *testing.T) {
	f := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != chat("hello") || r.URL.Path != chatPath {
			t.Errorf("the engine got %s %s", r.URL.Path, body)
		}
		writeWhole(w)
	})})
	got := f.send("POST", chatPath, chat("hello"))
	if got.StatusCode != http.StatusOK || got.body != whole {
		t.Errorf("got %d %s", got.StatusCode, got.body)
	}
	r := f.last(1)
	if r.Result != feedback.Success || !r.Usage.HasCached || r.Usage.Cached != 64 {
		t.Errorf("record %+v", r)
	}
	f.settled(1)
}

func TestChatStream(t *testing.T) {
	f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
		startEvents(w)
		events(w, delta, delta, finish, usageChunk, done)
	})})
	got := f.send("POST", chatPath, chat("hello", streaming))
	if want := delta + delta + finish + done; got.body != want {
		t.Errorf("got %d %q\nwant %q", got.StatusCode, got.body, want)
	}
	r := f.last(1)
	if r.Result != feedback.Success || !r.Usage.HasCached || r.TTFT <= 0 {
		t.Errorf("record %+v", r)
	}
	f.settled(1)
}
