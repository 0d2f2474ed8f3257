package usage

import "bytes"

// A slot is a place in a JSON object that the scanner keeps the value of.
type slot uint8

const (
	noSlot slot = iota
	usageSlot
	errorSlot
	idSlot
	objectSlot
	typeSlot
	statusSlot
	choicesSlot
	timingsSlot
	codeSlot
	// The same inside "response" and "message".
	innerUsageSlot
	innerErrorSlot
	innerIDSlot
	innerStatusSlot
	slots
)

// keep bounds how much of each value is kept.
var keep = [slots]int{
	usageSlot: 64 << 10, innerUsageSlot: 64 << 10, timingsSlot: 4 << 10,
	errorSlot: 4 << 10, innerErrorSlot: 4 << 10, codeSlot: 16, choicesSlot: 192,
	idSlot: 512, innerIDSlot: 512, objectSlot: 64, typeSlot: 64, statusSlot: 64, innerStatusSlot: 64,
}

// outer names what is wanted of the object itself, inner what is wanted inside its
// "response" (OpenAI's responses) or "message" (Anthropic).
func outer(key []byte) slot {
	switch string(key) {
	case "usage":
		return usageSlot
	case "error":
		return errorSlot
	case "id":
		return idSlot
	case "object":
		return objectSlot
	case "type":
		return typeSlot
	case "status":
		return statusSlot
	case "choices":
		return choicesSlot
	case "timings":
		return timingsSlot
	case "code":
		return codeSlot
	}
	return noSlot
}

func inner(key []byte) slot {
	switch string(key) {
	case "usage":
		return innerUsageSlot
	case "error":
		return innerErrorSlot
	case "id":
		return innerIDSlot
	case "status":
		return innerStatusSlot
	}
	return noSlot
}

func holdsInner(key []byte) bool {
	return string(key) == "response" || string(key) == "message"
}

// value is what was kept of one slot, without the spaces between its tokens.
type value struct {
	raw  []byte
	seen bool
	over bool // longer than what is kept
}

func (v *value) add(p []byte, limit int) {
	if room := limit - len(v.raw); len(p) > room {
		v.over = true
		p = p[:max(room, 0)]
	}
	v.raw = append(v.raw, p...)
}

// scanner reads one JSON value in pieces of any size and keeps the values of a few
// keys. Of a key that comes twice the last counts, as for the engines. It checks no
// more of the syntax than it needs to find its way, and needs no more memory for a
// large value than for a small one.
type scanner struct {
	values [slots]value

	depth    int  // open objects and arrays
	level    int  // the depth whose keys are looked at: 1, or 2 inside "response" and "message"
	isObject bool // the outermost value is an object
	wantKey  bool // at level: a string now is a key
	inKey    bool
	inString bool
	escaped  bool // the last byte was a backslash inside a string
	enter    bool // a value of "response" or "message" is to come
	started  bool
	complete bool // the outermost value is closed
	other    bool // it is not an object or array

	key  []byte
	into slot // what is being kept, noSlot for nothing
}

// reset makes the scanner ready for another value and keeps its memory.
func (s *scanner) reset() {
	values, key := s.values, s.key[:0]
	for i := range values {
		values[i] = value{raw: values[i].raw[:0]}
	}
	*s = scanner{values: values, key: key}
}

// feed reads the next piece.
func (s *scanner) feed(p []byte) {
	for i := 0; i < len(p) && !s.complete && !s.other; {
		if s.inString {
			i = s.text(p, i)
			continue
		}
		s.token(p[i])
		i++
	}
}

