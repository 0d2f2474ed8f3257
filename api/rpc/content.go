package rpc

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/api/proxy"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// content is a prompt as the endpoint that it belongs to gets it.
type content struct {
	call        *proxy.Call
	body        []byte
	contentType string
	field       string // names the body in errors
}

// The endpoints of prompts that come without their request.
const (
	chatPath       = "/v1/chat/completions"
	completionPath = "/v1/completions"
)

// contentOf returns the request of a prompt: the original, or one that has nothing but
// the prompt in it, so that there is one reader of prompts.
func (s *Service) contentOf(p *v1.Prompt) (content, error) {
	switch c := p.GetContent().(type) {
	case *v1.Prompt_Original:
		path, _, _ := strings.Cut(c.Original.GetPath(), "?")
		call := s.calls[path]
		if call == nil {
			return content{}, invalid("prompt.original.path", "%q is none of the endpoints that are routed, such as %s", printed(path), chatPath)
		}
		return content{call, c.Original.GetBody(), c.Original.GetContentType(), "prompt.original.body"}, nil
	case *v1.Prompt_Text:
		return s.made(completionPath, "prompt.text", p, madeRequest{Prompt: c.Text})
	case *v1.Prompt_TokenIds:
		return s.made(completionPath, "prompt.token_ids", p, madeRequest{Prompt: slices.Concat([]uint32{}, c.TokenIds.GetIds())})
	case *v1.Prompt_Conversation:
		messages := make([]madeMessage, 0, len(c.Conversation.GetMessages()))
		for _, m := range c.Conversation.GetMessages() {
			messages = append(messages, madeMessage{m.GetRole(), m.GetContent()})
		}
		return s.made(chatPath, "prompt.conversation", p, madeRequest{Messages: messages})
	}
	return content{}, invalid("prompt", "is missing: give original, text, conversation or token_ids")
}

// madeRequest is the body of a request that is made of a prompt.
type madeRequest struct {
	Model     string        `json:"model"`
	Prompt    any           `json:"prompt,omitempty"`
	Messages  []madeMessage `json:"messages,omitempty"`
	N         uint32        `json:"n,omitempty"`
	Stream    bool          `json:"stream,omitempty"`
	CacheSalt string        `json:"cache_salt,omitempty"`
	CacheKey  string        `json:"prompt_cache_key,omitempty"`
}

type madeMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func (s *Service) made(path, field string, p *v1.Prompt, body madeRequest) (content, error) {
	call := s.calls[path]
	switch {
	case call == nil:
		return content{}, invalid(field, "%s is not routed here", path)
	case p.GetModel() == "":
		return content{}, invalid("prompt.model", "is missing: name one of those that /v1/models lists")
	case p.GetN() > prompt.MaxN:
		return content{}, invalid("prompt.n", "%d is not in 1..%d", p.GetN(), prompt.MaxN)
	}
	body.Model, body.N, body.Stream = p.GetModel(), p.GetN(), p.GetStream()
	body.CacheSalt, body.CacheKey = p.GetCacheSalt(), p.GetPromptCacheKey()
	text, err := json.Marshal(body)
	if err != nil { // these values always have a JSON form
		return content{}, invalid(field, "cannot be written as JSON")
	}
	return content{call: call, body: text, field: field}, nil
}
