package prompt

import (
	"bytes"

	"github.com/valyala/fastjson"
)

// cacheControl is the member by which Anthropic clients mark what to cache. It
// moves from turn to turn and is not part of the prompt.
const cacheControl = "cache_control"

// appendJSON appends v as JSON in its own key order, with numbers as they were
// spelled, without white space and with the fewest escapes: the same bytes for all
// spellings of the same value.
func appendJSON(dst []byte, v *fastjson.Value) []byte { return appendValue(dst, v, "") }

// appendShared is appendJSON without the member that marks caching wishes.
func appendShared(dst []byte, v *fastjson.Value) []byte { return appendValue(dst, v, cacheControl) }

// appendValue appends v, of an object without the member except.
func appendValue(dst []byte, v *fastjson.Value, except string) []byte {
	switch v.Type() {
	case fastjson.TypeString:
		return appendQuoted(dst, v.GetStringBytes())
	case fastjson.TypeArray:
		dst = append(dst, '[')
		for i, element := range v.GetArray() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, element)
		}
		return append(dst, ']')
	case fastjson.TypeObject:
		dst = append(dst, '{')
		first := true
		v.GetObject().Visit(func(key []byte, member *fastjson.Value) {
			if except != "" && string(key) == except {
				return
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(appendQuoted(dst, key), ':')
			dst = appendJSON(dst, member)
		})
		return append(dst, '}')
	default:
		return v.MarshalTo(dst)
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
