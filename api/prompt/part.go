package prompt

// part writes one part of a message's content. Parts the writer does not know
// enter as canonical JSON.
func (w *writer) part(p value, system, alone bool) {
	if p.isText() {
		w.text(p.text(), system, alone)
		return
	}
	switch string(p.field("type").text()) {
	case "":
		w.untyped(p, system, alone)
	case "text", "input_text", "output_text", "summary_text", "reasoning_text":
		w.textPart(p, "text", system, alone)
	case "refusal":
		w.textPart(p, "refusal", system, alone)
	case "thinking":
		if v := p.field("thinking"); !v.absent() {
			w.reasoning(v)
			return
		}
		w.structured(p)
	case "tool_use", "server_tool_use":
		w.call(p.field("name"), p.field("input"), p.field("id"))
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
func (w *writer) untyped(p value, system, alone bool) {
	switch {
	case p.field("text").isText():
		w.textPart(p, "text", system, alone)
	case p.field("refusal").isText():
		w.textPart(p, "refusal", system, alone)
	case !held(p).absent():
		w.media(p)
	default:
		w.structured(p)
	}
}

func (w *writer) textPart(p value, key string, system, alone bool) {
	if v := p.field(key); v.isText() {
		w.text(v.text(), system, alone)
		return
	}
	w.structured(p)
}

// toolResult writes the result of a tool as the Anthropic dialect has it, inside
// the user's content.
func (w *writer) toolResult(p value) {
	w.result(p.field("tool_use_id"))
	if v := p.field("is_error"); v.isTrue() {
		w.field("is_error", v)
	}
	w.content(p.field("content"), false)
}

// media writes a part that the stream knows only by the hash of its content, of
// its URL, or of the name that the client gave its content.
func (w *writer) media(p value) {
	w.binary = true
	if id := p.field("uuid"); id.isText() {
		w.stream.Binary(id.text())
		return
	}
	v := held(p)
	if v.isObject() {
		for _, key := range [...]string{"url", "data", "file_data", "file_url", "file_id", "text"} {
			if inner := v.field(key); inner.isText() {
				w.stream.Binary(inner.text())
				return
			}
		}
	}
	if v.absent() {
		w.json = appendShared(w.json[:0], p)
		w.stream.Binary(w.json)
		return
	}
	w.stream.Binary(w.bytes(v))
}

// held returns what holds the content of a binary part.
func held(p value) value {
	for _, key := range [...]string{
		"image_url", "input_audio", "audio_url", "video_url", "source", "file",
		"image_embeds", "audio_embeds", "prompt_embeds",
		"file_data", "file_url", "file_id", "image", "audio", "video", "data",
	} {
		if v := p.field(key); !v.absent() {
			return v
		}
	}
	return value{}
}
