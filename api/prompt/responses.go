package prompt

import (
	"github.com/valyala/fastjson"

	"github.com/warmroute/warmroute/kvindex"
)

// input writes the input of a response: a text, which is one message of the user,
// or a list of items.
func (w *writer) input(v *fastjson.Value) {
	switch {
	case v == nil:
	case v.Type() == fastjson.TypeArray:
		for _, item := range v.GetArray() {
			w.item(item)
		}
	default:
		w.open(roleUser)
		w.content(v, false)
	}
}

// item writes one item of a response's input: a message, or what the model or a
// tool did in an earlier turn.
func (w *writer) item(v *fastjson.Value) {
	if isString(v) {
		w.open(roleUser)
		w.content(v, false)
		return
	}
	switch string(text(field(v, "type"))) {
	case "", "message":
		w.message(v)
	case "function_call":
		w.open(roleAssistant)
		w.call(field(v, "name"), field(v, "arguments"), field(v, "call_id"))
	case "custom_tool_call":
		w.open(roleAssistant)
		w.call(field(v, "name"), field(v, "input"), field(v, "call_id"))
	case "function_call_output", "custom_tool_call_output":
		w.open(roleTool)
		w.result(field(v, "call_id"))
		w.content(field(v, "output"), false)
	case "reasoning":
		w.thoughts(v)
	default:
		w.frame(kvindex.FrameMessage)
		w.structured(v)
	}
}

// thoughts writes a reasoning item: its content, else its summary, else its
// encrypted form.
func (w *writer) thoughts(v *fastjson.Value) {
	w.open(roleAssistant)
	for _, key := range [...]string{"content", "summary"} {
		list := array(field(v, key))
		for _, p := range list {
			if t := field(p, "text"); t != nil {
				w.reasoning(t)
			} else {
				w.structured(p)
			}
		}
		if len(list) > 0 {
			return
		}
	}
	w.reasoning(field(v, "encrypted_content"))
}
