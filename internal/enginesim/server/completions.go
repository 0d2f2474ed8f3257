package server

import (
	"encoding/json"
	"net/http"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// completionRequest is what of a /v1/completions body matters here.
type completionRequest struct {
	Model          string          `json:"model"`
	Prompt         json.RawMessage `json:"prompt"`
	MaxTokens      *int            `json:"max_tokens"`
	Echo           bool            `json:"echo"`
	Logprobs       *int            `json:"logprobs"`
	PromptLogprobs *int            `json:"prompt_logprobs"`
	TruncatePrompt *int            `json:"truncate_prompt_tokens"`
	Suffix         *string         `json:"suffix"`
	samplingParams
}

// promptInput is a prompt of completions, embeddings or tokenize: its tokens,
// and its text where it was given as text.
type promptInput struct {
	tokens []enginesim.Token
	text   string
}

// parsePrompts reads a prompt as text, a list of texts, token ids, or a list of
// lists of token ids. Text is preceded by the begin-of-text token.
func parsePrompts(value json.RawMessage, param string) ([]promptInput, *apiError) {
	var one string
	if json.Unmarshal(value, &one) == nil && given(value) {
		return []promptInput{textPrompt(one)}, nil
	}
	var ids []enginesim.Token
	if json.Unmarshal(value, &ids) == nil && len(ids) > 0 {
		return []promptInput{{tokens: ids}}, nil
	}
	var many []string
	if json.Unmarshal(value, &many) == nil && len(many) > 0 {
		prompts := make([]promptInput, 0, len(many))
		for _, text := range many {
			prompts = append(prompts, textPrompt(text))
		}
		return prompts, nil
	}
	var lists [][]enginesim.Token
	if json.Unmarshal(value, &lists) == nil && len(lists) > 0 {
		prompts := make([]promptInput, 0, len(lists))
		for _, list := range lists {
			prompts = append(prompts, promptInput{tokens: list})
		}
		return prompts, nil
	}
	return nil, invalidBody(param + " must be a string, array of strings, array of tokens, or array of token arrays")
}

func textPrompt(text string) promptInput {
	return promptInput{tokens: enginesim.Tokenize([]enginesim.Token{beginText}, text), text: text}
}

func (s *Server) planCompletion(r *http.Request, req *completionRequest) (*plan, []promptInput, *apiError) {
	model, err := s.checkModel(req.Model)
	if err != nil {
		return nil, nil, err
	}
	if req.Suffix != nil && *req.Suffix != "" {
		return nil, nil, badRequest("suffix is not currently supported", "suffix")
	}
	p := &plan{id: "cmpl-" + s.requestID(r), model: model}
	p.skipCache = req.PromptLogprobs != nil || (req.Echo && req.Logprobs != nil)
	if err := req.apply(p); err != nil {
		return nil, nil, err
	}
	if p.rank, err = s.rankOf(r); err != nil {
		return nil, nil, err
	}
	if p.maxTokens, err = positive("max_tokens", req.MaxTokens); err != nil {
		return nil, nil, err
	}
	inputs, err := parsePrompts(req.Prompt, "prompt")
	if err != nil {
		return nil, nil, err
	}
	for _, in := range inputs {
		p.prompts = append(p.prompts, truncate(in.tokens, req.TruncatePrompt))
	}
	return p, inputs, nil
}

func (s *Server) handleCompletions(w http.ResponseWriter, r *http.Request) *apiError {
	var req completionRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	p, inputs, err := s.planCompletion(r, &req)
	if err != nil {
		return err
	}
	echo := func(c *choice) string {
		if !req.Echo {
			return ""
		}
		return inputs[c.prompt].text
	}
	return s.answer(
		w, r, p,
		func(stream *eventStream, gen *generation) { s.streamCompletion(stream, gen, req.options(), echo) },
		func(gen *generation, cached int) any { return s.wholeCompletion(gen, cached, echo) })
}

// wholeCompletion is an answer that is not streamed.
func (s *Server) wholeCompletion(gen *generation, cached int, echo func(*choice) string) completionResponse {
	resp := completionResponse{
		ID:      gen.id,
		Object:  "text_completion",
		Created: gen.created,
		Model:   gen.model,
		Usage:   s.usage(gen.promptTokens(), gen.completionTokens(), cached),
	}
	for _, c := range gen.choices {
		resp.Choices = append(resp.Choices, completionChoice{
			Index: c.index, Text: echo(c) + c.text(0, len(c.pieces)), FinishReason: c.finish(),
		})
	}
	return resp
}

// completionResponse is an answer that is not streamed.
type completionResponse struct {
	ID          string             `json:"id"`
	Object      string             `json:"object"`
	Created     int64              `json:"created"`
	Model       string             `json:"model"`
	Choices     []completionChoice `json:"choices"`
	ServiceTier *string            `json:"service_tier"`
	Fingerprint *string            `json:"system_fingerprint"`
	Usage       usage              `json:"usage"`
	KVTransfer  *string            `json:"kv_transfer_params"`
}

type completionChoice struct {
	Index          int     `json:"index"`
	Text           string  `json:"text"`
	Logprobs       *string `json:"logprobs"`
	FinishReason   string  `json:"finish_reason"`
	StopReason     *string `json:"stop_reason"`
	TokenIDs       *string `json:"token_ids"`
	PromptLogprobs *string `json:"prompt_logprobs"`
	PromptTokenIDs *string `json:"prompt_token_ids"`
}

// completionChunk is one event of a streamed completion.
type completionChunk struct {
	ID      string                  `json:"id"`
	Object  string                  `json:"object"`
	Created int64                   `json:"created"`
	Model   string                  `json:"model"`
	Choices []completionChunkChoice `json:"choices"`
	Usage   *streamUsage            `json:"usage,omitempty"`
}

type completionChunkChoice struct {
	Index        int     `json:"index"`
	Text         string  `json:"text"`
	Logprobs     *string `json:"logprobs"`
	FinishReason *string `json:"finish_reason"`
	StopReason   *string `json:"stop_reason"`
}

// streamCompletion streams a completion; no chunk comes before the first token.
func (s *Server) streamCompletion(
	stream *eventStream, gen *generation, options streamOptions, echo func(*choice) string,
) {
	chunk := completionChunk{ID: gen.id, Object: "text_completion", Created: gen.created, Model: gen.model}
	prompt := gen.promptTokens()
	cached, err := s.follow(stream.ctx, gen, func(c *choice, from, to int, last bool) error {
		out := completionChunkChoice{Index: c.index, Text: c.text(from, to)}
		if from == 0 {
			out.Text = echo(c) + out.Text
		}
		if last {
			reason := c.finish()
			out.FinishReason = &reason
		}
		chunk.Choices = []completionChunkChoice{out}
		if options.ContinuousUsage {
			chunk.Usage = runningUsage(gen.promptLens[c.prompt], to)
		}
		return stream.send("", &chunk)
	})
	if err != nil {
		stream.fail(err)
		return
	}
	if options.IncludeUsage {
		chunk.Choices = []completionChunkChoice{}
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
