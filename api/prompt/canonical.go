package prompt

import (
	"bytes"
)

// cacheControl is the member by which Anthropic clients mark what to cache. It
// moves from turn to turn and is not part of the prompt.
const cacheControl = "cache_control"

// appendJSON appends v as JSON in its own key order, with numbers as they were
// spelled, without white space and with the fewest escapes: the same bytes for all
// spellings of the same value.
func appendJSON(dst []byte, v value) []byte { return appendValue(dst, v, "") }

// appendShared is appendJSON without the member that marks caching wishes.
func appendShared(dst []byte, v value) []byte { return appendValue(dst, v, cacheControl) }

// appendValue appends v, of an object without the member except.
func appendValue(dst []byte, v value, except string) []byte {
	switch v.first() {
	case '"':
		return appendQuoted(dst, v.text())
	case '[':
		dst = append(dst, '[')
		first := true
		for element := range v.elements() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendJSON(dst, element)
		}
		return append(dst, ']')
	case '{':
		dst = append(dst, '{')
		first := true
		for key, member := range v.members() {
			if except != "" && string(key) == except {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(appendQuoted(dst, key), ':')
			dst = appendJSON(dst, member)
		}
		return append(dst, '}')
	default:
		return append(dst, v.raw()...)
	}
}

// appendQuoted appends s in quotes. Only quotes and backslashes are escaped, which
// is what makes the result unambiguous.
func appendQuoted(dst, s []byte) []byte {
	dst = append(dst, '"')
	if bytes.IndexByte(s, '"') < 0 && bytes.IndexByte(s, '\\') < 0 {
		return append(append(dst, s...), '"')
	}
	for _, c := range s {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}
