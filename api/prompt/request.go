package prompt

import (
	"sync"
	"unsafe"

	"github.com/warmroute/warmroute/kvindex"
)

// MaxN is the most answers a request counts as, in [Request.N].
const MaxN = 16384

// UsageAsk says what a request says about stream_options.include_usage.
type UsageAsk uint8

// What a request may say about the usage of its stream.
const (
	// UsageUnset means that the request does not say.
	UsageUnset UsageAsk = iota
	// UsageYes means that include_usage is true.
	UsageYes
	// UsageNo means that include_usage is false.
	UsageNo
)

// Request is what was read from one body. It is pooled: it belongs to the caller
// of [Parse] until [Request.Release]. It is not safe for concurrent use.
type Request struct {
	kind Kind
	body []byte // what the envelope's values point into
	env  envelope

	model, salt, cacheKey, previous string
	streaming                       bool
	streamUnset                     bool
	shape                           Kind
	usage                           UsageAsk
	n                               int
	noEvidence                      bool
	binary                          bool // what the stream knew when it was given back

	work  *workspace // nil after Trim
	w     *writer    // work's
	top   topLevel
	limit int  // the prefixLength that w was written with
	ready bool // w holds the stream

	keys   []kvindex.Key
	names  interner
	pooled bool
}

// workspace is what reading and hashing a body takes.
type workspace struct {
	doc document
	w   writer
}

// open makes the workspace's document one of that body.
func (work *workspace) open(body []byte) *document {
	work.doc.body = body
	return &work.doc
}

// trim lets go of the body, and of what is too large to be kept.
func (work *workspace) trim() {
	d, w := &work.doc, &work.w
	*d = document{nodes: kept(d.nodes), plain: kept(d.plain), key: kept(d.key)}
	w.json = kept(w.json)
	if w.stream.Cap() > keepBytes {
		w.stream = kvindex.Stream{}
	}
}

// keepBytes is how much the pools may keep of each buffer; a larger one is dropped when
// it is given back.
const keepBytes = 1 << 20

// kept returns the buffer, empty, or none if it is too large.
func kept[T any](buf []T) []T {
	if int64(cap(buf))*int64(unsafe.Sizeof(*new(T))) > keepBytes {
		return nil
	}
	return buf[:0]
}

var (
	requests   = sync.Pool{New: func() any { return new(Request) }}
	workspaces = sync.Pool{New: func() any { return new(workspace) }}
)

// Trim gives back all that is needed only until the keys are known: the document, the
// stream, and the hold on the body. What was read and the last [Keys] stay valid
// until Release, but Hash must not be called any more.
func (r *Request) Trim() {
	work := r.work
	if work == nil {
		return
	}
	r.binary = r.ready && r.w.binary
	work.trim()
	r.work, r.w, r.ready = nil, nil, false
	r.body, r.env, r.top = nil, envelope{}, topLevel{}
	workspaces.Put(work)
}

// Release gives r back to the pool. Strings read from it stay valid; its [Keys]
// do not. A second Release in a row does nothing.
func (r *Request) Release() {
	if r.pooled {
		return
	}
	r.Trim()
	*r = Request{keys: kept(r.keys), names: r.names, pooled: true}
	requests.Put(r)
}

// Kind returns the kind the body was parsed as.
func (r *Request) Kind() Kind { return r.kind }

// Model returns the model, empty when the request names none.
func (r *Request) Model() string { return r.model }

// Shape returns the kind that a body parsed as [Raw] has by its top-level keys: messages
// is [Chat]; prompt, inputs, token_ids or input_ids is [Completions]; input is
// [Responses]. Anything else, and whatever is not a JSON object, is [Raw]. The shape of a
// body that was parsed as another kind is that kind.
func (r *Request) Shape() Kind { return r.shape }

// StreamUnset reports whether the request is a JSON object and does not say whether the
// answer is to be streamed.
func (r *Request) StreamUnset() bool { return r.streamUnset }

// Streaming reports whether the answer is to be streamed.
func (r *Request) Streaming() bool { return r.streaming }

// N returns how many sequences the engine runs for the request: the larger of n
// and best_of, times the number of prompts of a batch. It is at least 1 and at
// most [MaxN].
func (r *Request) N() int { return r.n }

// UsageAsked returns what the request says about stream_options.include_usage.
// Only chat and text completions have that option; the others report usage
// unasked.
func (r *Request) UsageAsked() UsageAsk { return r.usage }

// Salt returns cache_salt, empty when there is none.
func (r *Request) Salt() string { return r.salt }

// CacheKey returns prompt_cache_key, empty when there is none.
func (r *Request) CacheKey() string { return r.cacheKey }

// PreviousResponseID returns previous_response_id, empty when there is none.
func (r *Request) PreviousResponseID() string { return r.previous }

// NoEvidence reports whether the cached-token numbers of the answer say nothing
// about the cache: several answers or prompts, logprobs of the prompt (or echo
// with logprobs), beam search, prompt embeddings, truncation, a previous response,
// or tools that the engine runs itself.
func (r *Request) NoEvidence() bool { return r.noEvidence }

// HasBinary reports whether the prompt has images, audio, video, files or
// embeddings, which the stream knows only by their hash. It builds the stream if
// [Request.Hash] has not; after [Request.Trim] it is what the stream knew before.
func (r *Request) HasBinary() bool {
	if r.work == nil {
		return r.binary
	}
	if !r.ready {
		r.write(kvindex.Unlimited)
	}
	return r.w.binary
}

// interner remembers the last few strings made of bytes, so that the models and
// tenants a pooled Request meets again and again are not allocated anew.
type interner [16]string

// longestName is the longest string an interner keeps, in bytes.
const longestName = 256

func (t *interner) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	slot := &t[(len(b)+int(b[0])+5*int(b[len(b)-1]))%len(t)]
	if *slot == string(b) {
		return *slot
	}
	s := string(b)
	if len(s) <= longestName {
		*slot = s
	}
	return s
}
