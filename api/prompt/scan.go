package prompt

import (
	"bytes"
	"fmt"
	"math"
)

// MaxDepth is how many levels of arrays and objects a body may nest.
const MaxDepth = 256

// MaxValues is how many JSON values a body that becomes a tree may have. Long
// conversations with many tools have a tenth of it. A value takes as little as two
// bytes in the body: the limit keeps the tree of a hostile body near 110 MB.
const MaxValues = 1 << 18

// valueBytes is what a value of the tree takes at most, while the tree grows.
const valueBytes = 430

// fault is what stopped a scan.
type fault uint8

const (
	noFault     fault = iota
	endOfBody         // the body ended inside a value
	badByte           // a byte that cannot stand where it stands
	badLiteral        // a word other than true, false, null and NaN
	tooDeep           // more than MaxDepth levels
	tooMany           // more values than the scan's limit
	notAnObject       // the body is another JSON value than an object
	trailing          // something follows the body's object
)

// scanner walks JSON without building anything. It accepts nothing that the tree
// parser would refuse: the errors of the tree parser quote the rest of the body,
// once per level of nesting.
//
// Its methods take and return offsets into body, and return a negative offset
// after setting why and at.
type scanner struct {
	body []byte
	left int // values that may still be met
	why  fault
	at   int // offset of the fault
}

func newScanner(body []byte, limit int) scanner { return scanner{body: body, left: limit} }

// unlimited is the limit of a scan that nothing is allocated for.
const unlimited = math.MaxInt

func (s *scanner) fail(why fault, at int) int {
	s.why, s.at = why, at
	return -1
}

