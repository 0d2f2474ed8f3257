package enginesim

import "strings"

// pieces are the word pieces that [Output] writes with. Each is one token of
// [Tokenize] wherever it stands, so a generated answer that comes back in the
// next turn of a conversation tokenises to exactly the tokens that were cached.
var pieces = [...]string{
	" the", " of", " and", " to", " in", " is", " that", " for", " it", " as",
	" with", " on", " by", " this", " are", " be", " at", " from", " or", " an",
	" which", " was", " can", " has", " its", " not", " more", " each", " when", " one",
	" value", " block", " cache", " first", " then", " time", " step", " token", " model", " size",
	" queue", " route", " load", " key", " host", " read", " write", " test", " file", " line",
	" code", " path", " name", " list", " data", " state", " node", " call", " loop", " index",
	" sum", " rate", " batch", ".",
}

// Output returns the word pieces of a deterministic answer of n tokens to a
// prompt, one piece a token. Equal seeds give equal answers, and a longer answer
// begins with the shorter one.
func Output(seed uint64, n int) []string {
	out := make([]string, n)
	for i := range out {
		seed += 0x9e3779b97f4a7c15
		piece := pieces[mix(seed)>>58]
		if piece == "." && (i == 0 || out[i-1] == ".") {
			piece = " so"
		}
		if i == 0 {
			piece = strings.TrimPrefix(piece, " ")
		}
		out[i] = piece
	}
	return out
}

// OutputTokens appends the tokens of pieces made by [Output] to dst.
func OutputTokens(dst []Token, pieces []string) []Token {
	for _, piece := range pieces {
		dst = append(dst, pieceToken(piece))
	}
	return dst
}

// JoinOutput returns the text of pieces made by [Output].
func JoinOutput(pieces []string) string {
	return strings.Join(pieces, "")
}
