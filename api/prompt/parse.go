package prompt

import (
	"bytes"
	"errors"

	"github.com/valyala/fastjson"
)

// Budget bounds the memory of all trees that exist at one time.
type Budget interface {
	// Take asks for room for a tree of about so many bytes, which is needed until
	// [Request.Trim]. Without it [ParseWithin] gives up.
	Take(bytes int64) bool
}

// ErrNoRoom says that a [Budget] has no room for the tree of a body.
var ErrNoRoom = errors.New("no room for the tree of a request body")

// Parse reads body, which must not change until Trim or Release.
//
// The error is always an [*Error]: the body is not a JSON object, is too deep or
// too complex (see [MaxDepth] and [MaxValues]), or model is not a string. A model of
// null is no model. [Opaque] and [Raw] bodies are never refused.
func Parse(kind Kind, body []byte) (*Request, error) { return ParseWithin(kind, body, nil) }

// ParseWithin is [Parse] that asks budget before it builds a tree. The error may also
// be [ErrNoRoom]. A budget of nil is without bounds.
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
	limit := unlimited
	if r.hasTree() {
		limit = MaxValues
	}
	s := newScanner(r.body, limit)
	if !r.env.read(&s) {
		if r.kind == Raw {
			r.env = envelope{}
			return nil
		}
		return s.err()
	}
	if err := r.readModel(); err != nil && r.kind != Raw {
		return err
	}
	r.readOptions()
	if !r.hasTree() {
		return nil
	}
	values := limit - s.left
	if budget != nil && !budget.Take(int64(values)*valueBytes) {
		return ErrNoRoom
	}
	r.work.values = values
	root, err := r.work.parser.ParseBytes(bytes.TrimPrefix(r.body, []byte(bom)))
	if err != nil || root.Type() != fastjson.TypeObject {
		// Not reached by what the scanner accepts. The parser's own error quotes
		// the prompt.
		return &Error{Message: "request body is not valid JSON", Code: CodeInvalidJSON}
	}
	r.tree.read(root.GetObject())
	r.readTree()
	return nil
}

// hasTree reports whether bodies of this kind are parsed into a tree.
func (r *Request) hasTree() bool {
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

// readOptions reads everything that does not need the tree.
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

// readTree reads what only the tree tells: a batch of conversations, and tools
// that the engine runs itself. A stored prompt is an option of responses only.
func (r *Request) readTree() {
	if r.kind != Responses {
		r.tree.stored = nil
	}
	switch r.kind {
	case Chat:
		if list := array(r.tree.messages); len(list) > 0 && list[0].Type() == fastjson.TypeArray {
			r.tree.messages = list[0]
			r.readN(r.n, len(list))
		}
	case Responses:
		for _, tool := range array(r.tree.tools) {
			r.noEvidence = r.noEvidence || builtin(tool)
		}
	}
}

// builtin reports whether an engine runs the tool itself, in a loop whose numbers
// are sums over its turns.
func builtin(tool *fastjson.Value) bool {
	switch string(text(field(tool, "type"))) {
	case "", "function", "custom":
		return false
	default:
		return true
	}
}
