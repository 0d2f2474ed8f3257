package cli

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Name is a file's name as it may be printed: quoted where it has characters that a terminal
// would obey, or that are none.
func Name(name string) string {
	if Printable(name) {
		return name
	}
	return strconv.Quote(name)
}

// Printable reports whether all of a text is letters, marks, numbers, punctuation, symbols
// and spaces.
func Printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
}

// Plain is a message as a terminal shows it: what would move the cursor, change colours or be
// obeyed otherwise is escaped. Ends of lines and tabs stay.
func Plain(message string) string {
	var out strings.Builder
	for len(message) > 0 {
		r, size := utf8.DecodeRuneInString(message)
		if r == '\n' || r == '\t' || strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			out.WriteString(message[:size])
		} else {
			quoted := strconv.Quote(message[:size])
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		message = message[size:]
	}
	return out.String()
}