// space returns the offset of the first byte at or after i that is not white
// space.
func (s *scanner) space(i int) int {
	for i < len(s.body) {
		switch s.body[i] {
		case ' ', '\n', '\t', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// value skips the value that starts at i, inside depth containers, and returns
// the offset behind it.
func (s *scanner) value(i, depth int) int {
	if i >= len(s.body) {
		return s.fail(endOfBody, i)
	}
	if s.left--; s.left < 0 {
		return s.fail(tooMany, i)
	}
	switch c := s.body[i]; {
	case c == '"':
		return s.text(i)
	case c == '{':
		return s.object(i, depth+1, nil)
	case c == '[':
		return s.array(i, depth+1)
	case c == '-' || c >= '0' && c <= '9':
		return s.number(i)
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	case c == 'n':
		return s.literal(i, "null")
	case c == 'N':
		return s.literal(i, "NaN")
	}
	return s.fail(badByte, i)
}

// text skips the string whose opening quote is at i.
func (s *scanner) text(i int) int {
	for i++; ; {
		n := bytes.IndexByte(s.body[i:], '"')
		if n < 0 {
			return s.fail(endOfBody, len(s.body))
		}
		end := i + n
		slash := end
		for slash > i && s.body[slash-1] == '\\' {
			slash--
		}
		i = end + 1
		if (end-slash)%2 == 0 {
			return i
		}
	}
}

func (s *scanner) literal(i int, word string) int {
	if len(s.body)-i < len(word) || string(s.body[i:i+len(word)]) != word {
		return s.fail(badLiteral, i)
	}
	return i + len(word)
}

func (s *scanner) number(i int) int {
	start := i
	if s.body[i] == '-' {
		i++
		if i == len(s.body) || s.body[i] < '0' || s.body[i] > '9' {
			return s.fail(badByte, start)
		}
	}
	for i < len(s.body) {
		switch c := s.body[i]; {
		case c >= '0' && c <= '9', c == '.', c == 'e', c == 'E', c == '+', c == '-':
			i++
		default:
			return i
		}
	}
	return i
}

// array skips the array whose bracket is at i; depth counts it.
func (s *scanner) array(i, depth int) int {
	if depth > MaxDepth {
		return s.fail(tooDeep, i)
	}
	i = s.space(i + 1)
	if i < len(s.body) && s.body[i] == ']' {
		return i + 1
	}
	for {
		i = s.ids(i)
		if i = s.value(i, depth); i < 0 {
			return i
		}
		i = s.space(i)
		if i >= len(s.body) {
			return s.fail(endOfBody, i)
		}
		switch s.body[i] {
		case ',':
			i = s.space(i + 1)
		case ']':
			return i + 1
		default:
			return s.fail(badByte, i)
		}
	}
}

// ids skips the run of natural numbers at i that are each followed by a comma, as
// in a list of token ids, and the white space behind them.
func (s *scanner) ids(i int) int {
	for {
		end := i
		for end < len(s.body) && s.body[end]-'0' <= 9 {
			end++
		}
		if end == i || end >= len(s.body) || s.body[end] != ',' || s.left <= 0 {
			return i
		}
		s.left--
		if i = end + 1; i < len(s.body) && s.body[i] <= ' ' {
			i = s.space(i)
		}
	}
}

// object skips the object whose brace is at i; depth counts it. visit, if not
// nil, sees each member: its key without quotes and still escaped, and the offsets
// between which its value stands.
func (s *scanner) object(i, depth int, visit func(key []byte, start, end int)) int {
	if depth > MaxDepth {
		return s.fail(tooDeep, i)
	}
	i = s.space(i + 1)
	if i < len(s.body) && s.body[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(s.body) {
			return s.fail(endOfBody, i)
		}
		if s.body[i] != '"' {
			return s.fail(badByte, i)
		}
		key := i + 1
		if i = s.text(i); i < 0 {
			return i
		}
		keyEnd := i - 1
		i = s.space(i)
		if i >= len(s.body) {
			return s.fail(endOfBody, i)
		}
		if s.body[i] != ':' {
			return s.fail(badByte, i)
		}
		start := s.space(i + 1)
		if i = s.value(start, depth); i < 0 {
			return i
		}
		if visit != nil {
			visit(s.body[key:keyEnd], start, i)
		}
		i = s.space(i)
		if i >= len(s.body) {
			return s.fail(endOfBody, i)
		}
		switch s.body[i] {
		case ',':
			i = s.space(i + 1)
		case '}':
			return i + 1
		default:
			return s.fail(badByte, i)
		}
	}
}

// bom is the byte order mark that engines skip before a body.
const bom = "\xEF\xBB\xBF"

// envelope walks the whole body, which must be one object and nothing else. It
// returns the offset of the object's closing brace.
func (s *scanner) envelope(visit func(key []byte, start, end int)) int {
	i := 0
	if bytes.HasPrefix(s.body, []byte(bom)) {
		i = len(bom)
	}
	i = s.space(i)
	if i >= len(s.body) {
		return s.fail(endOfBody, i)
	}
	if s.body[i] != '{' {
		return s.fail(notAnObject, i)
	}
	end := s.object(i, 1, visit)
	if end < 0 {
		return end
	}
	if i = s.space(end); i < len(s.body) {
		return s.fail(trailing, i)
	}
	return end - 1
}

// err puts the fault into words.
func (s *scanner) err() *Error {
	e := &Error{Code: CodeInvalidJSON}
	switch s.why {
	case endOfBody:
		if len(bytes.TrimSpace(s.body)) == 0 {
			e.Message = "request body is empty, want a JSON object"
			break
		}
		e.Message = fmt.Sprintf("request body is not valid JSON: it ends after %d bytes inside a value", len(s.body))
	case notAnObject:
		e.Message = "request body is not a JSON object"
	case badLiteral:
		e.Message = fmt.Sprintf("request body is not valid JSON: unknown word at byte %d, want true, false or null", s.at)
	case trailing:
		e.Message = fmt.Sprintf("request body is not valid JSON: more data follows the object at byte %d", s.at)
	case tooDeep:
		e.Code = CodeTooComplex
		e.Message = fmt.Sprintf("request body is nested too deeply: more than %d levels at byte %d", MaxDepth, s.at)
	case tooMany:
		e.Code = CodeTooComplex
		e.Message = fmt.Sprintf("request body has too many JSON values: more than %d", MaxValues)
	default:
		e.Message = fmt.Sprintf("request body is not valid JSON: unexpected %q at byte %d", s.body[s.at], s.at)
	}
	return e
}

// keyIs reports whether the raw key, still escaped, spells name.
func keyIs(raw []byte, name string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw) == name
	}
	var buf [64]byte
	key, ok := plainKey(raw, buf[:0])
	return ok && string(key) == name
}

// longestKey is the length of the longest key that any body is searched for, with
// room.
const longestKey = 32

// plainKey returns raw without its escapes, decoded into buf if it has any. It is
// not ok for a key that is longer than any that is searched for.
func plainKey(raw, buf []byte) (key []byte, ok bool) {
	if len(raw) > longestKey*len(`\u0000`) {
		return nil, false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, true
	}
	return unescape(buf, raw), true
}
