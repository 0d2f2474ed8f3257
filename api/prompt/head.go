package prompt

import (
	"github.com/valyala/fastjson"

	"github.com/warmroute/warmroute/kvindex"
)

// head writes what templates print before the messages, or what changes how they
// print everything.
func (w *writer) head(t *tree) {
	w.field("chat_template", t.template)
	w.field("chat_template_kwargs", filled(t.templateArgs))
	w.field("documents", filled(t.documents))
	w.field("reasoning_effort", effort(t))
	w.field("thinking", filled(t.thinking))
	if isTrue(t.addSpecial) {
		w.field("add_special_tokens", t.addSpecial)
	}
	w.field("truncate_prompt_tokens", t.truncate)
	w.field("truncation_side", t.truncateSide)
	w.field("mm_processor_kwargs", filled(t.processorArgs))
	w.field("media_io_kwargs", filled(t.mediaArgs))
	w.field("prompt", filled(t.stored))
	for _, tool := range array(t.tools) {
		w.tool(tool)
	}
}

// tail writes what changes the end of the prompt, unless it is the default.
func (w *writer) tail(t *tree) {
	if t.addPrompt != nil && !isTrue(t.addPrompt) {
		w.field("add_generation_prompt", t.addPrompt)
	}
	if isTrue(t.continueFinal) {
		w.field("continue_final_message", t.continueFinal)
	}
}

// effort returns the reasoning effort, which each dialect keeps elsewhere.
func effort(t *tree) *fastjson.Value {
	if t.effort != nil {
		return t.effort
	}
	if v := field(t.reasoning, "effort"); v != nil {
		return v
	}
	return field(t.output, "effort")
}

// filled returns v, nil if it is an empty list or object: templates do not tell
// them from none.
func filled(v *fastjson.Value) *fastjson.Value {
	if v == nil {
		return nil
	}
	switch v.Type() {
	case fastjson.TypeArray:
		if len(v.GetArray()) == 0 {
			return nil
		}
	case fastjson.TypeObject:
		if v.GetObject().Len() == 0 {
			return nil
		}
	default:
	}
	return v
}

// tool writes one tool definition. Function tools are the same in every dialect:
// chat wraps them, responses do not, Anthropic calls their parameters
// input_schema. Other tools enter as they are.
func (w *writer) tool(t *fastjson.Value) {
	w.frame(kvindex.FrameTool)
	def := t
	switch string(text(field(t, "type"))) {
	case "", "function":
		if f := field(t, "function"); isObject(f) {
			def = f
		}
	case "custom":
	default:
		def = nil
	}
	if !isString(field(def, "name")) {
		w.frame(kvindex.FrameValue)
		w.json = appendShared(w.json[:0], t)
		w.stream.Text(w.json)
		return
	}
	w.plain(field(def, "name"))
	w.field("description", field(def, "description"))
	w.field("parameters", field(def, "parameters"))
	w.field("parameters", field(def, "input_schema"))
	w.field("strict", field(def, "strict"))
	def.GetObject().Visit(func(key []byte, v *fastjson.Value) {
		switch string(key) {
		case "type", "name", "description", "parameters", "input_schema", "strict", cacheControl:
			return
		}
		if v.Type() == fastjson.TypeNull {
			return
		}
		w.frame(kvindex.FrameField)
		w.stream.Text(key)
		w.frame(kvindex.FrameValue)
		w.plain(v)
	})
}
