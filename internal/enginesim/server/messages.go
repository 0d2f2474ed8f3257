package server

import (
	"encoding/json"
	"net/http"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// messagesRequest is what of a /v1/messages body matters here.
type messagesRequest struct {
	Model        string             `json:"model"`
	System       json.RawMessage    `json:"system"`
	Messages     []anthropicMessage `json:"messages"`
	Tools        json.RawMessage    `json:"tools"`
	OutputConfig json.RawMessage    `json:"output_config"`
	MaxTokens    *int               `json:"max_tokens"`
	Stream       bool               `json:"stream"`
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// conversation returns the chat that a messages request is turned into: tool
// results become messages of their own.
func (r *messagesRequest) conversation() (*conversation, *apiError) {
	if len(r.Messages) == 0 {
		return nil, invalidBody("messages: List should have at least 1 item")
	}
	c := &conversation{generate: true}
	c.addOption(r.OutputConfig)
	c.setTools(r.Tools)
	system, err := content(r.System)
	if err != nil {
		return nil, err
	}
	c.addSystem(texts(system)...)
	for _, m := range r.Messages {
		if !given(m.Content) || m.Content[0] == '"' {
			parts, err := content(m.Content)
			if err != nil {
				return nil, err
			}
			c.turns = append(c.turns, turn{role: m.Role, parts: parts})
			continue
		}
		if err := c.addBlocks(m); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// addBlocks adds a message that is a list of content blocks.
func (c *conversation) addBlocks(m anthropicMessage) *apiError {
	var blocks []json.RawMessage
	if err := json.Unmarshal(m.Content, &blocks); err != nil {
		return invalidBody("content must be a string or a list of blocks: " + err.Error())
	}
	own := turn{role: m.Role}
	for _, raw := range blocks {
		var b struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			return invalidBody("content block: " + err.Error())
		}
		if b.Type == "tool_result" {
			parts, err := content(b.Content)
			if err != nil {
				return err
			}
			c.turns = append(c.turns, turn{role: "tool", parts: parts})
			continue
		}
		var block contentBlock
		if err := json.Unmarshal(raw, &block); err != nil {
			return invalidBody("content block: " + err.Error())
		}
		own.parts = append(own.parts, block.part())
	}
	if len(own.parts) > 0 {
		c.turns = append(c.turns, own)
	}
	return nil
}

func (s *Server) planMessage(r *http.Request, req *messagesRequest) (*plan, *apiError) {
	model, err := s.checkModel(req.Model)
	if err != nil {
		return nil, err
	}
	p := &plan{id: "chatcmpl-" + s.requestID(r), model: model, n: 1, stream: req.Stream}
	if p.rank, err = s.rankOf(r); err != nil {
		return nil, err
	}
	if p.maxTokens, err = positive("max_tokens", req.MaxTokens); err != nil {
		return nil, err
	}
	c, err := req.conversation()
	if err != nil {
		return nil, err
	}
	p.prompts = [][]enginesim.Token{c.render()}
	return p, nil
}

func (s *Server) handleMessages(w http.ResponseWriter, r *http.Request) *apiError {
	var req messagesRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	p, err := s.planMessage(r, &req)
	if err != nil {
		return err
	}
	return s.answer(w, r, p, s.streamMessage, s.wholeMessage)
}

// wholeMessage is an answer that is not streamed.
func (s *Server) wholeMessage(gen *generation, cached int) any {
	msg := newMessage(gen)
	c := gen.choices[0]
	reason := stopReason(c)
	msg.Content = []textBlock{{Type: "text", Text: c.text(0, len(c.pieces))}}
	msg.StopReason = &reason
	msg.Usage = s.anthropicUsage(gen.promptTokens(), gen.completionTokens(), cached)
	return msg
}

// message is a message object.
type message struct {
	ID           string         `json:"id"`
	Type         string         `json:"type"`
	Role         string         `json:"role"`
	Content      []textBlock    `json:"content"`
	Model        string         `json:"model"`
	StopReason   *string        `json:"stop_reason"`
	StopSequence *string        `json:"stop_sequence"`
	Usage        anthropicUsage `json:"usage"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func newMessage(gen *generation) *message {
	return &message{
		ID: gen.id, Type: "message", Role: "assistant", Content: []textBlock{}, Model: gen.model,
		Usage: anthropicUsage{InputTokens: gen.promptTokens()},
	}
}

// stopReason returns why an answer ended, in the words of the dialect.
func stopReason(c *choice) string {
	if c.request.Finish == enginesim.FinishLength {
		return "max_tokens"
	}
	return "end_turn"
}

// messageEvent is an event of a streamed message. Which fields are there
// depends on its type.
type messageEvent struct {
	Type    string          `json:"type"`
	Message *message        `json:"message,omitempty"`
	Index   *int            `json:"index,omitempty"`
	Block   *textBlock      `json:"content_block,omitempty"`
	Delta   any             `json:"delta,omitempty"`
	Usage   *anthropicUsage `json:"usage,omitempty"`
}

type textDelta struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type stopDelta struct {
	StopReason   string  `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
}

// streamMessage streams a message. Nothing comes before the first token, and the
// cache fields of usage come only at the end.
func (s *Server) streamMessage(stream *eventStream, gen *generation) {
	index := 0
	emit := func(event messageEvent) error { return stream.send(event.Type, &event) }
	cached, err := s.follow(stream.ctx, gen, func(c *choice, from, to int, _ bool) error {
		if from == 0 {
			err := emitAll(
				func() error { return emit(messageEvent{Type: "message_start", Message: newMessage(gen)}) },
				func() error {
					return emit(messageEvent{Type: "content_block_start", Index: &index, Block: &textBlock{Type: "text"}})
				},
			)
			if err != nil {
				return err
			}
		}
		delta := textDelta{Type: "text_delta", Text: c.text(from, to)}
		return emit(messageEvent{Type: "content_block_delta", Index: &index, Delta: delta})
	})
	if err == nil {
		usage := s.anthropicUsage(gen.promptTokens(), gen.completionTokens(), cached)
		err = emitAll(
			func() error { return emit(messageEvent{Type: "content_block_stop", Index: &index}) },
			func() error {
				delta := stopDelta{StopReason: stopReason(gen.choices[0])}
				return emit(messageEvent{Type: "message_delta", Delta: delta, Usage: &usage})
			},
			func() error { return emit(messageEvent{Type: "message_stop"}) },
		)
	}
	if err != nil {
		stream.failMessage(err)
	}
}

// failMessage ends a stream whose generation the server could not finish.
func (e *eventStream) failMessage(err error) {
	if stopped := ended(err); stopped.status != statusClientGone {
		_ = e.send("error", anthropicErrorBody{ // nobody is left to tell
			Type:  "error",
			Error: anthropicErrorDetail{Type: "api_error", Message: stopped.message},
		})
	}
}

// handleCountTokens serves POST /v1/messages/count_tokens.
func (s *Server) handleCountTokens(w http.ResponseWriter, r *http.Request) {
	var req messagesRequest
	err := decode(w, r, &req)
	if err == nil {
		_, err = s.checkModel(req.Model)
	}
	var c *conversation
	if err == nil {
		c, err = req.conversation()
	}
	if err != nil {
		writeAnthropicError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]int{"input_tokens": len(c.render())})
}
