package server

import (
	"encoding/json"
	"net/http"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// maxN bounds the answers to one request.
const maxN = 128

// chatRequest is what of a /v1/chat/completions body matters here.
type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	Tools               json.RawMessage `json:"tools"`
	Documents           json.RawMessage `json:"documents"`
	ChatTemplate        json.RawMessage `json:"chat_template"`
	ChatTemplateKwargs  json.RawMessage `json:"chat_template_kwargs"`
	ReasoningEffort     json.RawMessage `json:"reasoning_effort"`
	AddGenerationPrompt *bool           `json:"add_generation_prompt"`
	ContinueFinal       bool            `json:"continue_final_message"`
	TruncatePrompt      *int            `json:"truncate_prompt_tokens"`
	PromptLogprobs      *int            `json:"prompt_logprobs"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	samplingParams
}

// samplingParams are the fields that chat and completions share.
type samplingParams struct {
	N             *int           `json:"n"`
	Seed          *int64         `json:"seed"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options"`
	CacheSalt     *string        `json:"cache_salt"`
}

type streamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"`
}

// chatMessage is one message of a chat.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	Reasoning  string          `json:"reasoning"`
	ReasoningC string          `json:"reasoning_content"`
}

// apply checks the shared fields and copies them into a plan.
func (p *samplingParams) apply(into *plan) *apiError {
	if p.StreamOptions != nil && !p.Stream {
		return badRequest("Stream options can only be defined when `stream=True`.", "stream_options")
	}
	into.n = 1
	if p.N != nil {
		if *p.N < 1 || *p.N > maxN {
			return badRequest("n must be between 1 and 128.", "n")
		}
		into.n = *p.N
	}
	if p.Seed != nil {
		into.seed = uint64(*p.Seed)
	}
	if p.CacheSalt != nil {
		if *p.CacheSalt == "" {
			return badRequest("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt")
		}
		into.salt = *p.CacheSalt
	}
	into.stream = p.Stream
	return nil
}

func (p *samplingParams) options() streamOptions {
	if p.StreamOptions == nil {
		return streamOptions{}
	}
	o := *p.StreamOptions
	o.ContinuousUsage = o.ContinuousUsage && o.IncludeUsage
	return o
}

// conversation returns what the template is given.
func (r *chatRequest) conversation() (*conversation, *apiError) {
	if len(r.Messages) == 0 {
		return nil, invalidBody("messages: List should have at least 1 item")
	}
	c := &conversation{generate: r.AddGenerationPrompt == nil || *r.AddGenerationPrompt, open: r.ContinueFinal}
	if c.open && r.AddGenerationPrompt != nil && *r.AddGenerationPrompt {
		return nil, badRequest("Cannot set both `continue_final_message` and `add_generation_prompt` to True.", "")
	}
	c.addOption(r.ChatTemplate)
	c.addOption(r.ChatTemplateKwargs)
	c.addOption(r.Documents)
	c.addOption(r.ReasoningEffort)
	c.setTools(r.Tools)
	leading := true
	for _, m := range r.Messages {
		parts, err := content(m.Content)
		if err != nil {
			return nil, err
		}
		system := m.Role == "system" || m.Role == "developer"
		if leading = leading && system; leading {
			c.addSystem(texts(parts)...)
			continue
		}
		t := turn{role: m.Role, name: m.Name}
		if reasoning := m.Reasoning + m.ReasoningC; reasoning != "" {
			t.parts = append(t.parts, part{text: reasoning})
		}
		t.parts = append(t.parts, parts...)
		if given(m.ToolCalls) {
			t.parts = append(t.parts, part{value: m.ToolCalls})
		}
		c.turns = append(c.turns, t)
	}
	return c, nil
}

// plan renders and checks a chat request.
func (s *Server) planChat(r *http.Request, req *chatRequest) (*plan, *apiError) {
	model, err := s.checkModel(req.Model)
	if err != nil {
		return nil, err
	}
	p := &plan{id: "chatcmpl-" + s.requestID(r), model: model, skipCache: req.PromptLogprobs != nil}
	if err := req.apply(p); err != nil {
		return nil, err
	}
	if p.rank, err = s.rankOf(r); err != nil {
		return nil, err
	}
	limit, name := req.MaxCompletionTokens, "max_completion_tokens"
	if limit == nil {
		limit, name = req.MaxTokens, "max_tokens"
	}
	if p.maxTokens, err = positive(name, limit); err != nil {
		return nil, err
	}
	c, err := req.conversation()
	if err != nil {
		return nil, err
	}
	p.prompts = [][]enginesim.Token{truncate(c.render(), req.TruncatePrompt)}
	return p, nil
}

