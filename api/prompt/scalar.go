package prompt

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A raw value is the bytes of one JSON value as they stand in the body. The
// functions here read raw scalars as leniently as the engines do; nil is an absent
// value.

// given reports whether raw is there and neither null nor false.
func given(raw []byte) bool {
	return len(raw) > 0 && raw[0] != 'n' && raw[0] != 'f'
}

// null reports whether raw is absent or null.
func null(raw []byte) bool { return len(raw) == 0 || raw[0] == 'n' }

// isText reports whether raw is a string.
func isText(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }

// quoted returns what stands between the quotes of the string raw, still escaped.
func quoted(raw []byte) []byte { return raw[1 : len(raw)-1] }

// truth reads a raw boolean: true, a number other than zero, or one of the words
// engines take for true.
func truth(raw []byte) bool {
	if !isText(raw) {
		return given(raw) && (raw[0] == 't' || raw[0] >= '1' && raw[0] <= '9')
	}
	var buf [longestKey * len(`\u0000`)]byte
	word, ok := plainKey(quoted(raw), buf[:0])
	return ok && affirms(word)
}

// affirms reports whether word is one that engines take for true.
func affirms(word []byte) bool {
	for _, yes := range [...]string{"true", "t", "yes", "y", "on", "1"} {
		if len(word) == len(yes) && strings.EqualFold(string(word), yes) {
			return true
		}
	}
	return false
}

// count reads a raw number of answers, as a number or a string, at least 1.
func count(raw []byte) int {
	var buf [longestKey * len(`\u0000`)]byte
	if isText(raw) {
		raw, _ = plainKey(quoted(raw), buf[:0])
	}
	n := 0
	for _, c := range raw {
		if c < '0' || c > '9' {
			break
		}
		n = min(n*10+int(c-'0'), MaxN)
	}
	return max(n, 1)
}

// unescape appends the text of a raw JSON string, without its quotes, to dst.
// Escapes that JSON does not know stay as they are; half a surrogate pair becomes
// U+FFFD.
func unescape(dst, raw []byte) []byte {
	dst = slices.Grow(dst, len(raw)) // no escape is shorter than what it stands for
	for {
		n := nextEscape(raw)
		if n+1 >= len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n]...)
		c := raw[n+1]
		raw = raw[n+2:]
		if plain := escapes[c]; plain != 0 {
			dst = append(dst, plain)
			continue
		}
		if c == 'u' {
			if r, size := hexRune(raw); size > 0 {
				dst = utf8.AppendRune(dst, r)
				raw = raw[size:]
				continue
			}
		}
		dst = append(dst, '\\', c)
	}
}

// escapes holds what the letter after a backslash stands for, 0 for none.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// nextEscape returns the offset of the first backslash, len(raw) if there is none. The next
// is near in code: the first 32 bytes are looked at without the cost of a call.
func nextEscape(raw []byte) int {
	const (
		ones    = 0x0101010101010101
		highs   = 0x8080808080808080
		slashes = '\\' * ones
	)
	n := 0
	for ; n < 32 && len(raw)-n >= 8; n += 8 {
		x := binary.LittleEndian.Uint64(raw[n:]) ^ slashes // a byte of it is 0 where there is one
		if zero := (x - ones) &^ x & highs; zero != 0 {
			return n + bits.TrailingZeros64(zero)/8
		}
	}
	if at := bytes.IndexByte(raw[n:], '\\'); at >= 0 {
		return n + at
	}
	return len(raw)
}

// hexRune decodes what follows \u, a low surrogate included. size is how many
// bytes that took, 0 if raw does not start with four hexadecimal digits.
func hexRune(raw []byte) (r rune, size int) {
	r, ok := hex4(raw)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 4
	}
	if len(raw) >= 10 && raw[4] == '\\' && raw[5] == 'u' {
		if low, ok := hex4(raw[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 10
			}
		}
	}
	return utf8.RuneError, 4
}

func hex4(raw []byte) (rune, bool) {
	if len(raw) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range raw[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
