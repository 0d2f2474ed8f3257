package prompt

import (
	"bytes"
	"math"

	"github.com/warmroute/warmroute/kvindex"
)

// completion writes the prompt of a text completion, read in place: prompts of
// token ids would take twelve bytes an id in a document.
func (w *writer) completion(e *envelope) {
	if len(e.addSpecial) > 0 && e.addSpecial[0] == 'f' {
		w.rawField("add_special_tokens", e.addSpecial)
	}
	if !null(e.truncate) {
		w.rawField("truncate_prompt_tokens", e.truncate)
	}
	if !null(e.embeds) {
		w.binary = true
		first, _ := firstOf(e.embeds)
		w.stream.Binary(w.decoded(first))
	}
	w.prompt(e.source())
}

func (w *writer) rawField(name string, raw []byte) {
	w.frame(kvindex.FrameField)
	w.name(name)
	w.frame(kvindex.FrameValue)
	w.stream.Text(w.decoded(raw))
}

// decoded returns the text of a raw string, valid until the next call, and any
// other raw value as it is.
func (w *writer) decoded(raw []byte) []byte {
	if !isText(raw) {
		return raw
	}
	raw = quoted(raw)
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	w.json = unescape(w.json[:0], raw)
	return w.json
}

// prompt writes a raw prompt: text, token ids, or a list of either, of which the
// first decides.
func (w *writer) prompt(raw []byte) {
	switch {
	case null(raw):
	case isText(raw):
		w.text(w.decoded(raw), false, true)
	case raw[0] == '[':
		first, batch := firstOf(raw)
		if batch {
			if first[0] == '[' {
				w.tokens(first)
				return
			}
			w.text(w.decoded(first), false, true)
			return
		}
		w.tokens(raw)
	default:
		w.frame(kvindex.FrameValue)
		w.stream.MessageText(raw)
	}
}

// firstOf returns the first prompt of the raw value list, and whether list is a
// batch at all: a list of token ids is one prompt, and so is anything but a list.
func firstOf(list []byte) (first []byte, batch bool) {
	if len(list) == 0 || list[0] != '[' {
		return list, false
	}
	s := newScanner(list, unlimited)
	start := s.space(1)
	switch list[start] {
	case '"', '[', '{':
		return list[start:s.value(start, 1)], true
	default:
		return list, false
	}
}

// countPrompts returns how many prompts the raw value has.
func countPrompts(raw []byte) int {
	if null(raw) {
		return 1
	}
	if _, batch := firstOf(raw); !batch {
		return 1
	}
	s := newScanner(raw, unlimited)
	prompts := 0
	for i := s.space(1); i > 0 && raw[i] != ']'; {
		prompts++
		if i = s.space(s.value(i, 1)); raw[i] == ',' {
			i = s.space(i + 1)
		}
	}
	return prompts
}

// tokens writes the raw array of token ids. What is not an id stands as it is.
func (w *writer) tokens(raw []byte) {
	w.frame(kvindex.FrameTokens)
	s := newScanner(raw, unlimited)
	for i := s.space(1); raw[i] != ']'; {
		id, end := tokenID(raw, i)
		if end > i && (raw[end] == ',' || raw[end] == ']' || raw[end] <= ' ') {
			w.stream.Token(id)
		} else {
			end = s.value(i, 1)
			w.frame(kvindex.FrameValue)
			w.stream.MessageText(raw[i:end])
			w.frame(kvindex.FrameTokens)
		}
		if i = s.space(end); raw[i] == ',' {
			i = s.space(i + 1)
		}
	}
}

// tokenID reads the digits at raw[i:] as a token id and returns the offset behind
// them, i if there are none or the number is too large for one.
func tokenID(raw []byte, i int) (id uint32, end int) {
	n := uint64(0)
	for end = i; raw[end]-'0' <= 9; end++ {
		if n = n*10 + uint64(raw[end]-'0'); n > math.MaxUint32 {
			return 0, i
		}
	}
	return uint32(n), end
}
