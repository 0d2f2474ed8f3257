package enginesim

import (
	"unicode"
	"unicode/utf8"
)

// Token is the id of one word piece. Ids below 1<<31 come from text or from
// the caller; ids with the top bit set are special tokens such as role markers,
// which no text can produce.
type Token uint32

const (
	specialBit = 1 << 31

	// maxWordBytes bounds a piece of a word, including the space before it.
	maxWordBytes = 6
	// maxPunctBytes bounds a run of punctuation.
	maxPunctBytes = 3
	// maxSpaceBytes bounds a run of white space.
	maxSpaceBytes = 6
	// maxDigits bounds a group of decimal digits.
	maxDigits = 3
)

// Special returns the special token of a name, for instance of a role marker.
func Special(name string) Token {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return Token(mix(h)>>33) | specialBit
}

// Tokenize appends the tokens of text to dst and returns the extended slice.
//
// Pieces follow the habits of current vocabularies without being any of them:
// a word takes the single space before it, longer words fall into pieces of 2
// to 6 bytes, digits are grouped by three, a CJK character or a symbol outside
// ASCII stands alone, punctuation comes in short runs, line breaks are kept
// apart from the spaces around them, and a byte that is not UTF-8 is a token of
// its own. English prose comes to about four bytes a token.
//
// A piece depends on nothing but the text from its start to at most a dozen
// bytes on, so two texts with a common head have all but the last few tokens of
// that head in common.
func Tokenize(dst []Token, text string) []Token {
	for i := 0; i < len(text); {
		n := pieceLen(text[i:])
		dst = append(dst, pieceToken(text[i:i+n]))
		i += n
	}
	return dst
}

// CountTokens returns how many tokens [Tokenize] makes of text.
func CountTokens(text string) int {
	count := 0
	for i := 0; i < len(text); count++ {
		i += pieceLen(text[i:])
	}
	return count
}

// charClass says how a character joins its neighbours.
type charClass uint8

const (
	classWord charClass = iota
	classDigit
	classPunct
	classSpace
	classBreak
	classSingle
)

// classify returns the class of the first character of s and its length.
func classify(s string) (charClass, int) {
	if c := s[0]; c < utf8.RuneSelf {
		return asciiClasses[c], 1
	}
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && n == 1:
		return classSingle, 1
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		return classSingle, n
	case unicode.IsLetter(r), unicode.IsMark(r):
		return classWord, n
	case unicode.IsSpace(r):
		return classSpace, n
	default:
		return classSingle, n
	}
}

// asciiClasses is the class of each ASCII character.
var asciiClasses = func() (classes [utf8.RuneSelf]charClass) {
	for c := range classes {
		classes[c] = asciiClass(byte(c))
	}
	return classes
}()

func asciiClass(c byte) charClass {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return classWord
	case c >= '0' && c <= '9':
		return classDigit
	case c == '\n', c == '\r':
		return classBreak
	case c == ' ', c == '\t', c == '\v', c == '\f':
		return classSpace
	default:
		return classPunct
	}
}

// pieceLen returns the length in bytes of the first piece of s, which is not
// empty.
func pieceLen(s string) int {
	class, n := classify(s)
	switch class {
	case classWord:
		return wordLen(s, 0)
	case classDigit:
		return runLen(s, classDigit, maxDigits)
	case classPunct:
		return runLen(s, classPunct, maxPunctBytes)
	case classBreak:
		return runLen(s, classBreak, maxSpaceBytes)
	case classSpace:
		return spaceLen(s, n)
	default:
		return n
	}
}

// runLen returns the length of the run of one class at the start of s, at most
// limit bytes.
func runLen(s string, class charClass, limit int) int {
	i := 0
	for i < len(s) {
		c, n := classify(s[i:])
		if c != class || i+n > limit && i > 0 {
			break
		}
		i += n
	}
	return i
}

// spaceLen splits white space: a single space goes with the word or the
// punctuation that follows it, of a longer run all but the last space stand
// together.
func spaceLen(s string, first int) int {
	run := runLen(s, classSpace, maxSpaceBytes+1)
	if run == first && s[0] == ' ' && len(s) > 1 {
		switch next, n := classify(s[1:]); {
		case next == classWord && 1+n <= maxWordBytes:
			return wordLen(s, 1)
		case next == classPunct:
			return 1 + runLen(s[1:], classPunct, maxPunctBytes-1)
		}
		return 1
	}
	if run > maxSpaceBytes {
		return runLen(s, classSpace, maxSpaceBytes)
	}
	if s[run-1] == ' ' && run > first && run < len(s) {
		if next, _ := classify(s[run:]); next == classWord || next == classPunct {
			return run - 1
		}
	}
	return run
}

// wordLen returns the length of the first piece of the word that starts at
// s[skip]. A word that fits is one piece. A longer one is cut after 3 to 6
// bytes, chosen by its first three bytes, so that equal stems are cut alike,
// and never so that a single byte is left over.
func wordLen(s string, skip int) int {
	limit := maxWordBytes
	rest := wordRun(s, skip, limit+2)
	if rest <= limit {
		return rest
	}
	h := mix(pack(s[:3]))
	cut := 3 + int(h>>62)
	if rest-cut == 1 {
		cut--
	}
	return runeCut(s, cut, skip)
}

// wordRun returns where the run of word characters from s[skip] ends, looking
// no further than limit bytes.
func wordRun(s string, skip, limit int) int {
	i := skip
	for i < len(s) && i < limit {
		if c := s[i]; c < utf8.RuneSelf {
			if asciiClasses[c] != classWord {
				break
			}
			i++
			continue
		}
		class, n := classify(s[i:])
		if class != classWord {
			break
		}
		i += n
	}
	return i
}

// runeCut moves a cut that falls inside a character to the start of it, or to
// the end of the first character after skip if nothing else would be left.
func runeCut(s string, cut, skip int) int {
	for cut > skip && !utf8.RuneStart(s[cut]) {
		cut--
	}
	if cut > skip {
		return cut
	}
	_, n := utf8.DecodeRuneInString(s[skip:])
	return skip + n
}

// pieceToken returns the id of a piece.
func pieceToken(piece string) Token {
	return Token(mix(pack(piece)) >> 33)
}

// pack puts the first seven bytes of s and its length into one word.
func pack(s string) uint64 {
	v := uint64(len(s)) << 56
	for i := range min(len(s), 7) {
		v |= uint64(s[i]) << (8 * i)
	}
	return v
}

// mix spreads every bit of v over the result.
func mix(v uint64) uint64 {
	v ^= v >> 33
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	v *= 0xc4ceb9fe1a85ec53
	return v ^ v>>33
}
