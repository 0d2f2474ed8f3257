package usage

import (
	"bytes"
	"mime"
	"strings"
	"sync"

	"github.com/valyala/fastjson"

	"github.com/warmroute/warmroute/feedback"
)

// Format is the dialect of an answer, which decides where its usage is.
type Format uint8

// The formats.
const (
	// None: nothing is looked for.
	None Format = iota
	// OpenAI is chat completions, completions, embeddings and what resembles them.
	OpenAI
	// Responses is OpenAI's /v1/responses.
	Responses
	// Anthropic is /v1/messages.
	Anthropic
)

// mode is how the bytes are read.
type mode uint8

const (
	undecided mode = iota // the content type says nothing: the first byte decides
	opaque
	events
	document
)

// Memory that a tap may hold on to.
const (
	// spill is how much of one event's data is collected before it is read in
	// pieces, so that an event of any size needs little memory.
	spill = 64 << 10
	// retain is the largest buffer that is kept for the next answer.
	retain = 128 << 10
)

// Tap watches one answer. It is not safe for use by several goroutines at a time.
type Tap struct {
	format Format
	mode   mode
	closed bool

	started, failed, done bool
	more                  bool // the last chunk that speaks of it says that it is not the last
	errStatus             int  // of the first error that says one
	sent                  int  // events from the one on that began the answer

	id     []byte
	event  event
	scan   scanner
	parser fastjson.Parser
	counts counts
}

// taps holds taps that were released; it is only a cache.
var taps sync.Pool

// NewTap returns a tap for an answer in the given format, whose Content-Type header
// says contentType. The tap may be given back with [Tap.Release].
func NewTap(format Format, contentType string) *Tap {
	t, _ := taps.Get().(*Tap)
	if t == nil {
		t = new(Tap)
	}
	t.format, t.mode = format, modeOf(format, contentType)
	return t
}