// truncate keeps the last limit tokens of a prompt.
func truncate(tokens []enginesim.Token, limit *int) []enginesim.Token {
	if limit == nil || *limit < 1 || *limit >= len(tokens) {
		return tokens
	}
	return tokens[len(tokens)-*limit:]
}

func (s *Server) handleChat(w http.ResponseWriter, r *http.Request) *apiError {
	var req chatRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	p, err := s.planChat(r, &req)
	if err != nil {
		return err
	}
	return s.answer(
		w, r, p,
		func(stream *eventStream, gen *generation) { s.streamChat(stream, gen, req.options()) },
		func(gen *generation, cached int) any { return s.chatResponse(gen, cached) })
}

// chatResponse is an answer that is not streamed. vLLM spells out its nulls.
type chatResponse struct {
	ID             string       `json:"id"`
	Object         string       `json:"object"`
	Created        int64        `json:"created"`
	Model          string       `json:"model"`
	Choices        []chatChoice `json:"choices"`
	ServiceTier    *string      `json:"service_tier"`
	Fingerprint    *string      `json:"system_fingerprint"`
	Usage          usage        `json:"usage"`
	PromptLogprobs *string      `json:"prompt_logprobs"`
	PromptTokenIDs *string      `json:"prompt_token_ids"`
	KVTransfer     *string      `json:"kv_transfer_params"`
}

type chatChoice struct {
	Index        int        `json:"index"`
	Message      chatAnswer `json:"message"`
	Logprobs     *string    `json:"logprobs"`
	FinishReason string     `json:"finish_reason"`
	StopReason   *string    `json:"stop_reason"`
	TokenIDs     *string    `json:"token_ids"`
}

type chatAnswer struct {
	Role         string   `json:"role"`
	Content      string   `json:"content"`
	Refusal      *string  `json:"refusal"`
	Annotations  *string  `json:"annotations"`
	Audio        *string  `json:"audio"`
	FunctionCall *string  `json:"function_call"`
	ToolCalls    []string `json:"tool_calls"`
	Reasoning    *string  `json:"reasoning"`
}

func (s *Server) chatResponse(gen *generation, cached int) chatResponse {
	resp := chatResponse{
		ID:      gen.id,
		Object:  "chat.completion",
		Created: gen.created,
		Model:   gen.model,
		Usage:   s.usage(gen.promptTokens(), gen.completionTokens(), cached),
	}
	for _, c := range gen.choices {
		resp.Choices = append(resp.Choices, chatChoice{
			Index:        c.index,
			Message:      chatAnswer{Role: "assistant", Content: c.text(0, len(c.pieces)), ToolCalls: []string{}},
			FinishReason: c.finish(),
		})
	}
	return resp
}

// chatChunk is one event of a streamed chat.
type chatChunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []chunkChoice `json:"choices"`
	Usage   *streamUsage  `json:"usage,omitempty"`
}

type chunkChoice struct {
	Index        int       `json:"index"`
	Delta        chatDelta `json:"delta"`
	Logprobs     *string   `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

type chatDelta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

// streamChat streams a chat: for each choice a chunk with its role once its
// first token exists, then its text, the last piece with the finish reason.
func (s *Server) streamChat(stream *eventStream, gen *generation, options streamOptions) {
	chunk := chatChunk{ID: gen.id, Object: "chat.completion.chunk", Created: gen.created, Model: gen.model}
	prompt := gen.promptTokens()
	send := func(choice chunkChoice, completion int) error {
		chunk.Choices = []chunkChoice{choice}
		if options.ContinuousUsage {
			chunk.Usage = runningUsage(prompt, completion)
		}
		return stream.send("", &chunk)
	}
	cached, err := s.follow(stream.ctx, gen, func(c *choice, from, to int, last bool) error {
		if from == 0 {
			empty := ""
			if err := send(chunkChoice{Index: c.index, Delta: chatDelta{Role: "assistant", Content: &empty}}, 0); err != nil {
				return err
			}
		}
		text := c.text(from, to)
		out := chunkChoice{Index: c.index, Delta: chatDelta{Content: &text}}
		if last {
			reason := c.finish()
			out.FinishReason = &reason
		}
		return send(out, to)
	})
	if err != nil {
		stream.fail(err)
		return
	}
	if options.IncludeUsage {
		chunk.Choices = []chunkChoice{}
		chunk.Usage = s.finalUsage(prompt, gen.completionTokens(), cached)
		if err := stream.send("", &chunk); err != nil {
			stream.fail(err)
			return
		}
	}
	if err := stream.done(); err != nil {
		stream.fail(err)
	}
}
