package rpc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/warmroute/warmroute/api/intake"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// An answer that an engine stores leads to it whatever the load, once it was reported or
// the proxy has seen it; an explanation says so and changes nothing.
func TestStoredAnswersAreFollowed(t *testing.T) {
	w := newWorld(t, func(s *setup) { s.options.KeySeed = "secret" })
	say := func(path, more string) *v1.RouteRequest {
		return ask(original(path, fmt.Appendf(nil, `{"model":"m","input":"hi","messages":[{"role":"user","content":"hi"}]%s}`, more)))
	}
	const after = `,"previous_response_id":"resp_1"`
	first := w.route(say("/v1/responses", ""))
	report := answered(first.GetDecisionId())
	report.ResponseId = "resp_1"
	w.report(report)
	for range 5 {
		if d := w.route(say("/v1/responses", after)); d.GetReason() != "pinned" || d.GetTarget().GetBackend() != first.GetTarget().GetBackend() {
			t.Errorf("it goes on at %v because of %s, want %v", d.GetTarget(), d.GetReason(), first.GetTarget())
		}
	}
	if e, err := w.service.Explain(t.Context(), &v1.ExplainRequest{Prompt: say("/v1/responses", after).GetPrompt()}); err != nil || e.GetReason() != "pinned" {
		t.Errorf("explained: %v, %v", e, err)
	}
	if d := w.route(say("/v1/chat/completions", after)); d.GetReason() == "pinned" {
		t.Error("a chat, which nobody stores, was led by it")
	}
	if d := w.route(say("/v1/responses", `,"previous_response_id":"resp_2"`)); d.GetReason() == "pinned" {
		t.Error("an answer that nobody knows leads somewhere")
	}
	w.router.Pin(w.pool, intake.ResponseKey("seen", "", "secret"), "b3:8000/base", time.Now()) // as the proxy does
	if d := w.route(say("/v1/responses", `,"previous_response_id":"seen"`)); d.GetTarget().GetBackend() != "b3:8000/base" {
		t.Errorf("what the proxy saw is followed to %v", d.GetTarget())
	}
	chat := w.route(say("/v1/chat/completions", ""))
	report = answered(chat.GetDecisionId())
	report.ResponseId = "chatcmpl-1"
	w.report(report)
	if d := w.route(say("/v1/responses", `,"previous_response_id":"chatcmpl-1"`)); d.GetReason() == "pinned" {
		t.Error("the id of a chat leads somewhere")
	}
	report.ResponseId = strings.Repeat("x", 257)
	if _, err := w.service.Report(t.Context(), report); codeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "response_id") {
		t.Errorf("an id that is too long: %v", err)
	}
}

// Callers are told to ask for usage where the proxy would.
func TestAskForUsage(t *testing.T) {
	for _, tc := range []struct {
		name, path, more string
		off, want        bool
	}{
		{"a stream", "/v1/chat/completions", `,"stream":true`, false, true},
		{"options without it", "/v1/chat/completions", `,"stream":true,"stream_options":{"continuous_usage_stats":true}`, false, true},
		{"no stream", "/v1/chat/completions", "", false, false},
		{"it asks", "/v1/chat/completions", `,"stream":true,"stream_options":{"include_usage":true}`, false, false},
		{"it declines", "/v1/chat/completions", `,"stream":true,"stream_options":{"include_usage":false}`, false, false},
		{"reported unasked", "/v1/messages", `,"stream":true,"max_tokens":1`, false, false},
		{"configured not to", "/v1/chat/completions", `,"stream":true`, true, false},
	} {
		w := newWorld(t, func(s *setup) { s.options.InjectUsage = !tc.off })
		d := w.route(ask(original(tc.path, fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"hi"}]%s}`, tc.more))))
		if d.GetAskForUsage() != tc.want {
			t.Errorf("%s: %v", tc.name, d.GetAskForUsage())
		}
	}
	w := newWorld(t, func(s *setup) { s.options.InjectUsage = true })
	if d := w.route(ask(&v1.Prompt{Model: "m", Stream: true, Content: &v1.Prompt_Text{Text: "hi"}})); d.GetAskForUsage() {
		t.Error("of a body that the router has not seen")
	}
}
