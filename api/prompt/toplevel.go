package prompt

// topLevel holds the members of a body that become part of the prompt, absent where they
// are null.
type topLevel struct {
	template, templateArgs, documents   value
	effort, reasoning, output, thinking value
	addSpecial, truncate, truncateSide  value
	processorArgs, mediaArgs, stored    value
	tools, system, instructions         value
	messages, input                     value
	addPrompt, continueFinal            value
}

func (t *topLevel) read(root value) {
	for key, v := range root.members() {
		t.pick(key, v.given())
	}
}

func (t *topLevel) pick(key []byte, v value) {
	switch string(key) {
	case "chat_template":
		t.template = v
	case "chat_template_kwargs":
		t.templateArgs = v
	case "documents":
		t.documents = v
	case "reasoning_effort":
		t.effort = v
	case "reasoning":
		t.reasoning = v
	case "output_config":
		t.output = v
	case "thinking":
		t.thinking = v
	case "add_special_tokens":
		t.addSpecial = v
	case "truncate_prompt_tokens":
		t.truncate = v
	case "truncation_side":
		t.truncateSide = v
	case "mm_processor_kwargs":
		t.processorArgs = v
	case "media_io_kwargs":
		t.mediaArgs = v
	case "prompt":
		t.stored = v
	case "tools":
		t.tools = v
	case "system":
		t.system = v
	case "instructions":
		t.instructions = v
	case "messages":
		t.messages = v
	case "input":
		t.input = v
	case "add_generation_prompt":
		t.addPrompt = v
	case "continue_final_message":
		t.continueFinal = v
	}
}
