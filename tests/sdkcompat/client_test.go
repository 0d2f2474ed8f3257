package sdkcompat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// prompts counts the texts that prompt has made.
var prompts atomic.Int64

// prompt makes a text of some hundred tokens that was never sent before.
func prompt() string {
	var b strings.Builder
	fmt.Fprintf(&b, "These are the notes of day %d.\n", prompts.Add(1))
	for i := range 60 {
		fmt.Fprintf(&b, "Note %d: the pump in hall %d was serviced and its pressure set to %d bar.\n", i, i%7, 3+i%5)
	}
	b.WriteString("Which pumps were serviced twice?")
	return b.String()
}

func chat(text string, maxTokens int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("You answer briefly."),
			openai.UserMessage(text),
		},
		MaxCompletionTokens: openai.Int(maxTokens),
	}
}

func TestModels(t *testing.T) {
	c := client()
	page, err := c.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Data) != 1 || page.Data[0].ID != model {
		t.Errorf("models = %+v, want only %q", page.Data, model)
	}
}

func TestChatCompletion(t *testing.T) {
	c := client()
	params := chat(prompt(), 12)
	var first, second *http.Response
	a, err := c.Chat.Completions.New(t.Context(), params, option.WithResponseInto(&first))
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Chat.Completions.New(t.Context(), params, option.WithResponseInto(&second))
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Choices) != 1 || a.Choices[0].Message.Content == "" || a.Choices[0].FinishReason != "length" {
		t.Errorf("choices = %+v, want one with text that ends by length", a.Choices)
	}
	if a.Usage.CompletionTokens != 12 || a.Usage.TotalTokens != a.Usage.PromptTokens+12 {
		t.Errorf("usage = %+v, want 12 completion tokens", a.Usage)
	}
	if a.Usage.PromptTokensDetails.CachedTokens >= 100 || b.Usage.PromptTokensDetails.CachedTokens < b.Usage.PromptTokens/2 {
		t.Errorf("cached tokens = %d, then %d of %d: want few, then most",
			a.Usage.PromptTokensDetails.CachedTokens, b.Usage.PromptTokensDetails.CachedTokens, b.Usage.PromptTokens)
	}
	const header = "X-Warmroute-Backend"
	if id := first.Header.Get(header); id == "" || id != second.Header.Get(header) {
		t.Errorf("%s = %q, then %q: want the same backend twice", header, id, second.Header.Get(header))
	}
}

