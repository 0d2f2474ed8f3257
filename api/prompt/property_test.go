package prompt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/kvindex"
)

// A node is JSON that can be spelled in many ways: a literal, or the members of an
// object or array.
type node struct {
	literal string // spelled as it is
	text    string // spelled with or without escapes
	kind    byte   // 'l', 's', 'a', 'o', and 'f' for an object whose order is part of the prompt
	keys    []string
	items   []node
}

func text(s string) node         { return node{kind: 's', text: s} }
func literal(s string) node      { return node{kind: 'l', literal: s} }
func list(items ...node) node    { return node{kind: 'a', items: items} }
func object(members ...any) node { return members2node('o', members) }
func fixed(members ...any) node  { return members2node('f', members) }
func (n *node) add(key string, item node) {
	n.keys, n.items = append(n.keys, key), append(n.items, item)
}

func members2node(kind byte, members []any) node {
	n := node{kind: kind}
	for i := 0; i < len(members); i += 2 {
		n.add(members[i].(string), members[i+1].(node))
	}
	return n
}

// spell writes n with drawn white space, escapes and order of keys.
func spell(t *rapid.T, b *strings.Builder, n node) {
	space := func() { b.WriteString(rapid.SampledFrom([]string{"", "", "", " ", "\n\t"}).Draw(t, "space")) }
	quote := func(s string) {
		b.WriteByte('"')
		escape := rapid.IntRange(0, 3).Draw(t, "escape")
		for i, r := range s {
			switch {
			case r == '"' || r == '\\':
				b.WriteByte('\\')
				b.WriteRune(r)
			case r == '\n' && escape > 1:
				b.WriteString(`\n`)
			case r < ' ' || r < 0x10000 && escape > 0 && i%(4*escape) == 0:
				fmt.Fprintf(b, `\u%04x`, r)
			default:
				b.WriteRune(r)
			}
		}
		b.WriteByte('"')
	}
	space()
	switch n.kind {
	case 'l':
		b.WriteString(n.literal)
	case 's':
		quote(n.text)
	case 'a':
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(t, b, item)
		}
		b.WriteByte(']')
	default:
		order := make([]int, len(n.keys))
		for i := range order {
			order[i] = i
		}
		if n.kind == 'o' && len(order) > 1 {
			order = rapid.Permutation(order).Draw(t, "order")
		}
		b.WriteByte('{')
		for i, at := range order {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			quote(n.keys[at])
			space()
			b.WriteByte(':')
			spell(t, b, n.items[at])
		}
		b.WriteByte('}')
	}
	space()
}

func spelled(t *rapid.T, n node) []byte {
	var b strings.Builder
	spell(t, &b, n)
	return []byte(b.String())
}

var words = rapid.StringMatching(`[a-zA-Z"\\ \n,é你😀{}\[\]]{0,90}`)

// drawChat draws a chat with tools, calls and parts.
func drawChat(t *rapid.T) node {
	var turns []node
	for range rapid.IntRange(1, 5).Draw(t, "turns") {
		switch rapid.IntRange(0, 4).Draw(t, "turn") {
		case 0:
			turns = append(turns, object("role", text("user"), "content", text(words.Draw(t, "text"))))
		case 1:
			turns = append(turns, object("role", text("user"), "content", list(
				object("type", text("text"), "text", text(words.Draw(t, "text"))),
				object("type", text("image_url"), "image_url", object("url", text(words.Draw(t, "url")), "detail", text("low"))))))
		case 2:
			turns = append(turns, object("role", text("assistant"), "content", literal("null"), "reasoning", text(words.Draw(t, "thought")),
				"tool_calls", list(object("id", text("c"), "type", text("function"), "function",
					object("name", text("f"), "arguments", text(words.Draw(t, "arguments")))))))
		case 3:
			turns = append(turns, object("role", text("tool"), "tool_call_id", text("c"), "content", text(words.Draw(t, "result"))))
		case 4:
			turns = append(turns, object("role", text("system"), "name", text("n"), "content", text(words.Draw(t, "text"))))
		}
	}
	body := object("model", text("m"), "messages", list(turns...))
	if rapid.Bool().Draw(t, "tools") {
		body.add("tools", list(object("type", text("function"), "function", object("name", text("f"), "description", text(words.Draw(t, "description")),
			"parameters", fixed("type", text("object"), "n", literal("1.50"), "required", list(text("a"), text(words.Draw(t, "required"))))))))
	}
	if rapid.Bool().Draw(t, "kwargs") {
		body.add("chat_template_kwargs", fixed("b", literal("true"), "a", literal("null")))
	}
	return body
}

