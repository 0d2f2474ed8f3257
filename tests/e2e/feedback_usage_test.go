package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// UF-01: cached tokens that are null, missing, or in no usage at all are unknown: they
// count neither as hits nor as misses, and prompts go to their holders all the same.
func TestUF01NumbersThatAreNotThere(t *testing.T) {
	noDetails := func(c *server.Config) { c.PromptTokensDetails = false }
	plain := func(h http.Handler) http.Handler { return h }
	for name, test := range map[string]struct {
		engine func() http.Handler
		whole  bool
		kind   string // of usage report
	}{
		"null":      {func() http.Handler { return around(t, noDetails, plain) }, true, "null"},
		"missing":   {func() http.Handler { return around(t, noDetails, plain) }, false, "absent"},
		"no usage":  {func() http.Handler { return http.HandlerFunc(withoutUsage) }, true, "absent"},
		"no stream": {func() http.Handler { return http.HandlerFunc(withoutUsage) }, false, "absent"},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, setup{others: []http.Handler{test.engine(), test.engine(), test.engine()}})
			docs := documents(0, 12, 4000)
			homes := make([]string, len(docs))
			for round := range 3 {
				for i, d := range docs {
					r := w.mustChat(ask{messages: []message{user(d)}, whole: test.whole})
					if round > 0 && r.backend != homes[i] {
						t.Errorf("document %d moved from %s to %s (%s)", i, homes[i], r.backend, r.reason)
					}
					homes[i] = r.backend
				}
			}
			w.await("36 answers are counted as "+test.kind, func() bool {
				return w.metric("warmroute_usage_reports_total", fmt.Sprintf("kind=%q", test.kind)) == 36
			})
			for _, series := range []string{
				"warmroute_reported_prompt_tokens_total", "warmroute_delivered_cached_tokens_total", "warmroute_evidence_total",
				"warmroute_prediction_error_ratio_count", "warmroute_horizon_moves_total",
			} {
				if n := w.metric(series); n != 0 {
					t.Errorf("%s is %v although nothing was reported", series, n)
				}
			}
			if n := w.metric("warmroute_undelivered_tokens_total", `cause="unreported"`); n < 12*2*500 {
				t.Errorf("%v tokens are counted as unreported", n)
			}
		})
	}
}

// withoutUsage is an engine that counts nothing.
func withoutUsage(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if strings.Contains(string(body), `"stream":true`) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`)
}

// UF-18: clients that leave before the usage event prove nothing, but their prompts were
// prefilled: the one that stays finds them.
func TestUF18ClientsThatLeaveLearnNothing(t *testing.T) {
	w := watch(t, setup{engines: 3, engine: func(c *server.Config) { c.Speed = 1 }})
	doc := prose(1, 12_000)
	home := ""
	for i := range 20 {
		backend := w.leaveAfterEvents(ask{messages: []message{user(doc)}, tokens: 20_000}, 3)
		if i == 0 {
			home = backend
		}
		if backend != home {
			t.Errorf("request %d went to %s, the first to %s", i, backend, home)
		}
	}
	w.await("all are counted as gone", func() bool { return w.metric("warmroute_requests_total", `result="client_closed"`) == 20 })
	for _, series := range []string{
		"warmroute_evidence_total", "warmroute_reported_prompt_tokens_total", "warmroute_prompt_tokens_total", "warmroute_horizon_moves_total",
	} {
		if n := w.metric(series); n != 0 {
			t.Errorf("%s is %v although nobody stayed", series, n)
		}
	}
	r := w.mustChat(ask{messages: []message{user(doc)}})
	if r.backend != home || r.cached < r.prompt/2 {
		t.Errorf("%d of %d tokens were cached on %s, want most of them on %s", r.cached, r.prompt, r.backend, home)
	}
	w.await(fmt.Sprintf("the %d cached tokens that the engine reported are delivered", r.cached), func() bool {
		return int(w.metric("warmroute_delivered_cached_tokens_total")) == r.cached
	})
}

// leaveAfterEvents gives a stream up after some events and returns where it went.
func (w *watched) leaveAfterEvents(a ask, events int) string {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	resp, r, err := w.open(ctx, a)
	if err != nil || r.status != http.StatusOK {
		w.t.Fatalf("%+v, %v", r, err)
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); events > 0 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			events--
		}
	}
	return r.backend
}
