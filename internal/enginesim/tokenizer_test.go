package enginesim

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// split returns the pieces that [Tokenize] makes tokens of.
func split(text string) []string {
	var out []string
	for i := 0; i < len(text); {
		n := pieceLen(text[i:])
		out = append(out, text[i:i+n])
		i += n
	}
	return out
}

func TestPieces(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"words take the space before them", "the cat sat", []string{"the", " cat", " sat"}},
		{"digits by three", "in 12345 and 7", []string{"in", " ", "123", "45", " and", " ", "7"}},
		{"punctuation in short runs", "a(b); c!!!!", []string{"a", "(", "b", ");", " c", "!!!", "!"}},
		{"space before punctuation", "x = y", []string{"x", " =", " y"}},
		{"indentation", "{\n        if x", []string{"{", "\n", "      ", " ", " if", " x"}},
		{"line breaks", "a\n\n\nb\r\nc", []string{"a", "\n\n\n", "b", "\r\n", "c"}},
		{"cjk one by one", "日本語です", []string{"日", "本", "語", "で", "す"}},
		{"mixed scripts", "go言語 fast", []string{"go", "言", "語", " fast"}},
		{"cyrillic", "да нет", []string{"да", " не", "т"}},
		{"symbols alone", "ok 🙂🙂", []string{"ok", " ", "🙂", "🙂"}},
		{"invalid bytes alone", "a\xff\xfeb", []string{"a", "\xff", "\xfe", "b"}},
		{"trailing space", "end ", []string{"end", " "}},
		{"empty", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, split(test.text)); diff != "" {
				t.Errorf("pieces of %q mismatch (-want +got):\n%s", test.text, diff)
			}
		})
	}
}

func TestLongWordsAreCutAlike(t *testing.T) {
	for _, word := range []string{"internationalisation", "tokenization", "abcdefg", strings.Repeat("x", 100)} {
		pieces := split(word)
		if strings.Join(pieces, "") != word {
			t.Errorf("pieces of %q do not make it up: %q", word, pieces)
		}
		for _, p := range pieces {
			if len(p) < 2 || len(p) > 6 {
				t.Errorf("piece %q of %q has %d bytes, want 2 to 6", p, word, len(p))
			}
		}
	}
}

// english is prose of the kind the average is stated for.
const english = `A router for a fleet of inference servers has one thing to decide for every request: which server should
have it. Most of what a model is asked begins with text that it has read before, such as the instructions of an
application, the tools that an agent may call, or the earlier turns of a conversation. A server that still holds the
keys and values of that text in its cache does not have to compute them again, and the first token of the answer comes
much sooner. On the other hand, a server with many requests under way makes the next one wait.`

func TestAverageOnEnglish(t *testing.T) {
	got := float64(len(english)) / float64(CountTokens(english))
	if got < 3.6 || got > 4.8 {
		t.Errorf("English prose has %.2f bytes a token, want about 4", got)
	}
}

// TestCommonHead checks that texts with a common head have its tokens in common,
// all but those within a dozen bytes of its end.
func TestCommonHead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head := textGen().Draw(t, "head")
		a := Tokenize(nil, head+textGen().Draw(t, "a"))
		b := Tokenize(nil, head+textGen().Draw(t, "b"))
		stable, at := 0, 0
		for _, p := range split(head) {
			if at += len(p); at > len(head)-12 {
				break
			}
			stable++
		}
		if len(a) < stable || len(b) < stable {
			t.Fatalf("%d and %d tokens, want at least %d", len(a), len(b), stable)
		}
		if !slices.Equal(a[:stable], b[:stable]) {
			t.Fatalf("first %d tokens differ: %v and %v", stable, a[:stable], b[:stable])
		}
	})
}

func textGen() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`([a-z]{1,12}[ .,\n]{1,2}){0,20}`),
		rapid.StringMatching(`[ \t\n0-9{}":a-zé日本]{0,60}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) string { return string(b) }),
	)
}

func TestSpecialTokensAreNotText(t *testing.T) {
	if token := Special("begin of turn"); token < specialBit {
		t.Errorf("special token %#x lacks the special bit", token)
	}
	for _, token := range Tokenize(nil, english) {
		if token >= specialBit {
			t.Errorf("text made the special token %#x", token)
		}
	}
}

// TestAnswersTokeniseBack checks that an answer that returns as text of a later
// prompt has the tokens it was generated with.
func TestAnswersTokeniseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, n := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 200).Draw(t, "n")
		answer := Output(seed, n)
		if len(answer) != n {
			t.Fatalf("Output(%d, %d) has %d pieces", seed, n, len(answer))
		}
		if !slices.Equal(OutputTokens(nil, answer), Tokenize(nil, JoinOutput(answer))) {
			t.Fatalf("tokens of %q differ when read back", JoinOutput(answer))
		}
		if !slices.Equal(answer[:n/2], Output(seed, n/2)) {
			t.Fatalf("%q does not begin with the answer of half its length", answer)
		}
	})
}

func TestTokenizeAllocations(t *testing.T) {
	dst := make([]Token, 0, len(english))
	if got := testing.AllocsPerRun(100, func() { dst = Tokenize(dst[:0], english) }); got != 0 {
		t.Errorf("Tokenize allocates %v times, want 0", got)
	}
}

func FuzzTokenize(f *testing.F) {
	for _, seed := range []string{"", english, "  x", "12345", "日本語", "a\xff\xfe", "\r\n\t ", "naïve café"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pieces := split(text)
		if strings.Join(pieces, "") != text {
			t.Fatalf("pieces %q do not make up %q", pieces, text)
		}
		if n := CountTokens(text); n != len(Tokenize(nil, text)) || n != len(pieces) {
			t.Fatalf("CountTokens = %d, Tokenize has %d, pieces are %d", n, len(Tokenize(nil, text)), len(pieces))
		}
		for _, p := range pieces {
			if len(p) == 0 || len(p) > 7 {
				t.Fatalf("piece %q has %d bytes", p, len(p))
			}
			if utf8.ValidString(text) && !utf8.ValidString(p) {
				t.Fatalf("piece %q of valid text splits a character", p)
			}
		}
	})
}

func BenchmarkTokenize(b *testing.B) {
	dst := make([]Token, 0, len(english))
	b.SetBytes(int64(len(english)))
	for b.Loop() {
		dst = Tokenize(dst[:0], english)
	}
}
