package prompt

import (
	"github.com/warmroute/warmroute/kvindex"
)

// head writes what templates print before the messages, or what changes how they
// print everything.
func (w *writer) head(t *topLevel) {
	w.field("chat_template", t.template)
	w.field("chat_template_kwargs", t.templateArgs.filled())
	w.field("documents", t.documents.filled())
	w.field("reasoning_effort", effort(t))
	w.field("thinking", t.thinking.filled())
	if t.addSpecial.isTrue() {
		w.field("add_special_tokens", t.addSpecial)
	}
	w.field("truncate_prompt_tokens", t.truncate)
	w.field("truncation_side", t.truncateSide)
	w.field("mm_processor_kwargs", t.processorArgs.filled())
	w.field("media_io_kwargs", t.mediaArgs.filled())
	w.field("prompt", t.stored.filled())
	for tool := range t.tools.elements() {
		w.tool(tool)
	}
}

// tail writes what changes the end of the prompt, unless it is the default.
func (w *writer) tail(t *topLevel) {
	if !t.addPrompt.absent() && !t.addPrompt.isTrue() {
		w.field("add_generation_prompt", t.addPrompt)
	}
	if t.continueFinal.isTrue() {
		w.field("continue_final_message", t.continueFinal)
	}
}

// effort returns the reasoning effort, which each dialect keeps elsewhere.
func effort(t *topLevel) value {
	if !t.effort.absent() {
		return t.effort
	}
	if v := t.reasoning.field("effort"); !v.absent() {
		return v
	}
	return t.output.field("effort")
}

// tool writes one tool definition. Function tools are the same in every dialect:
// chat wraps them, responses do not, Anthropic calls their parameters
// input_schema. Other tools enter as they are.
func (w *writer) tool(t value) {
	w.frame(kvindex.FrameTool)
	def := t
	switch string(t.field("type").text()) {
	case "", "function":
		if f := t.field("function"); f.isObject() {
			def = f
		}
	case "custom":
	default:
		def = value{}
	}
	if !def.field("name").isText() {
		w.frame(kvindex.FrameValue)
		w.json = appendShared(w.json[:0], t)
		w.stream.Text(w.json)
		return
	}
	w.plain(def.field("name"))
	w.field("description", def.field("description"))
	w.field("parameters", def.field("parameters"))
	w.field("parameters", def.field("input_schema"))
	w.field("strict", def.field("strict"))
	for key, v := range def.members() {
		switch string(key) {
		case "type", "name", "description", "parameters", "input_schema", "strict", cacheControl:
			continue
		}
		if v.given().absent() {
			continue
		}
		w.frame(kvindex.FrameField)
		w.stream.Text(key)
		w.frame(kvindex.FrameValue)
		w.plain(v)
	}
}
