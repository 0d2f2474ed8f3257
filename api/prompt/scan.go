package prompt

import (
	"bytes"
	"fmt"
	"math"
)

// MaxDepth is how many levels of arrays and objects a body may nest.
const MaxDepth = 256

// MaxValues is how many JSON values a body whose prompt is structured may have. Long
// conversations with many tools have a tenth of it. A value takes as little as two
// bytes in the body, and 24 in the document: the limit keeps what a hostile body takes
// near 16 MB, while its document grows.
const MaxValues = 1 << 18

// freeNodes is how large a document may be that its [Budget] is not asked for.
const freeNodes = 1 << 10

// fault is what stopped a scan.
type fault uint8

const (
	noFault     fault = iota
	endOfBody         // the body ended inside a value
	badByte           // a byte that cannot stand where it stands
	badLiteral        // a word other than true, false, null and NaN
	tooDeep           // more than MaxDepth levels
	tooMany           // more values than the scan's limit
	noRoom            // the budget has nothing left for the document
	notAnObject       // the body is another JSON value than an object
	trailing          // something follows the body's object
)

// scanner walks JSON, once, and notes in doc where everything stands, if there is one.
//
// Its methods take and return offsets into body, and return a negative offset
// after setting why and at.
type scanner struct {
	body   []byte
	left   int // values that may still be met
	doc    *document
	budget Budget // of doc, nil for none
	room   int    // nodes that budget was asked for, beyond freeNodes
	why    fault
	at     int // offset of the fault
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

// note opens the node of what starts at i. It returns a negative index if there is no
// room for it.
func (s *scanner) note(i int) int {
	if len(s.doc.nodes) >= freeNodes+s.room && s.budget != nil {
		more := freeNodes + s.room // and the memory grows by half as much again while it is copied
		if !s.budget.Take(int64(more) * nodeBytes * 5 / 2) {
			return s.fail(noRoom, i)
		}
		s.room += more
	}
	return s.doc.add(i)
}

// value reads the value that starts at i, inside depth containers, and returns
// the offset behind it.
func (s *scanner) value(i, depth int) int {
	if i >= len(s.body) {
		return s.fail(endOfBody, i)
	}
	if s.left--; s.left < 0 {
		return s.fail(tooMany, i)
	}
	if s.doc == nil {
		return s.skip(i, depth)
	}
	at := s.note(i)
	if at < 0 {
		return at
	}
	end := s.skip(i, depth)
	if end >= 0 {
		s.doc.close(at, end)
	}
	return end
}

// skip is value without a node of its own.
func (s *scanner) skip(i, depth int) int {
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
// in a list of token ids, and the white space behind them, unless a document wants them.
func (s *scanner) ids(i int) int {
	for s.doc == nil {
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
	return i
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
		if s.doc != nil {
			at := s.note(key - 1)
			if at < 0 {
				return at
			}
			s.doc.close(at, i)
		}
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
	if s.doc != nil {
		s.note(i) // of the root, which is no member of anything
	}
	end := s.object(i, 1, visit)
	if end < 0 {
		return end
	}
	if i = s.space(end); i < len(s.body) {
		return s.fail(trailing, i)
	}
	if s.doc != nil {
		s.doc.close(0, end)
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

// keyIs reports whether the raw key, still escaped, spells name, which has nothing that
// must be escaped.
func keyIs(raw []byte, name string) bool {
	if len(raw) <= len(name) || bytes.IndexByte(raw, '\\') < 0 { // an escape is longer than what it stands for
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
