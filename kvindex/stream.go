package kvindex

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// Frame is a byte that announces a part of the key stream. Frames cannot occur
// in UTF-8, so text cannot imitate them; they stand before a part and carry no
// length, so two prompts that differ late in one message still share every block
// before the difference.
type Frame byte

// The frames, in the order in which an engine renders what they announce.
const (
	// FrameField announces a named value: its name, then [FrameValue] and the value.
	FrameField Frame = 0xF8
	// FrameValue announces the value of a field, or of one structured part.
	FrameValue Frame = 0xF9
	// FrameTool announces one tool definition.
	FrameTool Frame = 0xFA
	// FrameMessage announces a message: its role follows.
	FrameMessage Frame = 0xFB
	// FrameText announces a text part of the message before it.
	FrameText Frame = 0xFC
	// FrameCall announces a tool call or a tool result.
	FrameCall Frame = 0xFD
	// FrameBinary announces a part known only by the hash of its content or URL.
	FrameBinary Frame = 0xFE
	// FrameTokens announces token ids, four bytes each, little-endian.
	FrameTokens Frame = 0xFF
)

// Unlimited is the PrefixLength of a stream that is hashed whole.
const Unlimited = 0

// KeptBytes is how much of a stream is kept whatever PrefixLength cuts off, in bytes: what
// lies beyond the cut decides nothing, but says what a longer PrefixLength would find.
const KeptBytes = 1 << 20

// Stream collects the key stream of one prompt. The zero value is ready and
// unlimited. Its buffer is reused across Resets; it is not safe for concurrent
// use.
type Stream struct {
	buf    []byte
	limit  int // characters of message text still to be hashed; meaningful if cut is armed
	armed  bool
	cut    bool // the limit was reached, at end
	end    int
	beyond int // what is not even kept
}

// Reset empties the stream. prefixLength bounds how many Unicode characters of
// message text ([Stream.MessageText]) are kept for hashing; [Unlimited] keeps
// everything. bodyBytes is the size of the request the text comes from: text
// never has more characters than its JSON has bytes, so a body below the limit
// needs no counting at all.
func (s *Stream) Reset(prefixLength, bodyBytes int) {
	s.buf = s.buf[:0]
	s.limit, s.armed = prefixLength, prefixLength != Unlimited && bodyBytes > prefixLength
	s.cut, s.end, s.beyond = false, 0, 0
}

// Bytes returns the bytes to hash: the stream up to the cut. The slice is valid
// until the next Reset.
func (s *Stream) Bytes() []byte {
	if s.cut {
		return s.buf[:s.end]
	}
	return s.buf
}

// Kept returns those bytes and, up to [KeptBytes] in all, what follows them beyond the cut. The
// slice is valid until the next Reset.
func (s *Stream) Kept() []byte { return s.buf }

// Total returns the length of the whole stream in bytes, what lies beyond the cut
// included.
func (s *Stream) Total() int { return len(s.buf) + s.beyond }

// Cut reports whether PrefixLength cut the stream short.
func (s *Stream) Cut() bool { return s.cut }

// Cap returns the capacity of the buffer in bytes, for callers that pool streams
// and want to let go of the largest.
func (s *Stream) Cap() int { return cap(s.buf) }

// Frame appends a frame.
func (s *Stream) Frame(f Frame) {
	if s.full() {
		s.beyond++
		return
	}
	s.buf = append(s.buf, byte(f))
}

// cutAt notes where the stream is cut, and trims what is kept beyond.
func (s *Stream) cutAt(end int) {
	s.limit, s.cut, s.end = 0, true, end
	s.trim()
}

// full reports whether nothing more is kept.
func (s *Stream) full() bool { return s.cut && len(s.buf) >= max(s.end, KeptBytes) }

// trim lets go of what is too much beyond the cut.
func (s *Stream) trim() {
	if most := max(s.end, KeptBytes); s.cut && len(s.buf) > most {
		s.beyond += len(s.buf) - most
		s.buf = s.buf[:most]
	}
}

// Text appends text that does not count against PrefixLength: roles, names,
// template options, tool definitions. Invalid UTF-8 becomes U+FFFD.
func (s *Stream) Text(text []byte) {
	valid := valid(text)
	switch full := s.full(); {
	case full && valid:
		s.beyond += len(text)
	case full:
		s.beyond += len(appendValid(nil, text))
	case valid:
		s.buf = append(s.buf, text...)
	default:
		s.buf = appendValid(s.buf, text)
	}
	s.trim()
}

