package server_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// dialect is how one route asks and what it reports.
type dialect struct {
	path   string
	body   func(text string) object
	prompt func(resp object) any // tokens of the whole prompt
	cached func(resp object) any
}

func dialects() map[string]dialect {
	return map[string]dialect{
		"chat": {
			path:   "/v1/chat/completions",
			body:   func(text string) object { return chat(text, nil) },
			prompt: func(r object) any { return at(r, "usage", "prompt_tokens") },
			cached: func(r object) any { return at(r, "usage", "prompt_tokens_details", "cached_tokens") },
		},
		"completions": {
			path:   "/v1/completions",
			body:   func(text string) object { return object{"model": "sim", "prompt": text, "max_tokens": 4} },
			prompt: func(r object) any { return at(r, "usage", "prompt_tokens") },
			cached: func(r object) any { return at(r, "usage", "prompt_tokens_details", "cached_tokens") },
		},
		"responses": {
			path:   "/v1/responses",
			body:   func(text string) object { return object{"model": "sim", "input": text, "max_output_tokens": 4} },
			prompt: func(r object) any { return at(r, "usage", "input_tokens") },
			cached: func(r object) any { return at(r, "usage", "input_tokens_details", "cached_tokens") },
		},
		"messages": {
			path: "/v1/messages",
			body: func(text string) object { return chat(text, nil) },
			prompt: func(r object) any {
				in, _ := at(r, "usage", "input_tokens").(float64)
				read, _ := at(r, "usage", "cache_read_input_tokens").(float64)
				return in + read
			},
			cached: func(r object) any { return at(r, "usage", "cache_read_input_tokens") },
		},
	}
}

// floorBlocks is the most that can be cached of a prompt in blocks of 16.
func floorBlocks(prompt any) float64 {
	n, _ := prompt.(float64)
	return float64((int(n) - 1) / 16 * 16)
}

func TestSecondCallHits(t *testing.T) {
	for name, d := range dialects() {
		t.Run(name, func(t *testing.T) {
			s := listen(t, fastConfig())
			first := s.ok(d.path, d.body(manual))
			if got := d.cached(first); got != 0.0 {
				t.Errorf("first call: cached %v, want 0", got)
			}
			second := s.ok(d.path, d.body(manual))
			if got, want := d.cached(second), floorBlocks(d.prompt(second)); got != want {
				t.Errorf("second call: cached %v of %v, want %v", got, d.prompt(second), want)
			}
			if d.prompt(first) != d.prompt(second) {
				t.Errorf("prompt tokens %v and %v of the same prompt", d.prompt(first), d.prompt(second))
			}
		})
	}
}

// TestDetailsByFlag checks what the flags leave of cached tokens: responses
// report them always, the others only with the flag, and with the older quirk a
// miss is null.
func TestDetailsByFlag(t *testing.T) {
	for name, d := range dialects() {
		t.Run(name, func(t *testing.T) {
			cfg := fastConfig()
			cfg.PromptTokensDetails = false
			off := listen(t, cfg)
			off.ok(d.path, d.body(manual))
			hit := off.ok(d.path, d.body(manual))
			if got := d.cached(hit); (got != nil) != (name == "responses") {
				t.Errorf("without the flag: cached %v", got)
			}
			if name == "messages" && at(hit, "usage", "input_tokens") != d.prompt(hit) {
				t.Errorf("without the flag input_tokens must be the whole prompt, usage %v", hit["usage"])
			}

			cfg = fastConfig()
			cfg.NullForZero = true
			quirk := listen(t, cfg)
			if got := d.cached(quirk.ok(d.path, d.body(manual))); (got != nil) != (name == "responses") {
				t.Errorf("with null for zero: cached %v of a miss", got)
			}
			hit = quirk.ok(d.path, d.body(manual))
			if got, want := d.cached(hit), floorBlocks(d.prompt(hit)); got != want {
				t.Errorf("with null for zero: cached %v of a hit, want %v", got, want)
			}
		})
	}
}

// TestAnswersAreCachedForTheNextTurn checks that a conversation that goes on
// finds the blocks of its last answer.
func TestAnswersAreCachedForTheNextTurn(t *testing.T) {
	s := listen(t, fastConfig())
	first := s.ok("/v1/chat/completions", chat(manual, object{"max_tokens": 100}))
	prompt := at(first, "usage", "prompt_tokens").(float64)
	next := s.ok("/v1/chat/completions", object{"model": "sim", "max_tokens": 1, "messages": []object{
		{"role": "user", "content": manual},
		{"role": "assistant", "content": at(first, "choices", 0, "message", "content")},
		{"role": "user", "content": "And then?"},
	}})
	want := float64((int(prompt) + 99) / 16 * 16)
	if got := at(next, "usage", "prompt_tokens_details", "cached_tokens"); got != want {
		t.Errorf("cached %v, want %v: prompt of %v and 99 tokens of its answer", got, want, prompt)
	}
}

