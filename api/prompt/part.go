package prompt

import "github.com/valyala/fastjson"

// part writes one part of a message's content. Parts the writer does not know
// enter as canonical JSON.
func (w *writer) part(p *fastjson.Value, system, alone bool) {
	if isString(p) {
		w.text(p.GetStringBytes(), system, alone)
		return
	}
	switch string(text(field(p, "type"))) {
	case "":
		w.untyped(p, system, alone)
	case "text", "input_text", "output_text", "summary_text", "reasoning_text":
		w.textPart(p, "text", system, alone)
	case "refusal":
		w.textPart(p, "refusal", system, alone)
	case "thinking":
		if v := field(p, "thinking"); v != nil {
			w.reasoning(v)
			return
		}
		w.structured(p)
	case "tool_use", "server_tool_use":
		w.call(field(p, "name"), field(p, "input"), field(p, "id"))
	case "tool_result":
		w.toolResult(p)
	case "image_url", "input_image", "image", "image_embeds",
		"input_audio", "audio_url", "audio", "audio_embeds",
		"video_url", "input_video", "video", "prompt_embeds",
		"input_file", "file", "document":
		w.media(p)
	default:
		w.structured(p)
	}
}

// untyped writes a part without a type by what it holds, as engines do.
func (w *writer) untyped(p *fastjson.Value, system, alone bool) {
	switch {
	case isString(field(p, "text")):
		w.textPart(p, "text", system, alone)
	case isString(field(p, "refusal")):
		w.textPart(p, "refusal", system, alone)
	case held(p) != nil:
		w.media(p)
	default:
		w.structured(p)
	}
}

func (w *writer) textPart(p *fastjson.Value, key string, system, alone bool) {
	if v := field(p, key); isString(v) {
		w.text(v.GetStringBytes(), system, alone)
		return
	}
	w.structured(p)
}

// toolResult writes the result of a tool as the Anthropic dialect has it, inside
// the user's content.
func (w *writer) toolResult(p *fastjson.Value) {
	w.result(field(p, "tool_use_id"))
	if v := field(p, "is_error"); isTrue(v) {
		w.field("is_error", v)
	}
	w.content(field(p, "content"), false)
}

// media writes a part that the stream knows only by the hash of its content, of
// its URL, or of the name that the client gave its content.
func (w *writer) media(p *fastjson.Value) {
	w.binary = true
	if id := field(p, "uuid"); isString(id) {
		w.stream.Binary(id.GetStringBytes())
		return
	}
	v := held(p)
	if isObject(v) {
		for _, key := range [...]string{"url", "data", "file_data", "file_url", "file_id", "text"} {
			if inner := field(v, key); isString(inner) {
				w.stream.Binary(inner.GetStringBytes())
				return
			}
		}
	}
	if v == nil {
		w.json = appendShared(w.json[:0], p)
		w.stream.Binary(w.json)
		return
	}
	w.stream.Binary(w.bytes(v))
}

// held returns what holds the content of a binary part.
func held(p *fastjson.Value) *fastjson.Value {
	for _, key := range [...]string{
		"image_url", "input_audio", "audio_url", "video_url", "source", "file",
		"image_embeds", "audio_embeds", "prompt_embeds",
		"file_data", "file_url", "file_id", "image", "audio", "video", "data",
	} {
		if v := field(p, key); v != nil {
			return v
		}
	}
	return nil
}