func modeOf(format Format, contentType string) mode {
	if format == None {
		return opaque
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		// A parameter may be malformed; the type in front of it still counts.
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	switch {
	case media == "text/event-stream":
		return events
	case strings.HasSuffix(media, "json"):
		return document
	}
	return undecided
}

// Release gives the tap's memory back for the next one. The tap must not be used
// afterwards.
func (t *Tap) Release() {
	if cap(t.event.data) > retain {
		t.event.data = nil
	}
	t.event.reset()
	t.scan.reset()
	*t = Tap{
		id:     t.id[:0],
		event:  event{data: t.event.data, name: t.event.name},
		scan:   t.scan,
		parser: t.parser, //nolint:govet // moves memory between owners
	}
	taps.Put(t)
}

// Write feeds the next bytes of the answer, split in any way. It neither changes nor
// keeps p.
func (t *Tap) Write(p []byte) {
	if len(p) == 0 || t.closed {
		return
	}
	if t.mode == undecided {
		t.decide(p)
	}
	switch t.mode {
	case opaque:
		t.started = true
	case document:
		t.started = true
		t.scan.feed(p)
	case events:
		t.event.feed(p, t)
	}
}

// decide looks at the first byte that is no space.
func (t *Tap) decide(p []byte) {
	rest := bytes.TrimLeft(p, " \t\r\n")
	if len(rest) == 0 {
		return
	}
	switch rest[0] {
	case '{', '[':
		t.mode = document
	case 'd', 'e', 'i', 'r', ':':
		t.mode = events
	default:
		t.mode = opaque
	}
}

// Close says that the answer has come to its end. It may be called again.
func (t *Tap) Close() {
	if t.closed {
		return
	}
	switch t.mode {
	case events:
		t.event.finish(t)
	case document:
		t.done = t.scan.complete
		t.take(nil)
	default:
		t.done = t.started
	}
	t.closed = true
}

// Usage returns what the engine reported so far. Counts that come several times are
// counted once, the last as it stands.
func (t *Tap) Usage() feedback.Usage { return t.counts.usage(t.format) }

// Events is how many events of a stream there were from the one on that began the answer, without
// the [DONE] at its end.
func (t *Tap) Events() int { return t.sent }

// Started reports whether the answer proper has begun, which is the moment of its
// first token: for events the first one with data that says anything, so neither a
// comment nor a ping, the announcement of a response, an error or an empty delta; for
// all else the first byte.
func (t *Tap) Started() bool { return t.started }

// Err reports whether an error object came, as the answer or as one of its events.
func (t *Tap) Err() bool { return t.failed }

// ErrStatus is the HTTP status that the error object stands for: its code, or else what its
// type means. It is 0 where it says neither, or there is none.
func (t *Tap) ErrStatus() int { return t.errStatus }

// Done reports whether the answer is whole: the event that ends it was seen, or the
// JSON value is closed. An answer that has neither is done when it has ended.
func (t *Tap) Done() bool { return t.done }

// Unfinished reports whether the answer is a stream whose dialect has an event that ends
// it, and that has come to its end, if it has, without it: the answer has begun, and as far as
// its events tell, there is more. A stream of chunks that has said why it is finished lacks
// nothing but its [DONE].
func (t *Tap) Unfinished() bool {
	if t.mode != events || !t.started || t.done || t.failed {
		return false
	}
	return t.more || t.format == Responses || t.format == Anthropic
}

// ResponseID returns the id of an answer of /v1/responses, "" when there is none.
func (t *Tap) ResponseID() string {
	if t.format != Responses {
		return ""
	}
	return string(t.id)
}

// dispatch looks at one whole event. data is empty when it was read in pieces.
func (t *Tap) dispatch(name, data []byte, scanned bool) {
	data = bytes.TrimSpace(data)
	t.follow(data)
	if t.started && t.mode == events && (scanned || len(data) > 0) && string(data) != "[DONE]" {
		t.sent++
	}
	switch {
	case scanned:
		t.scan.feed(data)
	case len(data) == 0:
		return
	case string(data) == "[DONE]":
		t.done = true
		return
	case t.started && string(name) != "error" && !t.worthReading(data):
		return
	default:
		t.scan.reset()
		t.scan.feed(data)
	}
	failedBefore := t.failed
	t.failed = false
	t.take(name)
	if !t.failed && !t.started && t.begins(name, data) {
		t.started = true
		t.sent++
	}
	t.failed = t.failed || failedBefore
	t.scan.reset()
}

// finishReason is where a chunk says why its text is finished, or null while it is not.
var finishReason = []byte(`finish_reason":`)

// follow looks whether a chunk says that more follows.
func (t *Tap) follow(data []byte) {
	if t.format != OpenAI {
		return
	}
	if _, after, ok := bytes.Cut(data, finishReason); ok {
		rest := bytes.TrimLeft(after, " ")
		t.more = bytes.HasPrefix(rest, []byte("null"))
	}
}

// worthReading is a cheap test of whether an event may hold anything that is looked
// for; ordinary deltas do not. The patterns start with a letter rather than with a
// quotation mark, of which JSON is full.
func (t *Tap) worthReading(data []byte) bool {
	if bytes.Contains(data, []byte(`error"`)) {
		return true
	}
	switch t.format {
	case OpenAI:
		return bytes.Contains(data, []byte(`usage"`)) || bytes.Contains(data, []byte(`timings"`))
	case Responses:
		return bytes.Contains(data, []byte(`response"`))
	case Anthropic:
		return bytes.Contains(data, []byte(`usage"`)) || bytes.Contains(data, []byte(`message_stop"`))
	}
	return false
}

// take keeps what the scanner found in an event with that name, or in the whole
// answer when the name is nil.
func (t *Tap) take(name []byte) {
	s := &t.scan
	kind := string(unquote(s.raw(typeSlot)))
	if kind == "" {
		kind = string(name)
	}
	t.failed = t.failed || string(name) == "error" || kind == "error" || s.is(objectSlot, "error") ||
		s.something(errorSlot) || s.something(innerErrorSlot)
	if t.failed {
		t.takeError()
	}
	t.count(s.raw(usageSlot))
	t.count(s.raw(innerUsageSlot))
	switch t.format {
	case OpenAI:
		t.countTimings(s.raw(timingsSlot))
	case Responses:
		t.takeResponse(kind)
	case Anthropic:
		t.done = t.done || kind == "message_stop"
	}
}

func (t *Tap) takeResponse(kind string) {
	s := &t.scan
	switch kind {
	case "response.completed", "response.incomplete":
		t.done = true
	case "response.failed":
		t.done, t.failed = true, true
	}
	t.failed = t.failed || s.is(statusSlot, "failed") || s.is(innerStatusSlot, "failed")
	id := unquote(s.raw(innerIDSlot))
	if t.mode == document && s.is(objectSlot, "response") {
		id = unquote(s.raw(idSlot))
	}
	if len(id) > 0 {
		t.id = append(t.id[:0], id...)
	}
}

// begins reports whether an event that is no error is the first sign of a token.
func (t *Tap) begins(name, data []byte) bool {
	s := &t.scan
	kind := unquote(s.raw(typeSlot))
	if kind == nil {
		kind = name
	}
	switch string(kind) {
	case "ping", "response.created", "response.queued", "response.in_progress":
		return false
	}
	if string(data) == "{}" {
		return false
	}
	choices := s.raw(choicesSlot)
	switch {
	case choices == nil:
		return true // none, or more than an empty one has room for
	case string(choices) == "[]":
		return false
	}
	empty := bytes.Contains(choices, []byte(`"delta":{}`)) || bytes.Contains(choices, []byte(`"delta":{"content":""}`))
	return !empty || bytes.Contains(choices, []byte(`"finish_reason":"`))
}
