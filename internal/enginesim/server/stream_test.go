package server_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// shape describes an event of a chat or completion stream in a few words.
func shape(ev event) string {
	if ev.data == nil {
		return ev.raw
	}
	var words []string
	choice := at(ev.data, "choices", 0)
	if choice == nil {
		words = append(words, "no choices")
	}
	if at(choice, "delta", "role") != nil {
		words = append(words, "role")
	}
	if text := at(choice, "delta", "content"); text != nil && text != "" {
		words = append(words, "text")
	}
	if text := at(choice, "text"); text != nil {
		words = append(words, "text")
	}
	if reason := at(choice, "finish_reason"); reason != nil {
		words = append(words, fmt.Sprint(reason))
	}
	if usage := at(ev.data, "usage"); usage != nil {
		words = append(words, fmt.Sprintf("usage %v", at(usage, "completion_tokens")))
	}
	if at(ev.data, "usage", "prompt_tokens_details") != nil {
		words = append(words, "details")
	}
	return strings.Join(words, " ")
}

func shapes(events []event) []string {
	var out []string
	for _, ev := range events {
		out = append(out, shape(ev))
	}
	return out
}

func TestStreamShapes(t *testing.T) {
	options := func(o object) object { return object{"stream": true, "max_tokens": 3, "stream_options": o} }
	prompt := func(more object) object {
		more["model"], more["prompt"] = "sim", "hello"
		return more
	}
	for _, test := range []struct {
		name, path string
		body       object
		want       []string
	}{
		{
			"chat", "/v1/chat/completions", chat("hi", object{"stream": true, "max_tokens": 3}),
			[]string{"role", "text", "text", "text length", "[DONE]"},
		},
		{
			"chat without a limit stops", "/v1/chat/completions",
			chat("hi", object{"stream": true, "max_tokens": nil, "max_completion_tokens": 1}),
			[]string{"role", "text length", "[DONE]"},
		},
		{
			"chat with usage", "/v1/chat/completions", chat("hi", options(object{"include_usage": true})),
			[]string{"role", "text", "text", "text length", "no choices usage 3 details", "[DONE]"},
		},
		{
			"chat with usage all along", "/v1/chat/completions",
			chat("hi", options(object{"include_usage": true, "continuous_usage_stats": true})),
			[]string{
				"role usage 0", "text usage 1", "text usage 2", "text length usage 3",
				"no choices usage 3 details", "[DONE]",
			},
		},
		{
			"continuous needs include_usage", "/v1/chat/completions",
			chat("hi", options(object{"continuous_usage_stats": true})),
			[]string{"role", "text", "text", "text length", "[DONE]"},
		},
		{
			"completions have no role", "/v1/completions", prompt(options(object{"include_usage": true})),
			[]string{"text", "text", "text length", "no choices usage 3 details", "[DONE]"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // in virtual time no two tokens share a chunk
				s := inBubble(t, server.DefaultConfig())
				if diff := cmp.Diff(test.want, shapes(s.stream(test.path, test.body))); diff != "" {
					t.Errorf("events mismatch (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestNoLimitStops(t *testing.T) {
	s := listen(t, fastConfig())
	resp := s.ok("/v1/chat/completions", object{"messages": []object{{"role": "user", "content": "hi"}}})
	if at(resp, "usage", "completion_tokens") != 64.0 || at(resp, "choices", 0, "finish_reason") != "stop" {
		t.Errorf("usage %v, finish %v, want 64 tokens and stop", resp["usage"], at(resp, "choices", 0, "finish_reason"))
	}
}

// TestStreamedTextIsTheAnswer checks that the pieces of every dialect's stream
// make up what it answers without streaming.
func TestStreamedTextIsTheAnswer(t *testing.T) {
	s := listen(t, fastConfig())
	for name, test := range map[string]struct {
		path         string
		body         object
		piece, whole []any
	}{
		"chat": {
			"/v1/chat/completions", chat("hi", object{"max_tokens": 20}),
			[]any{"choices", 0, "delta", "content"},
			[]any{"choices", 0, "message", "content"},
		},
		"completions": {
			"/v1/completions",
			object{"prompt": "hi", "max_tokens": 20},
			[]any{"choices", 0, "text"},
			[]any{"choices", 0, "text"},
		},
		"responses": {
			"/v1/responses",
			object{"input": "hi", "max_output_tokens": 20},
			[]any{"delta"},
			[]any{"output", 0, "content", 0, "text"},
		},
		"messages": {
			"/v1/messages", chat("hi", object{"max_tokens": 20}),
			[]any{"delta", "text"},
			[]any{"content", 0, "text"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := at(s.ok(test.path, test.body), test.whole...)
			test.body["stream"] = true
			var got strings.Builder
			for _, ev := range s.stream(test.path, test.body) {
				if text, ok := at(ev.data, test.piece...).(string); ok {
					got.WriteString(text)
				}
			}
			if got.String() != want {
				t.Errorf("streamed %q, want %q", got.String(), want)
			}
		})
	}
}

// names returns the names of events, neighbouring equals once.
func names(events []event) []string {
	var out []string
	for _, ev := range events {
		if len(out) == 0 || out[len(out)-1] != ev.name {
			out = append(out, ev.name)
		}
		if ev.data["type"] != ev.name {
			out = append(out, fmt.Sprintf("type %v", ev.data["type"]))
		}
	}
	return out
}

func TestResponsesStream(t *testing.T) {
	s := listen(t, fastConfig())
	body := object{"model": "sim", "input": manual, "max_output_tokens": 3, "stream": true}
	s.stream("/v1/responses", body)
	events := s.stream("/v1/responses", body)
	want := []string{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
		"response.output_text.delta", "response.output_text.done", "response.content_part.done",
		"response.output_item.done", "response.completed",
	}
	if diff := cmp.Diff(want, names(events)); diff != "" {
		t.Errorf("events mismatch (-want +got):\n%s", diff)
	}
	last := events[len(events)-1].data
	if got := at(last, "response", "usage", "input_tokens_details", "cached_tokens").(float64); got < 1000 {
		t.Errorf("cached %v, want nearly the whole prompt", got)
	}
	for i, ev := range events {
		if got := ev.data["sequence_number"]; got != float64(i) {
			t.Errorf("event %d has sequence number %v", i, got)
		}
	}
}

func TestMessagesStream(t *testing.T) {
	s := listen(t, fastConfig())
	body := chat(manual, object{"stream": true})
	s.stream("/v1/messages", body)
	events := s.stream("/v1/messages", body)
	want := []string{
		"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
	}
	if diff := cmp.Diff(want, names(events)); diff != "" {
		t.Errorf("events mismatch (-want +got):\n%s", diff)
	}
	start, delta := events[0].data, events[len(events)-2].data
	if at(start, "message", "usage", "cache_read_input_tokens") != nil {
		t.Error("message_start has cache fields")
	}
	whole := at(start, "message", "usage", "input_tokens").(float64)
	read := at(delta, "usage", "cache_read_input_tokens").(float64)
	if got := at(delta, "usage", "input_tokens").(float64); got+read != whole || read < 1000 {
		t.Errorf("input %v, cache read %v, want together %v", got, read, whole)
	}
	if got := at(delta, "delta", "stop_reason"); got != "max_tokens" {
		t.Errorf("stop reason %v, want max_tokens", got)
	}
}
