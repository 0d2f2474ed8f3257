package workload

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// lexicon is the words of one code base: what its files, functions and values are
// called. Code, logs and prose made from one lexicon look related; from two, not.
type lexicon struct {
	nouns, verbs []string
}

// The syllables of nouns, and the verbs of programs.
var (
	onsets = strings.Fields("b c d f g h j l m n p r s t v w br cl dr fl gr pl qu sh st th tr")
	nuclei = strings.Fields("a e i o u ai ea io ou")
	codas  = strings.Fields("ck l m n nd r rt s st t x ng")
	verbs  = strings.Fields("add apply build check clear close copy count drop fetch find flush index join load " +
		"lock log merge move open parse pop prune push read reset route scan send set sort split start stop store " +
		"swap sync trim update verify wait write")
)

// The words between the words.
var (
	determiners = strings.Fields("the the the a each every this no any")
	adjectives  = strings.Fields("new old next last first empty stale shared remote local pending open missing double")
	joints      = strings.Fields("before after when unless while because and but so that until")
	levels      = strings.Fields("DEBUG INFO INFO INFO WARN ERROR")
	kinds       = strings.Fields("string int bool []byte error time.Time float64")
)

const lexiconNouns = 90

func newLexicon(rng *rand.Rand) *lexicon {
	l := &lexicon{verbs: verbs}
	for range lexiconNouns {
		var word strings.Builder
		for range 1 + rng.IntN(2) {
			word.WriteString(any1(rng, onsets) + any1(rng, nuclei))
		}
		word.WriteString(any1(rng, codas))
		l.nouns = append(l.nouns, word.String())
	}
	return l
}

// any1 picks one of words, all alike.
func any1(rng *rand.Rand, words []string) string { return words[rng.IntN(len(words))] }

// writer writes text in the words of a lexicon.
type writer struct {
	strings.Builder
	rng *rand.Rand
	*lexicon
}

// noun picks a noun; early ones are picked much more often, as names are in code.
func (w *writer) noun() string {
	u := w.rng.Float64()
	return w.nouns[int(u*u*float64(len(w.nouns)))]
}

func (w *writer) verb() string { return any1(w.rng, w.verbs) }

// name returns a noun or two joined as Go does; exported begins it with a capital.
func (w *writer) name(exported bool) string {
	name := w.noun()
	if w.rng.IntN(2) == 0 {
		name += capital(w.noun())
	}
	if exported {
		name = capital(name)
	}
	return name
}

func (w *writer) method() string { return capital(w.verb()) + capital(w.noun()) }

func (w *writer) path() string { return w.noun() + "/" + w.noun() + "_" + w.verb() + ".go" }

// capital returns a word, which is ASCII, with a capital first letter.
func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// fill calls write until about size bytes have been added.
func (w *writer) fill(size int, write func()) {
	for end := w.Len() + size; w.Len() < end; {
		write()
	}
}

// put adds formatted text.
func (w *writer) put(format string, args ...any) { fmt.Fprintf(w, format, args...) }

// sentence writes a sentence of prose.
func (w *writer) sentence() {
	clause := func() string {
		return fmt.Sprintf("%s %s %s must %s %s %s", any1(w.rng, determiners), any1(w.rng, adjectives), w.noun(),
			w.verb(), any1(w.rng, determiners), w.noun())
	}
	w.WriteString(capital(clause()))
	if w.rng.IntN(2) == 0 {
		w.put(" %s %s", any1(w.rng, joints), clause())
	}
	w.WriteString(". ")
}

// function writes a function as a file viewer shows it.
func (w *writer) function() {
	receiver, arg := w.noun(), w.noun()
	w.put("func (%s *%s) %s(ctx context.Context, %s %s) (%s, error) {\n", receiver[:1], capital(receiver), w.method(),
		arg, any1(w.rng, kinds), any1(w.rng, kinds))
	for range 1 + w.rng.IntN(5) {
		value := w.name(false)
		switch w.rng.IntN(4) {
		case 0:
			w.put("\t%s, err := %s.%s.%s(ctx, %s)\n\tif err != nil {\n\t\treturn nil, fmt.Errorf(\"%s %s: %%w\", err)\n\t}\n",
				value, receiver[:1], w.name(false), w.method(), arg, w.verb(), w.noun())
		case 1:
			w.put("\tfor _, %s := range %s.%s {\n\t\t%s.%s(%s, %d)\n\t}\n", value, receiver[:1], w.name(false), receiver[:1],
				w.method(), value, w.rng.IntN(512))
		case 2:
			w.put("\tif %s.%s > %d {\n\t\t%s = %s.%s()\n\t}\n", receiver[:1], w.name(false), w.rng.IntN(4096), value,
				receiver[:1], w.method())
		default:
			w.put("\t// %s.\n\t%s := %s.%s(%q, %t)\n", w.noun()+" may "+w.verb()+" "+w.noun(), value, receiver[:1], w.method(),
				w.path(), w.rng.IntN(2) == 0)
		}
	}
	w.put("\treturn %s.%s, nil\n}\n\n", receiver[:1], w.name(false))
}

// logLine writes a line of a service's log.
func (w *writer) logLine() {
	w.put("2026-03-%02dT%02d:%02d:%02d.%03dZ %-5s %s/%s: %s %s id=%08x took=%dms\n", 1+w.rng.IntN(28), w.rng.IntN(24),
		w.rng.IntN(60), w.rng.IntN(60), w.rng.IntN(1000), any1(w.rng, levels), w.noun(), w.noun(), w.verb(), w.noun(),
		w.rng.Uint32(), w.rng.IntN(2000))
}

// grepLine writes a hit of a search.
func (w *writer) grepLine() {
	w.put("%s:%d:\t%s.%s(%s, %d)\n", w.path(), 1+w.rng.IntN(900), w.name(false), w.method(), w.name(false), w.rng.IntN(100))
}

// testLine writes a line of a test run.
func (w *writer) testLine() {
	if w.rng.IntN(6) == 0 {
		w.put("    %s_test.go:%d: %s = %d, want %d\n", w.noun(), 10+w.rng.IntN(400), w.name(false), w.rng.IntN(100), w.rng.IntN(100))
		return
	}
	w.put("--- PASS: Test%s (%.2fs)\n", w.method(), w.rng.Float64())
}

// tool writes the definition of a tool as JSON.
func (w *writer) tool() {
	w.put("{\"name\": \"%s_%s\", \"description\": \"", w.verb(), w.noun())
	for range 2 {
		w.sentence()
	}
	w.put("\", \"parameters\": {\"type\": \"object\", \"properties\": {")
	for i := range 2 + w.rng.IntN(3) {
		if i > 0 {
			w.put(", ")
		}
		w.put("\"%s_%s\": {\"type\": \"string\", \"description\": \"%s %s\"}", w.noun(), w.noun(), any1(w.rng, adjectives), w.noun())
	}
	w.put("}}}\n")
}
