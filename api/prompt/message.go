package prompt

import (
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
func (w *writer) system(v value) {
	if !speaks(v) {
		return
	}
	w.open(roleSystem)
	w.content(v, true)
}

// speaks reports whether system content has anything that is not left out.
func speaks(v value) bool {
	if v.absent() {
		return false
	}
	if v.isArray() {
		for part := range v.elements() {
			if speaks(part) {
				return true
			}
		}
		return false
	}
	t := v
	if v.isObject() && v.field("text").isText() {
		t = v.field("text")
	}
	if !t.isText() {
		return true
	}
	s := t.text()
	return len(s) > 0 && !isBilling(s)
}

// message writes one message of a chat or of the Anthropic dialect.
func (w *writer) message(m value) {
	if !m.isObject() {
		w.frame(kvindex.FrameMessage)
		w.structured(m)
		return
	}
	var p turn
	p.read(m)
	w.frame(kvindex.FrameMessage)
	w.plain(p.role)
	w.field("name", p.name)
	if !p.result.absent() {
		w.result(p.result)
	}
	for tool := range p.tools.elements() {
		w.tool(tool)
	}
	if p.reasoning.absent() {
		p.reasoning = p.reasoningContent
	}
	w.reasoning(p.reasoning)
	w.content(p.content, isSystem(p.role))
	for call := range p.calls.elements() {
		w.toolCall(call)
	}
	if !p.call.absent() {
		w.call(p.call.field("name"), p.call.field("arguments"), value{})
	}
}

// turn holds the members of a message, absent where they are null.
type turn struct {
	role, name, content         value
	reasoning, reasoningContent value
	tools, result               value
	calls, call                 value
}

func (t *turn) read(m value) {
	for key, v := range m.members() {
		v = v.given()
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
	}
}

func isSystem(role value) bool {
	switch string(role.text()) {
	case roleSystem, "developer":
		return true
	default:
		return false
	}
}

// reasoning writes the thoughts of an assistant's turn.
func (w *writer) reasoning(v value) {
	if v.absent() || v.isText() && len(v.text()) == 0 {
		return
	}
	w.frame(kvindex.FrameField)
	w.name("reasoning")
	w.frame(kvindex.FrameValue)
	w.spoken(v)
}

// toolCall writes a call as chat messages have it.
func (w *writer) toolCall(c value) {
	if f := c.field("function"); f.isObject() {
		w.call(f.field("name"), f.field("arguments"), c.field("id"))
		return
	}
	if f := c.field("custom"); f.isObject() {
		w.call(f.field("name"), f.field("input"), c.field("id"))
		return
	}
	w.frame(kvindex.FrameCall)
	w.structured(c)
}

// call writes a call of a tool. Its arguments are printed as they are given.
func (w *writer) call(name, args, id value) {
	w.frame(kvindex.FrameCall)
	w.plain(name)
	w.frame(kvindex.FrameValue)
	w.spoken(args)
	w.field("id", id)
}

// result announces that the text that follows is the result of the call id.
func (w *writer) result(id value) {
	w.frame(kvindex.FrameCall)
	w.field("id", id)
}
