package prompt

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// SetModel returns body with the value of its top-level model replaced, wherever
// it stands more than once everywhere, since engines disagree on which counts. A
// body without a model, or with this one, is returned as it is; otherwise the
// result is a new slice that differs in nothing else. The error is an [*Error].
func SetModel(body []byte, model string) ([]byte, error) { return setModel(body, model, false) }

// PutModel is [SetModel] for a body that may have no model: it gets one.
func PutModel(body []byte, model string) ([]byte, error) { return setModel(body, model, true) }

func setModel(body []byte, model string, put bool) ([]byte, error) {
	value := appendString(make([]byte, 0, len(model)+16), model)
	var all edits
	members, found := 0, false
	s := newScanner(body, unlimited)
	end := s.envelope(func(key []byte, start, end int) {
		members++
		if !keyIs(key, "model") {
			return
		}
		found = true
		if !bytes.Equal(body[start:end], value) {
			all.replace(start, end, value)
		}
	})
	if end < 0 {
		return nil, s.err()
	}
	if put && !found {
		all.insert(end, members > 0, append([]byte(`"model":`), value...))
	}
	return all.apply(body), nil
}

var (
	trueValue     = []byte(`true`)
	usageMember   = []byte(`"include_usage":true`)
	usageOptions  = []byte(`{"include_usage":true}`)
	streamMember  = []byte(`"stream":true`)
	optionsMember = []byte(`"stream_options":{"include_usage":true}`)
)

// SetIncludeUsage returns body with the top-level stream_options.include_usage set
// to true: added, completed, or replaced where it is something else, everywhere if
// it stands more than once. Whether an explicit false is to be overruled is the
// caller's to decide ([Request.UsageAsked]). Options that are neither null nor an
// object are left for the engine to refuse. Body itself is returned if nothing
// changes; otherwise the result is a new slice that differs in nothing else. The
// error is an [*Error].
func SetIncludeUsage(body []byte) ([]byte, error) {
	var all edits
	members, found := 0, false
	s := newScanner(body, unlimited)
	end := s.envelope(func(key []byte, start, end int) {
		members++
		if !keyIs(key, "stream_options") {
			return
		}
		found = true
		switch body[start] {
		case 'n':
			all.replace(start, end, usageOptions)
		case '{':
			all.completeOptions(body, start, end)
		}
	})
	if end < 0 {
		return nil, s.err()
	}
	if !found {
		all.insert(end, members > 0, optionsMember)
	}
	return all.apply(body), nil
}

// SetStream returns body with the top-level stream set to true, everywhere if it stands
// more than once. Body itself is returned if nothing changes; otherwise the result is a
// new slice that differs in nothing else. The error is an [*Error].
func SetStream(body []byte) ([]byte, error) {
	var all edits
	members, found := 0, false
	s := newScanner(body, unlimited)
	end := s.envelope(func(key []byte, start, end int) {
		members++
		if !keyIs(key, "stream") {
			return
		}
		found = true
		if !bytes.Equal(body[start:end], trueValue) {
			all.replace(start, end, trueValue)
		}
	})
	if end < 0 {
		return nil, s.err()
	}
	if !found {
		all.insert(end, members > 0, streamMember)
	}
	return all.apply(body), nil
}

// completeOptions sets include_usage in the object at body[start:end].
func (all *edits) completeOptions(body []byte, start, end int) {
	members, found := 0, false
	s := newScanner(body[start:end], unlimited)
	s.object(0, 1, func(key []byte, from, to int) {
		members++
		if !keyIs(key, "include_usage") {
			return
		}
		found = true
		if from, to = from+start, to+start; !bytes.Equal(body[from:to], trueValue) {
			all.replace(from, to, trueValue)
		}
	})
	if !found {
		all.insert(end-1, members > 0, usageMember)
	}
}

// edits are replacements of parts of a body, in its order.
type edits []edit

type edit struct {
	start, end int
	comma      bool
	text       []byte
}

func (all *edits) replace(start, end int, text []byte) {
	*all = append(*all, edit{start: start, end: end, text: text})
}

// insert adds a member before the brace at offset at, behind a comma if the object
// has others.
func (all *edits) insert(at int, comma bool, member []byte) {
	*all = append(*all, edit{start: at, end: at, comma: comma, text: member})
}

// apply returns body with all edits made, body itself if there are none.
func (all edits) apply(body []byte) []byte {
	if len(all) == 0 {
		return body
	}
	size := len(body)
	for _, e := range all {
		size += len(e.text) + 1
	}
	out := make([]byte, 0, size)
	from := 0
	for _, e := range all {
		out = append(out, body[from:e.start]...)
		if e.comma {
			out = append(out, ',')
		}
		out = append(out, e.text...)
		from = e.end
	}
	return append(out, body[from:]...)
}

// appendString appends s as a JSON string.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s { // an invalid byte is U+FFFD
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < 0x10:
			dst = strconv.AppendUint(append(dst, `\u000`...), uint64(r), 16)
		case r < 0x20:
			dst = strconv.AppendUint(append(dst, `\u00`...), uint64(r), 16)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
