package gateway

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/workload"
)

// What ended before a shutdown, and what a shutdown ended, is in the request log when the
// process is over.
func TestRequestLogOutlivesTheLastRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(c *config.Config) {
			c.RequestLog.Path = path
			c.Timeouts.ShutdownGrace = 5 * time.Second
		}, map[string]http.Handler{"b1:8000": new(engine)})
		time.Sleep(time.Second)
		s.chat(longPrompt("A"), `,"max_tokens":1`)
		go s.chat(longPrompt("A"), `,"max_tokens":2,"stream":true`)   // ends within the grace
		go s.chat(longPrompt("B"), `,"max_tokens":100,"stream":true`) // does not
		time.Sleep(500 * time.Millisecond)
		s.stop()
	})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var results []string
	for line := range bytes.Lines(text) {
		r, err := workload.ParseLoggedRequest(line)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Keys) < 30 || r.Backend != "b1:8000" {
			t.Errorf("%d keys, backend %s", len(r.Keys), r.Backend)
		}
		results = append(results, r.Result)
	}
	if got := strings.Join(results, " "); got != "success success router_error" {
		t.Errorf("requests in the log: %s", got)
	}
}

// Requests are remembered as they end, unless the configuration says otherwise.
func TestRequestsAreRemembered(t *testing.T) {
	for bytes, want := range map[config.Bytes]int{64 << 20: 2, 0: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(c *config.Config) { c.Limits.RecentRequestsBytes = bytes }, map[string]http.Handler{"b1:8000": new(engine)})
			time.Sleep(time.Second)
			s.chat(longPrompt("A"), `,"max_tokens":1`)
			s.chat(longPrompt("A"), `,"max_tokens":1`)
			s.stop()
			if bytes == 0 {
				if s.Requests() != nil {
					t.Error("there is a memory although it is off")
				}
				return
			}
			var pool string
			for _, p := range s.Router().Pools() {
				pool = p.Name()
			}
			w := s.Requests().Window(pool, func(recent.Prompt) bool { return true })
			if len(w.Requests) != want || len(w.Blocks) != int(w.Requests[0].Depth) || w.Requests[0].PromptTokens <= 0 {
				t.Errorf("%d requests, %d blocks: %+v", len(w.Requests), len(w.Blocks), w.Requests)
			}
		})
	}
}

// A request log that cannot be opened is told at the start, by the name of its setting.
func TestRequestLogThatCannotBe(t *testing.T) {
	c, _, err := config.FromBackends([]string{"http://b1:8000"})
	if err != nil {
		t.Fatal(err)
	}
	c.RequestLog.Path = filepath.Join(t.TempDir(), "no", "such", "directory")
	if _, err := New(Options{Config: c}); err == nil || !strings.Contains(err.Error(), "request_log.path: open "+c.RequestLog.Path) {
		t.Errorf("New = %v", err)
	}
}