// A streamed answer is the answer that is not streamed, and its last chunk says how much of the prompt was cached.
func TestChatStreamWithUsage(t *testing.T) {
	c := client()
	params := chat(prompt(), 20)
	whole, err := c.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	usages := 0
	for stream.Next() {
		chunk := stream.Current()
		if !acc.AddChunk(chunk) {
			t.Errorf("a chunk does not belong to the others: %s", chunk.RawJSON())
		}
		if chunk.JSON.Usage.Valid() {
			usages++
			if len(chunk.Choices) != 0 {
				t.Errorf("usage came with choices: %s", chunk.RawJSON())
			}
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if usages != 1 {
		t.Errorf("%d chunks with usage, want 1", usages)
	}
	if len(acc.Choices) != 1 || acc.Choices[0].Message.Content != whole.Choices[0].Message.Content || acc.Choices[0].FinishReason != "length" {
		t.Errorf("streamed %+v, want the text %q and the end by length", acc.Choices, whole.Choices[0].Message.Content)
	}
	if u := acc.Usage; u.CompletionTokens != 20 || u.PromptTokens != whole.Usage.PromptTokens || u.PromptTokensDetails.CachedTokens < u.PromptTokens/2 {
		t.Errorf("usage = %+v, want 20 completion tokens and most of %d prompt tokens cached", u, whole.Usage.PromptTokens)
	}
}

// A client that does not ask for usage sees nothing of the router having asked for itself.
func TestChatStreamWithoutUsage(t *testing.T) {
	for name, options := range map[string]openai.ChatCompletionStreamOptionsParam{
		"unset": {},
		"false": {IncludeUsage: openai.Bool(false)},
	} {
		t.Run(name, func(t *testing.T) {
			c := client()
			params := chat(prompt(), 8)
			params.StreamOptions = options
			stream := c.Chat.Completions.NewStreaming(t.Context(), params)
			defer stream.Close()
			chunks := 0
			var text strings.Builder
			for stream.Next() {
				chunk := stream.Current()
				chunks++
				if len(chunk.Choices) == 0 || chunk.JSON.Usage.Valid() {
					t.Errorf("chunk %d was not asked for: %s", chunks, chunk.RawJSON())
					continue
				}
				text.WriteString(chunk.Choices[0].Delta.Content)
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if text.Len() == 0 {
				t.Errorf("no text in %d chunks", chunks)
			}
		})
	}
}

func TestCompletions(t *testing.T) {
	c := client()
	params := openai.CompletionNewParams{
		Model:     model,
		Prompt:    openai.CompletionNewParamsPromptUnion{OfString: openai.String(prompt())},
		MaxTokens: openai.Int(10),
	}
	whole, err := c.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.Choices) != 1 || whole.Choices[0].Text == "" || whole.Usage.CompletionTokens != 10 {
		t.Fatalf("completion = %s, want one choice of 10 tokens", whole.RawJSON())
	}
	stream := c.Completions.NewStreaming(t.Context(), params)
	defer stream.Close()
	var text strings.Builder
	for stream.Next() {
		chunk := stream.Current()
		if len(chunk.Choices) != 1 {
			t.Errorf("%d choices in a chunk, want 1: %s", len(chunk.Choices), chunk.RawJSON())
			continue
		}
		text.WriteString(chunk.Choices[0].Text)
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if text.String() != whole.Choices[0].Text {
		t.Errorf("streamed %q, want %q", text.String(), whole.Choices[0].Text)
	}
}

func TestResponsesStream(t *testing.T) {
	c := client()
	params := responses.ResponseNewParams{
		Model:           model,
		Instructions:    openai.String("You answer briefly."),
		Input:           responses.ResponseNewParamsInputUnion{OfString: openai.String(prompt())},
		MaxOutputTokens: openai.Int(16),
	}
	whole, err := c.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	stream := c.Responses.NewStreaming(t.Context(), params)
	defer stream.Close()
	var text strings.Builder
	var order []string
	var last responses.Response
	for stream.Next() {
		event := stream.Current()
		if n := len(order); n == 0 || order[n-1] != event.Type {
			order = append(order, event.Type)
		}
		switch event.Type {
		case "response.output_text.delta":
			text.WriteString(event.Delta)
		case "response.completed", "response.incomplete":
			last = event.Response
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if len(order) == 0 || order[0] != "response.created" || last.ID == "" {
		t.Fatalf("events = %q, want them to start with response.created and to end with the whole response", order)
	}
	if text.String() == "" || text.String() != whole.OutputText() || text.String() != last.OutputText() {
		t.Errorf("deltas add up to %q, the last event holds %q, the plain answer was %q", text.String(), last.OutputText(), whole.OutputText())
	}
	if u := last.Usage; u.OutputTokens != 16 || u.InputTokensDetails.CachedTokens < u.InputTokens/2 {
		t.Errorf("usage = %s, want 16 output tokens and most of the input cached", u.RawJSON())
	}
}

// A client that leaves in the middle of a stream frees the slot in the router and stops the engine.
func TestCancelMidStream(t *testing.T) {
	c := client()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := c.Chat.Completions.NewStreaming(ctx, chat(prompt(), 20_000))
	defer stream.Close()
	for range 3 {
		if !stream.Next() {
			t.Fatalf("the stream ended early: %v", stream.Err())
		}
	}
	if n, err := running.inFlight(t.Context()); err != nil || n != 1 {
		t.Errorf("in flight during the stream = %d (%v), want 1", n, err)
	}
	if n, err := running.engineLoad(t.Context()); err != nil || n != 1 {
		t.Errorf("load of the engines during the stream = %d (%v), want 1", n, err)
	}
	cancel()
	for stream.Next() { // what was on its way
	}
	if err := stream.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("the stream ended with %v, want context.Canceled", err)
	}
	await(t, "requests in flight", running.inFlight)
	await(t, "load of the engines", running.engineLoad)
}

// await polls until a count is zero.
func await(t *testing.T, what string, count func(context.Context) (int, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for {
		n, err := count(ctx)
		if err == nil && n == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("%s = %d (%v), want 0", what, n, err)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestErrors(t *testing.T) {
	c := client()
	unknown := chat("hello", 4)
	unknown.Model = "no-such-model"
	empty := chat("hello", 4)
	empty.Messages = []openai.ChatCompletionMessageParamUnion{}
	for _, tc := range []struct {
		name   string
		call   func(context.Context) error
		status int
		code   string // "" where the dialect leaves it to the server
	}{
		{"unknown model", func(ctx context.Context) error {
			_, err := c.Chat.Completions.New(ctx, unknown)
			return err
		}, http.StatusNotFound, "model_not_found"},
		{"unknown model, streaming", func(ctx context.Context) error {
			stream := c.Chat.Completions.NewStreaming(ctx, unknown)
			defer stream.Close()
			if stream.Next() {
				return errors.New("a chunk came")
			}
			return stream.Err()
		}, http.StatusNotFound, "model_not_found"},
		{"unknown model, responses", func(ctx context.Context) error {
			_, err := c.Responses.New(ctx, responses.ResponseNewParams{
				Model: shared.ResponsesModel(unknown.Model),
				Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hello")},
			})
			return err
		}, http.StatusNotFound, "model_not_found"},
		{"no messages", func(ctx context.Context) error { // the engine's own refusal comes through
			_, err := c.Chat.Completions.New(ctx, empty)
			return err
		}, http.StatusBadRequest, ""},
		{"not JSON", func(ctx context.Context) error { // the router's refusal
			return c.Post(ctx, "chat/completions", nil, nil, option.WithRequestBody("application/json", []byte(`{"model": "m", "messages": [`)))
		}, http.StatusBadRequest, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.call(t.Context())
			apiErr, ok := errors.AsType[*openai.Error](err)
			if !ok {
				t.Fatalf("error = %v, want an *openai.Error", err)
			}
			if apiErr.StatusCode != tc.status || tc.code != "" && apiErr.Code != tc.code {
				t.Errorf("status %d, code %q, want %d, %q", apiErr.StatusCode, apiErr.Code, tc.status, tc.code)
			}
			if apiErr.Message == "" || apiErr.Type == "" {
				t.Errorf("message %q, type %q: want both", apiErr.Message, apiErr.Type)
			}
		})
	}
}

// Parameters that the router does not know reach the engine as they are.
func TestUnknownParameters(t *testing.T) {
	c := client()
	params := chat(prompt(), 4)
	params.SetExtraFields(map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}, "top_k": 20})
	answer, err := c.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Usage.CompletionTokens != 4 {
		t.Errorf("usage = %+v, want 4 completion tokens", answer.Usage)
	}
}
