package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// dialect is one way to ask: a path, a body, and how an answer shows that it is whole.
type dialect struct {
	name   string
	path   string
	share  int // of the traffic, in hundredths
	stream bool
	framed bool // the answer comes in AWS's event stream
	rpc    bool // the router is asked where to send it, and told what came of it
	shape  string
}

// What bodies can look like.
const (
	shapeChat       = "chat"
	shapeCompletion = "completion"
	shapeResponse   = "response"
	shapeMessage    = "message"
)

var dialects = []*dialect{
	{name: "chat, stream", path: "/v1/chat/completions", share: 28, stream: true, shape: shapeChat},
	{name: "chat", path: "/v1/chat/completions", share: 14, shape: shapeChat},
	{name: "completions, stream", path: "/v1/completions", share: 8, stream: true, shape: shapeCompletion},
	{name: "completions", path: "/v1/completions", share: 6, shape: shapeCompletion},
	{name: "responses, stream", path: "/v1/responses", share: 8, stream: true, shape: shapeResponse},
	{name: "responses", path: "/v1/responses", share: 4, shape: shapeResponse},
	{name: "messages, stream", path: "/v1/messages", share: 9, stream: true, shape: shapeMessage},
	{name: "messages", path: "/v1/messages", share: 5, shape: shapeMessage},
	{name: "invocations", path: "/endpoints/" + endpoint + "/invocations", share: 5, shape: shapeChat},
	{
		name: "invocations-response-stream", path: "/endpoints/" + endpoint + "/invocations-response-stream", share: 7,
		stream: true, framed: true, shape: shapeChat,
	},
	{name: "RPC Route and Report", path: "/v1/chat/completions", share: 6, stream: true, rpc: true, shape: shapeChat},
}

// body is a request for so many tokens of answer.
func (d *dialect) body(prompt string, tokens int) []byte {
	fields := map[string]any{"model": model, "max_tokens": tokens}
	switch d.shape {
	case shapeCompletion:
		fields["prompt"] = prompt
	case shapeResponse:
		delete(fields, "max_tokens")
		fields["max_output_tokens"], fields["input"] = tokens, prompt
	default:
		fields["messages"] = []map[string]string{{"role": "user", "content": prompt}}
	}
	if d.stream {
		fields["stream"] = true
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings and numbers always have a JSON form
	}
	return text
}

// reader takes in an answer piece by piece.
type reader struct {
	d      *dialect
	raw    bytes.Buffer // of frames, or of an answer that is not streamed
	line   []byte       // of an event, not yet at its end
	whole  bool         // its last event was there
	failed string       // what an event or a frame says of its failure
	bad    string       // why it is not what it should be
}

// take takes in a piece of an answer.
func (r *reader) take(p []byte) {
	switch {
	case !r.d.stream:
		r.raw.Write(p)
	case r.d.framed:
		r.raw.Write(p)
		r.frames()
	default:
		r.events(p)
	}
}

// events takes in a piece of an event stream.
func (r *reader) events(p []byte) {
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		if !ended {
			r.line = append(r.line, p...)
			return
		}
		r.line = append(r.line, line...)
		if data, ok := bytes.CutPrefix(bytes.TrimRight(r.line, "\r"), []byte("data:")); ok {
			r.event(bytes.TrimSpace(data))
		}
		r.line, p = r.line[:0], rest
	}
}

// event takes in the data of one event.
func (r *reader) event(data []byte) {
	if string(data) == "[DONE]" {
		r.whole = true
		return
	}
	if !bytes.Contains(data, []byte(`"error"`)) && !bytes.Contains(data, []byte(`"type"`)) {
		if !json.Valid(data) {
			r.bad = "an event is no JSON: " + cut(data)
		}
		return
	}
	var e struct {
		Type     string
		Error    any
		Response struct{ Error any }
	}
	if err := json.Unmarshal(data, &e); err != nil {
		r.bad = "an event is no JSON: " + cut(data)
		return
	}
	switch {
	case e.Error != nil, e.Type == "error", e.Type == "response.failed":
		r.failed = cut(data)
	case e.Type == "response.completed", e.Type == "message_stop":
		r.whole = true
	}
}

// frames takes the whole frames out of what has arrived.
func (r *reader) frames() {
	for r.raw.Len() >= 16 && r.bad == "" {
		b := r.raw.Bytes()
		total, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		if total < 16 || total > 1<<24 || headers > total-16 || crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) {
			r.bad = fmt.Sprintf("a frame begins with %x", b[:12])
			return
		}
		if len(b) < int(total) {
			return
		}
		frame := r.raw.Next(int(total))
		body := frame[:total-4]
		if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(frame[total-4:]) {
			r.bad = "a frame has a wrong checksum"
			return
		}
		payload := body[12+headers:]
		if bytes.Contains(body[12:12+headers], []byte(":exception-type")) {
			r.failed = cut(payload)
			continue
		}
		r.events(payload)
	}
}

// end judges an answer with status 200 whose end was read; err is how reading ended.
func (r *reader) end(err error) (ending, string) {
	switch {
	case r.bad != "":
		return silent, r.bad
	case r.failed != "":
		return broken, r.failed
	case r.d.stream && r.whole:
		return complete, ""
	case err != nil && !errors.Is(err, io.EOF):
		return broken, err.Error()
	case r.d.stream:
		return silent, "the stream ended in good order without its last event"
	case !json.Valid(r.raw.Bytes()):
		return silent, "the answer ended in good order and is no JSON: " + cut(r.raw.Bytes())
	}
	return complete, ""
}

// cut is the beginning of a text, for reports.
func cut(text []byte) string {
	const most = 300
	s := strings.ToValidUTF8(string(text[:min(len(text), most)]), "?")
	return strings.TrimSpace(s)
}
