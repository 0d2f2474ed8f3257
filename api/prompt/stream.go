package prompt

import (
	"bytes"

	"github.com/warmroute/warmroute/kvindex"
)

// writer writes the key stream of one prompt. What it writes is the same for all
// spellings of the same request, and has the same frames for the same text
// whichever dialect it came in.
type writer struct {
	stream kvindex.Stream
	json   []byte // scratch for canonical JSON and decoded strings
	binary bool   // a binary part was met
}

func (w *writer) frame(f kvindex.Frame) { w.stream.Frame(f) }

// name writes a name of the writer's own.
func (w *writer) name(s string) { w.stream.Text([]byte(s)) }

// plain writes a value that does not count against PrefixLength: text as it is,
// anything else as canonical JSON, an absent value as nothing.
func (w *writer) plain(v value) { w.stream.Text(w.bytes(v)) }

// spoken writes a value that counts as message text.
func (w *writer) spoken(v value) { w.stream.MessageText(w.bytes(v)) }

// bytes returns what stands for v in the stream, valid until the next call.
func (w *writer) bytes(v value) []byte {
	if v.absent() {
		return nil
	}
	if v.isText() {
		return v.text()
	}
	w.json = appendJSON(w.json[:0], v)
	return w.json
}

// field writes a named value, nothing for an absent one.
func (w *writer) field(name string, v value) {
	if v.absent() {
		return
	}
	w.frame(kvindex.FrameField)
	w.name(name)
	w.frame(kvindex.FrameValue)
	w.plain(v)
}

// structured writes a value the writer has no frames for, as canonical JSON
// without what only marks the client's caching wishes.
func (w *writer) structured(v value) {
	w.frame(kvindex.FrameValue)
	w.json = appendShared(w.json[:0], v)
	w.stream.MessageText(w.json)
}

// billingHeader starts a system text that agents change with every request and
// engines leave out.
var billingHeader = []byte("x-anthropic-billing-header")

func isBilling(t []byte) bool { return bytes.HasPrefix(t, billingHeader) }

// text writes one text of a message. The empty text that is all of a message's
// content is the same as no content.
func (w *writer) text(t []byte, system, alone bool) {
	if system && isBilling(t) || alone && len(t) == 0 {
		return
	}
	w.frame(kvindex.FrameText)
	w.stream.MessageText(t)
}

// content writes the content of a message: text, one part, or a list of parts.
func (w *writer) content(v value, system bool) {
	switch {
	case v.absent():
	case v.isText():
		w.text(v.text(), system, true)
	case v.isArray():
		alone := v.alone()
		for p := range v.elements() {
			w.part(p, system, alone)
		}
	default:
		w.part(v, system, true)
	}
}
