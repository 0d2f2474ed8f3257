package prompt

import (
	"slices"

	"github.com/valyala/fastjson"

	"github.com/warmroute/warmroute/kvindex"
)

// The roles the writer gives to what dialects keep outside their messages.
const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// open announces a message of a role of the writer's own.
func (w *writer) open(role string) {
	w.frame(kvindex.FrameMessage)
	w.name(role)
}

// system writes the system text that a dialect keeps outside its messages, as the
// system message that engines make of it; nothing if none of it is left.
func (w *writer) system(v *fastjson.Value) {
	if !speaks(v) {
		return
	}
	w.open(roleSystem)
	w.content(v, true)
}

// speaks reports whether system content has anything that is not left out.
func speaks(v *fastjson.Value) bool {
	if v == nil {
		return false
	}
	if parts := array(v); v.Type() == fastjson.TypeArray {
		return slices.ContainsFunc(parts, speaks)
	}
	t := v
	if isObject(v) && isString(field(v, "text")) {
		t = field(v, "text")
	}
	if !isString(t) {
		return true
	}
	s := t.GetStringBytes()
	return len(s) > 0 && !isBilling(s)
}

// message writes one message of a chat or of the Anthropic dialect.
func (w *writer) message(m *fastjson.Value) {
	if !isObject(m) {
		w.frame(kvindex.FrameMessage)
		w.structured(m)
		return
	}
	var p turn
	p.read(m.GetObject())
	w.frame(kvindex.FrameMessage)
	w.plain(p.role)
	w.field("name", p.name)
	if p.result != nil {
		w.result(p.result)
	}
	for _, tool := range array(p.tools) {
		w.tool(tool)
	}
	if p.reasoning == nil {
		p.reasoning = p.reasoningContent
	}
	w.reasoning(p.reasoning)
	w.content(p.content, isSystem(p.role))
	for _, call := range array(p.calls) {
		w.toolCall(call)
	}
	if p.call != nil {
		w.call(field(p.call, "name"), field(p.call, "arguments"), nil)
	}
}

// turn holds the members of a message, nil where they are absent or null.
type turn struct {
	role, name, content         *fastjson.Value
	reasoning, reasoningContent *fastjson.Value
	tools, result               *fastjson.Value
	calls, call                 *fastjson.Value
}

func (t *turn) read(m *fastjson.Object) {
	m.Visit(func(key []byte, v *fastjson.Value) {
		if v.Type() == fastjson.TypeNull {
			v = nil
		}
		switch string(key) {
		case "role":
			t.role = v
		case "name":
			t.name = v
		case "content":
			t.content = v
		case "reasoning":
			t.reasoning = v
		case "reasoning_content":
			t.reasoningContent = v
		case "tools":
			t.tools = v
		case "tool_call_id":
			t.result = v
		case "tool_calls":
			t.calls = v
		case "function_call":
			t.call = v
		}
	})
}

func isSystem(role *fastjson.Value) bool {
	switch string(text(role)) {
	case roleSystem, "developer":
		return true
	default:
		return false
	}
}

// reasoning writes the thoughts of an assistant's turn.
func (w *writer) reasoning(v *fastjson.Value) {
	if v == nil || isString(v) && len(v.GetStringBytes()) == 0 {
		return
	}
	w.frame(kvindex.FrameField)
	w.name("reasoning")
	w.frame(kvindex.FrameValue)
	w.spoken(v)
}

// toolCall writes a call as chat messages have it.
func (w *writer) toolCall(c *fastjson.Value) {
	if f := field(c, "function"); isObject(f) {
		w.call(field(f, "name"), field(f, "arguments"), field(c, "id"))
		return
	}
	if f := field(c, "custom"); isObject(f) {
		w.call(field(f, "name"), field(f, "input"), field(c, "id"))
		return
	}
	w.frame(kvindex.FrameCall)
	w.structured(c)
}

// call writes a call of a tool. Its arguments are printed as they are given.
func (w *writer) call(name, args, id *fastjson.Value) {
	w.frame(kvindex.FrameCall)
	w.plain(name)
	w.frame(kvindex.FrameValue)
	w.spoken(args)
	w.field("id", id)
}

// result announces that the text that follows is the result of the call id.
func (w *writer) result(id *fastjson.Value) {
	w.frame(kvindex.FrameCall)
	w.field("id", id)
}