// MessageText appends text of a message, which counts against PrefixLength.
// Invalid UTF-8 becomes U+FFFD.
func (s *Stream) MessageText(text []byte) {
	if s.cut || !s.armed {
		s.Text(text)
		return
	}
	start := len(s.buf)
	s.Text(text)
	added := s.buf[start:]
	chars := countChars(added)
	if chars <= s.limit {
		s.limit -= chars
		return
	}
	s.cutAt(start + offsetOfChar(added, s.limit))
}

// Binary appends a binary part by the 128-bit hash of its content or URL.
func (s *Stream) Binary(content []byte) {
	if s.full() {
		s.beyond += binaryBytes
		return
	}
	sum := xxh3.Hash128(content).Bytes()
	s.buf = append(append(s.buf, byte(FrameBinary)), sum[:]...)
	s.trim()
}

// binaryBytes is what a binary part is in the stream: a frame and a hash.
const binaryBytes = 1 + 16

// Token appends one token id. The caller appends [FrameTokens] before the first.
// Each id counts as one character against PrefixLength.
func (s *Stream) Token(id uint32) {
	if s.armed && !s.cut {
		if s.limit == 0 {
			s.cutAt(len(s.buf))
		} else {
			s.limit--
		}
	}
	if s.full() {
		s.beyond += 4
		return
	}
	s.buf = binary.LittleEndian.AppendUint32(s.buf, id)
	s.trim()
}

// Raw appends the first prefixLength bytes of an opaque body, as native
// invocations count: bytes, not characters.
func (s *Stream) Raw(body []byte) {
	if !s.armed || len(body) <= s.limit {
		s.buf = append(s.buf, body...)
		return
	}
	end := len(s.buf) + s.limit
	keep := min(max(end, KeptBytes)-len(s.buf), len(body))
	s.buf = append(s.buf, body[:keep]...)
	s.beyond = len(body) - keep
	s.cutAt(end)
}

// valid reports whether text is valid UTF-8. Unlike [utf8.Valid] it goes back to many
// bytes at a time after each character that is not ASCII, which most text has some of.
func valid(text []byte) bool {
	const highs = 0x8080808080808080
	for {
		for len(text) >= 32 {
			a, b := binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[8:])
			c, d := binary.LittleEndian.Uint64(text[16:]), binary.LittleEndian.Uint64(text[24:])
			if (a|b|c|d)&highs != 0 {
				break
			}
			text = text[32:]
		}
		for len(text) >= 8 {
			if high := binary.LittleEndian.Uint64(text) & highs; high != 0 {
				text = text[bits.TrailingZeros64(high)/8:]
				break
			}
			text = text[8:]
		}
		for len(text) > 0 && text[0] < utf8.RuneSelf {
			text = text[1:]
		}
		if len(text) == 0 {
			return true
		}
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			return false
		}
		text = text[size:]
	}
}

// appendValid appends text with every invalid byte replaced by U+FFFD.
func appendValid(dst, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		dst = utf8.AppendRune(dst, r)
		text = text[size:]
	}
	return dst
}

// countChars counts the Unicode characters of valid UTF-8: the bytes that are not
// continuation bytes, eight at a time.
func countChars(text []byte) int {
	chars := 0
	for len(text) >= 8 {
		chars += 8 - continuationBytes(binary.LittleEndian.Uint64(text))
		text = text[8:]
	}
	for _, c := range text {
		if c&0xC0 != 0x80 {
			chars++
		}
	}
	return chars
}

// continuationBytes counts the bytes of w of the form 10xxxxxx.
func continuationBytes(w uint64) int {
	const high = 0x8080808080808080
	return bits.OnesCount64(w & high &^ (w << 1))
}

// offsetOfChar returns the byte offset at which character n of valid UTF-8
// starts, len(text) when there are not that many.
func offsetOfChar(text []byte, n int) int {
	at := 0
	for ; at+8 <= len(text); at += 8 {
		chars := 8 - continuationBytes(binary.LittleEndian.Uint64(text[at:]))
		if chars > n {
			break
		}
		n -= chars
	}
	for ; at < len(text); at++ {
		if text[at]&0xC0 == 0x80 {
			continue
		}
		if n == 0 {
			return at
		}
		n--
	}
	return at
}
