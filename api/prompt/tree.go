package prompt

import "github.com/valyala/fastjson"

// tree holds the top-level values that need the tree, nil where they are absent or
// null.
type tree struct {
	template, templateArgs, documents   *fastjson.Value
	effort, reasoning, output, thinking *fastjson.Value
	addSpecial, truncate, truncateSide  *fastjson.Value
	processorArgs, mediaArgs, stored    *fastjson.Value
	tools, system, instructions         *fastjson.Value
	messages, input                     *fastjson.Value
	addPrompt, continueFinal            *fastjson.Value
}

func (t *tree) read(root *fastjson.Object) {
	root.Visit(func(key []byte, v *fastjson.Value) {
		if v.Type() == fastjson.TypeNull {
			v = nil
		}
		t.pick(key, v)
	})
}

func (t *tree) pick(key []byte, v *fastjson.Value) {
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

// The accessors below take nil, and give nil for an absent, null or other value.

// field returns the last value of key in the object v.
func field(v *fastjson.Value, key string) (found *fastjson.Value) {
	if v == nil || v.Type() != fastjson.TypeObject {
		return nil
	}
	v.GetObject().Visit(func(k []byte, member *fastjson.Value) {
		if string(k) == key {
			found = member
		}
	})
	if found != nil && found.Type() == fastjson.TypeNull {
		return nil
	}
	return found
}

// text returns the text of the string v, valid as long as the tree.
func text(v *fastjson.Value) []byte {
	if v == nil {
		return nil
	}
	return v.GetStringBytes()
}

func isString(v *fastjson.Value) bool { return v != nil && v.Type() == fastjson.TypeString }

func isObject(v *fastjson.Value) bool { return v != nil && v.Type() == fastjson.TypeObject }

func isTrue(v *fastjson.Value) bool { return v != nil && v.Type() == fastjson.TypeTrue }

// array returns the elements of the array v.
func array(v *fastjson.Value) []*fastjson.Value {
	if v == nil {
		return nil
	}
	return v.GetArray()
}
