package server

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// mediaTokens is how many tokens an image or another medium takes.
const mediaTokens = 256

// billingHeader begins system text that vLLM leaves out of the prompt: a coding
// agent sends it first, and it changes with every request.
const billingHeader = "x-anthropic-billing-header"

// conversation is what chat, responses and messages have in common: what the
// chat template is given.
type conversation struct {
	options  []json.RawMessage // template arguments, printed before all else
	tools    json.RawMessage
	system   []string
	turns    []turn
	generate bool // ends with the head of an assistant turn
	open     bool // the last turn is to be continued
}

// turn is one message.
type turn struct {
	role  string
	name  string
	parts []part
}

// part is one piece of a message: text, a medium, or a value printed as JSON.
type part struct {
	text  string
	media string
	value json.RawMessage
}

// marker tokens of the chat template.
var (
	beginText   = enginesim.Special("begin of text")
	beginTurn   = enginesim.Special("begin of turn")
	beginBody   = enginesim.Special("begin of body")
	endTurn     = enginesim.Special("end of turn")
	beginTools  = enginesim.Special("begin of tools")
	beginOption = enginesim.Special("begin of option")
	beginMedia  = enginesim.Special("begin of media")
)

// render returns the tokens of a conversation: options, then tools and system
// text in one system turn, then the messages, then the head of the answer.
func (c *conversation) render() []enginesim.Token {
	tokens := []enginesim.Token{beginText}
	for _, option := range c.options {
		tokens = appendJSON(append(tokens, beginOption), option)
	}
	if len(c.tools) > 0 || len(c.system) > 0 {
		tokens = append(tokens, beginTurn, enginesim.Special("system"), beginBody)
		if len(c.tools) > 0 {
			tokens = appendJSON(append(tokens, beginTools), c.tools)
		}
		tokens = enginesim.Tokenize(tokens, strings.Join(c.system, "\n"))
		tokens = append(tokens, endTurn)
	}
	for i, t := range c.turns {
		tokens = append(tokens, beginTurn, enginesim.Special(t.role))
		tokens = enginesim.Tokenize(tokens, t.name)
		tokens = append(tokens, beginBody)
		tokens = appendParts(tokens, t.parts)
		if !c.open || i < len(c.turns)-1 {
			tokens = append(tokens, endTurn)
		}
	}
	if c.generate && !c.open {
		tokens = append(tokens, beginTurn, enginesim.Special("assistant"), beginBody)
	}
	return tokens
}

// appendParts renders the parts of a message. Neighbouring texts are one text.
func appendParts(tokens []enginesim.Token, parts []part) []enginesim.Token {
	var text []string
	flush := func() {
		tokens = enginesim.Tokenize(tokens, strings.Join(text, "\n"))
		text = text[:0]
	}
	for _, p := range parts {
		switch {
		case p.media != "":
			flush()
			for i := range mediaTokens - 1 {
				tokens = append(tokens, enginesim.Special(strconv.Itoa(i)+p.media))
			}
			tokens = append(tokens, beginMedia)
		case p.value != nil:
			flush()
			tokens = appendJSON(tokens, p.value)
		default:
			text = append(text, p.text)
		}
	}
	flush()
	return tokens
}

// appendJSON renders a value as a template prints it: order of keys and
// spelling of numbers kept, spacing not.
func appendJSON(tokens []enginesim.Token, value json.RawMessage) []enginesim.Token {
	var buf bytes.Buffer
	if err := json.Compact(&buf, value); err != nil {
		return enginesim.Tokenize(tokens, string(value))
	}
	return enginesim.Tokenize(tokens, buf.String())
}

// addSystem adds system text, unless it is one that is left out.
func (c *conversation) addSystem(texts ...string) {
	for _, text := range texts {
		if text != "" && !strings.HasPrefix(text, billingHeader) {
			c.system = append(c.system, text)
		}
	}
}

// addOption adds a template argument if it is given.
func (c *conversation) addOption(value json.RawMessage) {
	if given(value) {
		c.options = append(c.options, value)
	}
}

// setTools sets the tools if there are any.
func (c *conversation) setTools(value json.RawMessage) {
	if given(value) && string(bytes.TrimSpace(value)) != "[]" {
		c.tools = value
	}
}

// given reports whether an optional JSON value is present and not null.
func given(value json.RawMessage) bool {
	return len(value) > 0 && string(value) != "null"
}

// content parses message content of any of the dialects: a string, null, or a
// list of parts.
func content(value json.RawMessage) ([]part, *apiError) {
	if !given(value) {
		return nil, nil
	}
	if value[0] == '"' {
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return nil, invalidBody(err.Error())
		}
		return []part{{text: text}}, nil
	}
	var blocks []contentBlock
	if err := json.Unmarshal(value, &blocks); err != nil {
		return nil, invalidBody("content must be a string or a list of parts: " + err.Error())
	}
	parts := make([]part, 0, len(blocks))
	for _, b := range blocks {
		parts = append(parts, b.part())
	}
	return parts, nil
}

// contentBlock is one part of a message in any dialect.
type contentBlock struct {
	kind string
	text string
	raw  json.RawMessage
}

// UnmarshalJSON keeps the whole block beside the fields that matter.
func (b *contentBlock) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		b.kind = "text"
		return json.Unmarshal(data, &b.text)
	}
	var fields struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Refusal  string `json:"refusal"`
		Thinking string `json:"thinking"`
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	b.kind = fields.Type
	b.text = fields.Text + fields.Refusal + fields.Thinking
	b.raw = append(json.RawMessage(nil), data...)
	return nil
}

func (b *contentBlock) part() part {
	switch b.kind {
	case "", "text", "input_text", "output_text", "refusal", "thinking", "reasoning_text", "summary_text":
		return part{text: b.text}
	case "image_url", "input_image", "image", "image_embeds", "input_audio", "audio_url", "video_url", "input_file":
		return part{media: string(b.raw)}
	default:
		return part{value: b.raw}
	}
}

// texts returns the texts of parts.
func texts(parts []part) []string {
	var out []string
	for _, p := range parts {
		if p.media == "" && p.value == nil {
			out = append(out, p.text)
		}
	}
	return out
}
