package prompt

import (
	"bytes"
	"errors"
	"math"
)

// Budget bounds the memory that reading bodies takes at one time.
type Budget interface {
	// Take asks for so many bytes more, which are needed until [Request.Trim]. Without
	// them [ParseWithin] gives up.
	Take(bytes int64) bool
}

// ErrNoRoom says that a [Budget] has no room for what reading a body takes.
var ErrNoRoom = errors.New("no room to read a request body")

// Parse reads body, which must not change until Trim or Release.
//
// The error is always an [*Error]: the body is not a JSON object, is too deep or
// too complex (see [MaxDepth] and [MaxValues]), or model is not a string. A model of
// null is no model. [Opaque] and [Raw] bodies are never refused.
func Parse(kind Kind, body []byte) (*Request, error) { return ParseWithin(kind, body, nil) }

// ParseWithin is [Parse] that asks budget for what a body of very many values takes to
// read. The error may also be [ErrNoRoom]. A budget of nil is without bounds.
func ParseWithin(kind Kind, body []byte, budget Budget) (*Request, error) {
	r := requests.Get().(*Request)
	r.pooled = false
	r.work = workspaces.Get().(*workspace)
	r.w = &r.work.w
	r.kind, r.body, r.n = kind, body, 1
	if err := r.read(budget); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// read fills r from its body. It returns an error value rather than an *Error so
// that nothing wrong is a nil interface.
func (r *Request) read(budget Budget) error {
	r.shape = r.kind
	if r.kind == Opaque {
		return nil
	}
	s := newScanner(r.body, unlimited)
	if r.structured() {
		if uint64(len(r.body)) > math.MaxUint32 {
			return &Error{Message: "request body is too large: more than 4 GiB", Code: CodeTooComplex}
		}
		s.left, s.doc, s.budget = MaxValues, r.work.open(r.body), budget
	}
	if !r.env.read(&s) {
		switch {
		case r.kind == Raw:
			r.env = envelope{}
			return nil
		case s.why == noRoom:
			return ErrNoRoom
		}
		return s.err()
	}
	if err := r.readModel(); err != nil && r.kind != Raw {
		return err
	}
	r.readOptions()
	if r.structured() {
		r.top.read(s.doc.root())
		r.readTop()
	}
	return nil
}

// structured reports whether the prompt of this kind of body is more than one value: it
// becomes a document.
func (r *Request) structured() bool {
	switch r.kind {
	case Chat, Responses, Messages:
		return true
	default:
		return false
	}
}

func (r *Request) readModel() error {
	raw := r.env.model
	if null(raw) {
		return nil
	}
	if !isText(raw) {
		return &Error{Message: "must be a string, the name of a model", Param: "model", Code: CodeInvalidType}
	}
	r.model = r.name(raw)
	return nil
}

// name returns the text of the raw string, empty if raw is none.
func (r *Request) name(raw []byte) string {
	if !isText(raw) {
		return ""
	}
	raw = quoted(raw)
	if bytes.IndexByte(raw, '\\') >= 0 {
		r.w.json = unescape(r.w.json[:0], raw)
		raw = r.w.json
	}
	return r.names.text(raw)
}

// readOptions reads everything that the envelope tells.
func (r *Request) readOptions() {
	e := &r.env
	r.salt, r.cacheKey, r.previous = r.name(e.salt), r.name(e.cacheKey), r.name(e.previous)
	r.streaming, r.streamUnset = truth(e.stream), null(e.stream)
	if r.kind == Raw {
		r.shape = e.shape()
	}
	if r.kind == Embeddings {
		return
	}
	r.usage = e.usageAsked()
	r.noEvidence = e.noEvidence()
	prompts := 1
	if r.kind == Completions {
		prompts = countPrompts(e.source())
		if !null(e.embeds) {
			prompts += countPrompts(e.embeds)
			if e.source() == nil {
				prompts--
			}
		}
	}
	r.readN(max(count(e.n), count(e.bestOf)), prompts)
}

// readN sets how many sequences n answers to each of so many prompts are.
func (r *Request) readN(n, prompts int) {
	r.n = min(n*max(min(prompts, MaxN), 1), MaxN)
	r.noEvidence = r.noEvidence || r.n > 1
}

// readTop reads what only the document tells: a batch of conversations, and tools
// that the engine runs itself. A stored prompt is an option of responses only.
func (r *Request) readTop() {
	if r.kind != Responses {
		r.top.stored = value{}
	}
	switch r.kind {
	case Chat:
		if first, conversations := r.top.messages.batch(); first.isArray() {
			r.top.messages = first
			r.readN(r.n, conversations)
		}
	case Responses:
		for tool := range r.top.tools.elements() {
			r.noEvidence = r.noEvidence || builtin(tool)
		}
	}
}

// builtin reports whether an engine runs the tool itself, in a loop whose numbers
// are sums over its turns.
func builtin(tool value) bool {
	switch string(tool.field("type").text()) {
	case "", "function", "custom":
		return false
	default:
		return true
	}
}