func TestAnswersAreRepeatable(t *testing.T) {
	answer := func(cfg server.Config, more object) any {
		return at(listen(t, cfg).ok("/v1/chat/completions", chat("hello", more)), "choices", 0, "message", "content")
	}
	cfg := fastConfig()
	base := answer(cfg, object{"max_tokens": 30})
	if got := answer(cfg, object{"max_tokens": 30}); got != base {
		t.Errorf("two servers answer %q and %q", base, got)
	}
	if got := answer(cfg, object{"max_tokens": 30, "seed": 4}); got == base {
		t.Error("the request's seed changes nothing")
	}
	cfg.Seed = 5
	if got := answer(cfg, object{"max_tokens": 30}); got == base {
		t.Error("the server's seed changes nothing")
	}
}

// TestWhatSeparatesPrompts changes one thing in a request and looks whether the
// cache of the original still serves it.
func TestWhatSeparatesPrompts(t *testing.T) {
	system := object{"role": "system", "content": manual}
	user := object{"role": "user", "content": "Go."}
	tool := []object{{"type": "function", "function": object{"name": "f", "parameters": object{}}}}
	base := object{"model": "sim", "max_tokens": 1, "messages": []object{system, user}}
	for _, test := range []struct {
		name   string
		change object
		hit    bool
	}{
		{"nothing", object{}, true},
		{"sampling", object{"temperature": 0.1, "user": "u", "metadata": object{"a": "b"}}, true},
		{"content as one part", object{"messages": []object{
			{"role": "system", "content": []object{{"type": "text", "text": manual}}}, user,
		}}, true},
		{"developer is system", object{"messages": []object{{"role": "developer", "content": manual}, user}}, true},
		{"billing header", object{"messages": []object{
			{"role": "system", "content": "x-anthropic-billing-header: cc=1"}, system, user,
		}}, true},
		{"empty tools", object{"tools": []object{}}, true},
		{"tools come first", object{"tools": tool}, false},
		{"salt", object{"cache_salt": "s"}, false},
		{"adapter", object{"model": "adapter"}, false},
		{"template arguments", object{"chat_template_kwargs": object{"enable_thinking": true}}, false},
		{"prompt logprobs", object{"prompt_logprobs": 1}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := fastConfig()
			cfg.Model = []string{"sim", "adapter"}
			s := listen(t, cfg)
			s.ok("/v1/chat/completions", base)
			changed := object{}
			maps.Copy(changed, base)
			maps.Copy(changed, test.change)
			resp := s.ok("/v1/chat/completions", changed)
			cached := at(resp, "usage", "prompt_tokens_details", "cached_tokens").(float64)
			if (cached > 1000) != test.hit {
				t.Errorf("cached %v of %v, want a hit = %t", cached, at(resp, "usage", "prompt_tokens"), test.hit)
			}
		})
	}
}

// TestDialectsShareTheCache checks that the same conversation in another dialect
// is the same prompt.
func TestDialectsShareTheCache(t *testing.T) {
	s := listen(t, fastConfig())
	s.ok("/v1/chat/completions", object{"model": "sim", "max_tokens": 1, "messages": []object{
		{"role": "system", "content": manual}, {"role": "user", "content": "Go."},
	}})
	message := s.ok("/v1/messages", object{
		"model": "sim", "max_tokens": 1,
		"system": []object{
			{"type": "text", "text": "x-anthropic-billing-header: cc_version=2"},
			{"type": "text", "text": manual, "cache_control": object{"type": "ephemeral"}},
		},
		"messages": []object{{"role": "user", "content": []object{{"type": "text", "text": "Go."}}}},
	})
	if got := at(message, "usage", "cache_read_input_tokens").(float64); got < 1000 {
		t.Errorf("messages read %v cached tokens of a chat's prompt", got)
	}
	response := s.ok("/v1/responses", object{
		"model": "sim", "max_output_tokens": 1, "instructions": manual,
		"input": []object{{"role": "user", "content": []object{{"type": "input_text", "text": "Go."}}}},
	})
	if got := at(response, "usage", "input_tokens_details", "cached_tokens").(float64); got < 1000 {
		t.Errorf("responses read %v cached tokens of a chat's prompt", got)
	}
}

func TestSeveralChoices(t *testing.T) {
	s := listen(t, fastConfig())
	resp := s.ok("/v1/chat/completions", chat(manual, object{"n": 3}))
	choices := resp["choices"].([]any)
	if len(choices) != 3 || at(resp, "usage", "completion_tokens") != 12.0 {
		t.Fatalf("%d choices, usage %v, want 3 and 12 completion tokens", len(choices), resp["usage"])
	}
	if at(choices[0], "message", "content") == at(choices[1], "message", "content") {
		t.Error("two choices have the same text")
	}
	// The children share what the first of them computes, so even a cold cache
	// shows hits: the trap that vLLM sets for routers.
	if got := at(resp, "usage", "prompt_tokens_details", "cached_tokens").(float64); got == 0 {
		t.Error("the last child to finish should have hit the first child's blocks")
	}
	if got := s.state("engines", 0, "queried_tokens"); got != 3*at(resp, "usage", "prompt_tokens").(float64) {
		t.Errorf("%v tokens queried, want those of three lookups", got)
	}
}

