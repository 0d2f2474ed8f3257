package server

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// parsers turn a body of each dialect into what the template is given.
var parsers = map[string]func(body []byte) (*conversation, *apiError){
	"chat": func(body []byte) (*conversation, *apiError) {
		var req chatRequest
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, invalidBody(err.Error())
		}
		return req.conversation()
	},
	"responses": func(body []byte) (*conversation, *apiError) {
		var req responsesRequest
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, invalidBody(err.Error())
		}
		return req.conversation()
	},
	"messages": func(body []byte) (*conversation, *apiError) {
		var req messagesRequest
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, invalidBody(err.Error())
		}
		return req.conversation()
	},
}

func render(t *testing.T, dialect, body string) []enginesim.Token {
	t.Helper()
	c, err := parsers[dialect]([]byte(body))
	if err != nil {
		t.Fatalf("%s %s: %v", dialect, body, err)
	}
	return c.render()
}

// TestCosmeticsOfJSON checks that what an engine cannot see does not change the
// prompt.
func TestCosmeticsOfJSON(t *testing.T) {
	for _, test := range []struct{ name, dialect, a, b string }{
		{
			"spaces and key order", "chat",
			`{"messages":[{"role":"user","content":"A"}],"tools":[{"type":"function","x":1.0}]}`,
			`{ "tools": [ {"type": "function", "x": 1.0} ], "messages": [ {"content": "\u0041", "role": "user"} ] }`,
		},
		{
			"a text and its only part", "responses",
			`{"input":"A"}`,
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"A"}]}]}`,
		},
		{
			"a text and its only block", "messages",
			`{"system":"S","messages":[{"role":"user","content":"A"}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"A"}]}],"system":[{"type":"text","text":"S"}]}`,
		},
		{
			"reasoning by either name", "chat",
			`{"messages":[{"role":"assistant","reasoning":"R","content":"A"}]}`,
			`{"messages":[{"role":"assistant","reasoning_content":"R","content":"A"}]}`,
		},
	} {
		if a, b := render(t, test.dialect, test.a), render(t, test.dialect, test.b); !slices.Equal(a, b) {
			t.Errorf("%s: %d and %d tokens that differ", test.name, len(a), len(b))
		}
	}
}

// TestWhatTheTemplatePrints checks that what an engine does see changes the
// prompt.
func TestWhatTheTemplatePrints(t *testing.T) {
	for _, test := range []struct{ name, dialect, a, b string }{
		{
			"spelling of numbers in tools", "chat",
			`{"messages":[{"role":"user","content":"A"}],"tools":[{"x":1}]}`,
			`{"messages":[{"role":"user","content":"A"}],"tools":[{"x":1.0}]}`,
		},
		{"role", "chat", `{"messages":[{"role":"user","content":"A"}]}`, `{"messages":[{"role":"tool","content":"A"}]}`},
		{
			"name", "chat",
			`{"messages":[{"role":"user","content":"A"}]}`, `{"messages":[{"role":"user","name":"N","content":"A"}]}`,
		},
		{
			"tool calls", "chat",
			`{"messages":[{"role":"assistant","tool_calls":[{"id":"1"}]}]}`,
			`{"messages":[{"role":"assistant","tool_calls":[{"id":"2"}]}]}`,
		},
		{
			"images", "chat",
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"b"}}]}]}`,
		},
		{
			"a message that is continued", "chat",
			`{"messages":[{"role":"assistant","content":"A"}],"add_generation_prompt":false}`,
			`{"messages":[{"role":"assistant","content":"A"}],"continue_final_message":true}`,
		},
		{
			"tool results", "messages",
			`{"messages":[{"role":"user","content":[{"type":"tool_result","content":"A"}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"B"}]}]}]}`,
		},
		{
			"function calls", "responses",
			`{"input":[{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call_output","output":"1"}]}`,
			`{"input":[{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call_output","output":"2"}]}`,
		},
		{
			"reasoning items", "responses",
			`{"input":[{"type":"reasoning","summary":[]},{"role":"user","content":"A"}]}`, `{"input":[{"role":"user","content":"A"}]}`,
		},
	} {
		if slices.Equal(render(t, test.dialect, test.a), render(t, test.dialect, test.b)) {
			t.Errorf("%s: the same tokens", test.name)
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, body := range []string{
		`{"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"A"},{"type":"image_url"}]}]}`,
		`{"instructions":"I","input":[{"role":"user","content":[{"type":"input_text","text":"A"}]}],"tools":[{}]}`,
		`{"system":[{"type":"text","text":"S"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":"x"}]}]}`,
		`{"input":"A"}`, `{"messages":null}`, `[]`, `{"messages":[{"content":[null,"a",3]}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for dialect, parse := range parsers {
			c, err := parse(body)
			if err != nil {
				continue
			}
			if tokens := c.render(); len(tokens) == 0 || !slices.Equal(tokens, c.render()) {
				t.Fatalf("%s: %q renders to %d tokens, not the same twice", dialect, body, len(tokens))
			}
		}
		if prompts, err := parsePrompts(body, "prompt"); err == nil && len(prompts) == 0 {
			t.Fatalf("%q is a prompt without prompts", body)
		}
	})
}
