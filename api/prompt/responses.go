package prompt

import (
	"github.com/warmroute/warmroute/kvindex"
)

// input writes the input of a response: a text, which is one message of the user,
// or a list of items.
func (w *writer) input(v value) {
	switch {
	case v.absent():
	case v.isArray():
		for item := range v.elements() {
			w.item(item)
		}
	default:
		w.open(roleUser)
		w.content(v, false)
	}
}

// item writes one item of a response's input: a message, or what the model or a
// tool did in an earlier turn.
func (w *writer) item(v value) {
	if v.isText() {
		w.open(roleUser)
		w.content(v, false)
		return
	}
	switch string(v.field("type").text()) {
	case "", "message":
		w.message(v)
	case "function_call":
		w.open(roleAssistant)
		w.call(v.field("name"), v.field("arguments"), v.field("call_id"))
	case "custom_tool_call":
		w.open(roleAssistant)
		w.call(v.field("name"), v.field("input"), v.field("call_id"))
	case "function_call_output", "custom_tool_call_output":
		w.open(roleTool)
		w.result(v.field("call_id"))
		w.content(v.field("output"), false)
	case "reasoning":
		w.thoughts(v)
	default:
		w.frame(kvindex.FrameMessage)
		w.structured(v)
	}
}

// thoughts writes a reasoning item: its content, else its summary, else its
// encrypted form.
func (w *writer) thoughts(v value) {
	w.open(roleAssistant)
	for _, key := range [...]string{"content", "summary"} {
		list := v.field(key)
		for p := range list.elements() {
			if t := p.field("text"); !t.absent() {
				w.reasoning(t)
			} else {
				w.structured(p)
			}
		}
		if list.isArray() && !list.filled().absent() {
			return
		}
	}
	w.reasoning(v.field("encrypted_content"))
}