func TestPromptForms(t *testing.T) {
	s := listen(t, fastConfig())
	complete := func(prompt any) object {
		return s.ok("/v1/completions", object{"model": "sim", "prompt": prompt, "max_tokens": 2})
	}
	ids := make([]int, 64)
	for i := range ids {
		ids[i] = i * 7
	}
	for _, test := range []struct {
		name    string
		prompt  any
		choices int
		tokens  float64
	}{
		{"ids", ids, 1, 64},
		{"lists of ids", [][]int{ids[:20], ids[:30]}, 2, 50},
		{"text", "hello world", 1, 3},
		{"texts", []string{"hello", "hello world"}, 2, 5},
	} {
		resp := complete(test.prompt)
		if got := len(resp["choices"].([]any)); got != test.choices {
			t.Errorf("%s: %d choices, want %d", test.name, got, test.choices)
		}
		if got := at(resp, "usage", "prompt_tokens"); got != test.tokens {
			t.Errorf("%s: %v prompt tokens, want %v", test.name, got, test.tokens)
		}
	}
	echo := s.ok("/v1/completions", object{"model": "sim", "prompt": "hello world", "max_tokens": 2, "echo": true})
	if text := at(echo, "choices", 0, "text").(string); !strings.HasPrefix(text, "hello world") {
		t.Errorf("echo answers %q", text)
	}
}

// TestTokenizeAgrees checks that /tokenize counts what usage counts, and that its
// ids are those of the text.
func TestTokenizeAgrees(t *testing.T) {
	s := listen(t, fastConfig())
	resp := s.ok("/v1/chat/completions", chat(manual, nil))
	counted := s.ok("/tokenize", chat(manual, nil))
	if counted["count"] != at(resp, "usage", "prompt_tokens") {
		t.Errorf("/tokenize counts %v, usage %v", counted["count"], at(resp, "usage", "prompt_tokens"))
	}
	message := s.ok("/v1/messages/count_tokens", chat(manual, nil))
	if message["input_tokens"] != counted["count"] {
		t.Errorf("count_tokens %v, /tokenize %v", message["input_tokens"], counted["count"])
	}
	tokens := s.ok("/tokenize", object{"model": "sim", "prompt": manual})
	s.ok("/v1/completions", object{"model": "sim", "prompt": manual, "max_tokens": 1})
	byID := s.ok("/v1/completions", object{"model": "sim", "prompt": tokens["tokens"], "max_tokens": 1})
	if got, want := at(byID, "usage", "prompt_tokens_details", "cached_tokens"), floorBlocks(tokens["count"]); got != want {
		t.Errorf("prompt as ids: cached %v, want %v", got, want)
	}
}

func TestEmbeddings(t *testing.T) {
	s := listen(t, fastConfig())
	resp := s.ok("/v1/embeddings", object{"model": "sim", "input": []string{manual, "b"}, "dimensions": 8})
	if got := len(resp["data"].([]any)); got != 2 {
		t.Fatalf("%d embeddings, want 2", got)
	}
	if got := len(at(resp, "data", 0, "embedding").([]any)); got != 8 {
		t.Errorf("%d dimensions, want 8", got)
	}
	if at(resp, "usage", "prompt_tokens_details") != nil || at(resp, "usage", "completion_tokens") != 0.0 {
		t.Errorf("usage %v, want no completion and no details", resp["usage"])
	}
	if _, ok := at(s.ok("/v1/embeddings", object{"input": "a", "encoding_format": "base64"}), "data", 0, "embedding").(string); !ok {
		t.Error("base64 embedding is not a string")
	}
	hit := s.ok("/v1/completions", object{"model": "sim", "prompt": manual, "max_tokens": 1})
	if got := at(hit, "usage", "prompt_tokens_details", "cached_tokens").(float64); got == 0 {
		t.Error("an embedding's prompt is not cached")
	}
}

func TestModelList(t *testing.T) {
	cfg := fastConfig()
	cfg.Model, cfg.KVTokens = []string{"base", "lora"}, 4096
	_, list := listen(t, cfg).get("/v1/models")
	if diff := cmp.Diff([]any{"base", nil, 4096.0}, []any{
		at(list, "data", 0, "id"), at(list, "data", 0, "parent"), at(list, "data", 0, "max_model_len"),
	}); diff != "" {
		t.Errorf("base model mismatch (-want +got):\n%s", diff)
	}
	if at(list, "data", 1, "id") != "lora" || at(list, "data", 1, "parent") != "base" {
		t.Errorf("adapter %v, want lora with parent base", at(list, "data", 1))
	}
}

func TestInvocations(t *testing.T) {
	s := listen(t, fastConfig())
	for want, body := range map[string]object{
		"chat.completion": chat("hi", nil),
		"text_completion": {"prompt": "hi", "max_tokens": 1},
		"list":            {"input": "hi"},
	} {
		if got := s.ok("/invocations", body)["object"]; got != want {
			t.Errorf("object %v, want %s", got, want)
		}
	}
	if status, _ := s.post("/invocations", object{"text": "hi"}); status != 400 {
		t.Errorf("body of no route: status %d, want 400", status)
	}
}