// text goes on inside a string and returns where it stopped.
func (s *scanner) text(p []byte, i int) int {
	start, end := i, len(p)
	if s.escaped {
		s.escaped = false
		i++
	}
	for s.inString && i < len(p) {
		quote := bytes.IndexByte(p[i:], '"')
		if quote < 0 {
			quote = len(p)
		} else {
			quote += i
		}
		// Backslashes before that quote; the last may take its meaning away.
		for i < quote {
			back := bytes.IndexByte(p[i:quote], '\\')
			if back < 0 {
				i = quote
				break
			}
			i += back + 2
		}
		switch {
		case i > len(p):
			s.escaped = true
		case i == quote && quote < len(p):
			s.inString = false
			end = quote + 1
		}
	}
	end = min(end, len(p))
	switch part := p[start:end]; {
	case s.inKey:
		if len(s.key) < 16 { // longer than any wanted key
			s.key = append(s.key, part[:min(len(part), 32)]...)
		}
		if !s.inString {
			s.inKey = false
			s.key = bytes.TrimSuffix(s.key, []byte{'"'})
		}
	case s.into != noSlot:
		s.values[s.into].add(part, keep[s.into])
	}
	return end
}

// token reads a byte outside strings.
func (s *scanner) token(c byte) {
	switch c {
	case ' ', '\t', '\n', '\r':
		return
	}
	if !s.started {
		s.started = true
		if s.other = c != '{' && c != '['; s.other {
			return
		}
		s.isObject = c == '{'
		s.level = 1
	}
	atLevel := s.isObject && s.depth == s.level
	switch c {
	case '"':
		s.inString = true
		s.inKey = atLevel && s.wantKey
		s.enter = false
		if s.inKey {
			s.key = s.key[:0]
		} else {
			s.put(c)
		}
	case '{', '[':
		s.open(c)
	case '}', ']':
		s.shut(c, atLevel)
	case ',':
		if atLevel {
			s.into, s.wantKey = noSlot, true
		} else {
			s.put(c)
		}
	case ':':
		if atLevel {
			s.valueOf()
		} else {
			s.put(c)
		}
	default:
		s.enter = false
		s.put(c)
	}
}

// valueOf decides what to do with the value of the key just read.
func (s *scanner) valueOf() {
	s.wantKey = false
	if s.level == 2 {
		s.into = inner(s.key)
	} else {
		s.into = outer(s.key)
		s.enter = holdsInner(s.key)
	}
	if s.into != noSlot {
		v := &s.values[s.into]
		*v = value{raw: v.raw[:0], seen: true}
	}
}

func (s *scanner) open(c byte) {
	s.put(c)
	s.depth++
	switch {
	case s.depth == 1:
		s.wantKey = c == '{'
	case s.enter && c == '{':
		s.level, s.wantKey = 2, true
	}
	s.enter = false
}

func (s *scanner) shut(c byte, atLevel bool) {
	if atLevel {
		s.into = noSlot
		if s.level == 2 {
			s.level, s.wantKey = 1, false
		}
	}
	s.depth--
	s.put(c)
	s.complete = s.depth <= 0
}

func (s *scanner) put(c byte) {
	if s.into != noSlot {
		s.values[s.into].add([]byte{c}, keep[s.into])
	}
}

// raw returns the value of a slot, nil when it was not there or is too long.
func (s *scanner) raw(at slot) []byte {
	if v := &s.values[at]; v.seen && !v.over {
		return v.raw
	}
	return nil
}

// is reports whether the value of a slot is this string, which needs no escapes.
func (s *scanner) is(at slot, text string) bool { return string(unquote(s.raw(at))) == text }

// object reports whether the value of a slot is an object.
func (s *scanner) object(at slot) bool {
	v := &s.values[at]
	return v.seen && len(v.raw) > 0 && v.raw[0] == '{'
}

// something reports whether the value of a slot is there and says anything.
func (s *scanner) something(at slot) bool {
	v := &s.values[at]
	if !v.seen {
		return false
	}
	switch string(v.raw) {
	case "", "null", "false", `""`:
		return v.over
	}
	return true
}

// unquote returns what a JSON string holds, nil when it is no string or has escapes.
func unquote(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return nil
	}
	return raw[1 : len(raw)-1]
}
