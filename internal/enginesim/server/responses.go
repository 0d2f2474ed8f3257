package server

import (
	"encoding/json"
	"net/http"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// responsesRequest is what of a /v1/responses body matters here.
type responsesRequest struct {
	Model              string          `json:"model"`
	Instructions       string          `json:"instructions"`
	Input              json.RawMessage `json:"input"`
	Tools              json.RawMessage `json:"tools"`
	Reasoning          json.RawMessage `json:"reasoning"`
	MaxOutputTokens    *int            `json:"max_output_tokens"`
	Stream             bool            `json:"stream"`
	Background         bool            `json:"background"`
	PreviousResponseID *string         `json:"previous_response_id"`
	CacheSalt          *string         `json:"cache_salt"`
}

// responsesItem is one item of a request's input.
type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Summary   json.RawMessage `json:"summary"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

func (r *responsesRequest) conversation() (*conversation, *apiError) {
	c := &conversation{generate: true}
	c.addOption(r.Reasoning)
	c.setTools(r.Tools)
	c.addSystem(r.Instructions)
	if given(r.Input) && r.Input[0] == '"' {
		parts, err := content(r.Input)
		if err != nil {
			return nil, err
		}
		c.turns = []turn{{role: "user", parts: parts}}
		return c, nil
	}
	var items []responsesItem
	if err := json.Unmarshal(r.Input, &items); err != nil {
		return nil, invalidBody("input must be a string or a list of items: " + err.Error())
	}
	if len(items) == 0 {
		return nil, invalidBody("input: List should have at least 1 item")
	}
	leading := true
	for _, item := range items {
		parts, err := content(item.Content)
		if err != nil {
			return nil, err
		}
		system := item.Role == "system" || item.Role == "developer"
		if leading = leading && system; leading {
			c.addSystem(texts(parts)...)
			continue
		}
		c.turns = append(c.turns, item.turn(parts))
	}
	return c, nil
}

// turn returns an item as a message.
func (i *responsesItem) turn(parts []part) turn {
	switch i.Type {
	case "function_call":
		return turn{role: "assistant", name: i.Name, parts: []part{{value: i.Arguments}}}
	case "function_call_output":
		return turn{role: "tool", parts: []part{{value: i.Output}}}
	case "reasoning":
		return turn{role: "assistant", parts: append([]part{{value: i.Summary}}, parts...)}
	default:
		return turn{role: i.Role, parts: parts}
	}
}

func (s *Server) planResponse(r *http.Request, req *responsesRequest) (*plan, *apiError) {
	model, err := s.checkModel(req.Model)
	if err != nil {
		return nil, err
	}
	if req.PreviousResponseID != nil {
		return nil, &apiError{
			status: http.StatusNotFound, kind: "NotFoundError", param: "previous_response_id",
			message: "Response with id '" + *req.PreviousResponseID + "' not found.",
		}
	}
	if req.Background {
		return nil, badRequest("background can only be used when `store` is true and the response store is enabled", "background")
	}
	p := &plan{id: "resp_" + s.requestID(r), model: model, n: 1, stream: req.Stream, rank: -1}
	if req.CacheSalt != nil {
		p.salt = *req.CacheSalt
	}
	if p.maxTokens, err = positive("max_output_tokens", req.MaxOutputTokens); err != nil {
		return nil, err
	}
	c, err := req.conversation()
	if err != nil {
		return nil, err
	}
	p.prompts = [][]enginesim.Token{c.render()}
	return p, nil
}

func (s *Server) handleResponses(w http.ResponseWriter, r *http.Request) *apiError {
	var req responsesRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	p, err := s.planResponse(r, &req)
	if err != nil {
		return err
	}
	return s.answer(w, r, p, s.streamResponse, func(gen *generation, cached int) any { return finishedResponse(gen, cached) })
}

// response is a response object.
type response struct {
	ID         string              `json:"id"`
	Object     string              `json:"object"`
	CreatedAt  int64               `json:"created_at"`
	Model      string              `json:"model"`
	Status     string              `json:"status"`
	Incomplete *incompleteDetails  `json:"incomplete_details"`
	Error      *errorDetail        `json:"error"`
	Output     []responseItem      `json:"output"`
	ToolChoice string              `json:"tool_choice"`
	Tools      []json.RawMessage   `json:"tools"`
	Parallel   bool                `json:"parallel_tool_calls"`
	Usage      *responsesUsage     `json:"usage"`
	Metadata   map[string]struct{} `json:"metadata"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responseItem struct {
	ID      string            `json:"id"`
	Type    string            `json:"type"`
	Role    string            `json:"role"`
	Status  string            `json:"status"`
	Content []responseContent `json:"content"`
}

type responseContent struct {
	Type        string   `json:"type"`
	Text        string   `json:"text"`
	Annotations []string `json:"annotations"`
}

func newResponse(gen *generation) *response {
	return &response{
		ID: gen.id, Object: "response", CreatedAt: gen.created, Model: gen.model, Status: "in_progress",
		Output: []responseItem{}, ToolChoice: "auto", Tools: []json.RawMessage{}, Parallel: true,
		Metadata: map[string]struct{}{},
	}
}

// finishedResponse returns the response of a generation that has ended.
func finishedResponse(gen *generation, cached int) *response {
	resp := newResponse(gen)
	c := gen.choices[0]
	resp.Status = "completed"
	if c.request.Finish == enginesim.FinishLength {
		resp.Status, resp.Incomplete = "incomplete", &incompleteDetails{Reason: "max_output_tokens"}
	}
	resp.Output = []responseItem{messageItem(gen, "completed", c.text(0, len(c.pieces)))}
	resp.Usage = newResponsesUsage(gen.promptTokens(), gen.completionTokens(), cached)
	return resp
}

func messageItem(gen *generation, status string, text ...string) responseItem {
	item := responseItem{
		ID: "msg_" + gen.id, Type: "message", Role: "assistant", Status: status, Content: []responseContent{},
	}
	for _, t := range text {
		item.Content = append(item.Content, outputText(t))
	}
	return item
}

func outputText(text string) responseContent {
	return responseContent{Type: "output_text", Text: text, Annotations: []string{}}
}

// responseEvent is an event of a streamed response. Which fields are there
// depends on its type.
type responseEvent struct {
	Type         string           `json:"type"`
	Sequence     int              `json:"sequence_number"`
	Response     *response        `json:"response,omitempty"`
	ItemID       string           `json:"item_id,omitempty"`
	OutputIndex  *int             `json:"output_index,omitempty"`
	ContentIndex *int             `json:"content_index,omitempty"`
	Item         *responseItem    `json:"item,omitempty"`
	Part         *responseContent `json:"part,omitempty"`
	Delta        *string          `json:"delta,omitempty"`
	Text         *string          `json:"text,omitempty"`
}

// responseStream numbers the events of a streamed response.
type responseStream struct {
	*eventStream
	itemID string
	next   int
	zero   int
}

func (r *responseStream) emit(kind string, event responseEvent) error {
	event.Type, event.Sequence = kind, r.next
	r.next++
	return r.send(kind, &event)
}

// part emits an event about the one content part of the one output item.
func (r *responseStream) part(kind string, event responseEvent) error {
	event.ItemID, event.OutputIndex, event.ContentIndex = r.itemID, &r.zero, &r.zero
	return r.emit(kind, event)
}

// emitAll sends events until one fails.
func emitAll(events ...func() error) error {
	for _, event := range events {
		if err := event(); err != nil {
			return err
		}
	}
	return nil
}

// streamResponse streams a response. Its first two events come before the first
// token, as vLLM's do.
func (s *Server) streamResponse(stream *eventStream, gen *generation) {
	out := &responseStream{eventStream: stream, itemID: "msg_" + gen.id}
	err := emitAll(
		func() error { return out.emit("response.created", responseEvent{Response: newResponse(gen)}) },
		func() error { return out.emit("response.in_progress", responseEvent{Response: newResponse(gen)}) },
	)
	if err != nil {
		s.fleet.abort(gen)
		stream.failResponse(out, gen, err)
		return
	}
	cached, err := s.follow(stream.ctx, gen, func(c *choice, from, to int, _ bool) error {
		if from == 0 {
			if err := out.open(gen); err != nil {
				return err
			}
		}
		text := c.text(from, to)
		return out.part("response.output_text.delta", responseEvent{Delta: &text})
	})
	if err == nil {
		err = out.close(gen, finishedResponse(gen, cached))
	}
	if err != nil {
		stream.failResponse(out, gen, err)
	}
}

// open announces the message and its text.
func (r *responseStream) open(gen *generation) error {
	item, empty := messageItem(gen, "in_progress"), outputText("")
	return emitAll(
		func() error {
			return r.emit("response.output_item.added", responseEvent{OutputIndex: &r.zero, Item: &item})
		},
		func() error { return r.part("response.content_part.added", responseEvent{Part: &empty}) },
	)
}

// close ends text, message and response.
func (r *responseStream) close(gen *generation, final *response) error {
	text := gen.choices[0].text(0, len(gen.choices[0].pieces))
	whole, item := outputText(text), final.Output[0]
	last := "response.completed"
	return emitAll(
		func() error { return r.part("response.output_text.done", responseEvent{Text: &text}) },
		func() error { return r.part("response.content_part.done", responseEvent{Part: &whole}) },
		func() error {
			return r.emit("response.output_item.done", responseEvent{OutputIndex: &r.zero, Item: &item})
		},
		func() error { return r.emit(last, responseEvent{Response: final}) },
	)
}

// failResponse ends a stream whose generation the server could not finish.
func (e *eventStream) failResponse(out *responseStream, gen *generation, err error) {
	if stopped := ended(err); stopped.status != statusClientGone {
		resp := newResponse(gen)
		resp.Status = "failed"
		detail := stopped.body().Error
		resp.Error = &detail
		_ = out.emit("response.failed", responseEvent{Response: resp}) // nobody is left to tell
	}
}