func hashed(t *rapid.T, kind prompt.Kind, body []byte) (blocks []kvindex.Key, prefix kvindex.Key) {
	r, err := prompt.Parse(kind, body)
	if err != nil {
		t.Fatalf("Parse(%s): %v", body, err)
	}
	defer r.Release()
	keys := r.Hash(small, kvindex.Unlimited, "")
	return slices.Clone(keys.Blocks), keys.Prefix
}

func TestHA06AnySpellingHasTheSameKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chat := drawChat(t)
		a := spelled(t, chat)
		for _, noise := range []string{"temperature", "stream", "user", "seed"} {
			if rapid.Bool().Draw(t, noise) {
				chat.add(noise, literal(rapid.SampledFrom([]string{"1", "true", "null"}).Draw(t, "value")))
			}
		}
		b := spelled(t, chat)
		keysA, prefixA := hashed(t, prompt.Chat, a)
		keysB, prefixB := hashed(t, prompt.Chat, b)
		if prefixA != prefixB || !slices.Equal(keysA, keysB) {
			t.Fatalf("keys differ:\n%s\n%s", a, b)
		}
	})
}

func TestLateTextSharesAllEarlierBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chat := drawChat(t)
		ended := func(last string) []byte {
			c := node{kind: 'o', keys: slices.Clone(chat.keys), items: slices.Clone(chat.items)}
			at := slices.Index(c.keys, "messages")
			c.items[at].items = append(slices.Clone(c.items[at].items), object("role", text("user"), "content", text(last)))
			return spelled(t, c)
		}
		common := words.Draw(t, "common")
		before := ended(common)
		r, err := prompt.Parse(prompt.Chat, before)
		if err != nil {
			t.Fatal(err)
		}
		bytesBefore := r.Hash(small, kvindex.Unlimited, "").StreamBytes
		r.Release()
		if common == "" {
			return // no text at all has no frame either
		}
		a, _ := hashed(t, prompt.Chat, ended(common+"A"+words.Draw(t, "a")))
		b, _ := hashed(t, prompt.Chat, ended(common+"B"+words.Draw(t, "b")))
		if got, want := shared(a, b), bytesBefore/small.BlockBytes; got != want {
			t.Fatalf("%d blocks shared, want the %d before the difference", got, want)
		}
	})
}

func TestPrefixLengthIsAPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := spelled(t, drawChat(t))
		r, err := prompt.Parse(prompt.Chat, body)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		whole := r.Hash(small, kvindex.Unlimited, "")
		blocks := slices.Clone(whole.Blocks)
		cut := r.Hash(small, rapid.IntRange(1, 400).Draw(t, "limit"), "")
		if cut.StreamBytes != whole.StreamBytes || cut.HashedBytes > whole.HashedBytes {
			t.Fatalf("cut %+v of %+v", cut, whole)
		}
		if n := shared(blocks, cut.Blocks); n != len(cut.Blocks) || n != cut.HashedBytes/small.BlockBytes {
			t.Fatalf("%d of %d cut blocks are blocks of the whole", n, len(cut.Blocks))
		}
		if !slices.Equal(cut.Kept, blocks) {
			t.Fatalf("%d keys are kept, want all %d of the whole", len(cut.Kept), len(blocks))
		}
	})
}
