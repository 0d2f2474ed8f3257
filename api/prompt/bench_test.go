package prompt_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/kvindex"
)

// prose is English with a quotation and a line break now and then.
const prose = "The river had been rising since noon, and by the time the lamps were lit the lower road was gone. " +
	"Nobody spoke of it: they moved the sacks up, one by one, and counted them again.\n" +
	"She said \"not tonight\" and went back to the ledger, where 1,024 lines were waiting. "

// code is text with an escape every 20 bytes.
const code = "func (s *scanner) fail(why fault, at int) int {\n\ts.why, s.at = why, at\n\treturn -1\n}\n\n" +
	"var names = []string{\"chat\", \"completions\", \"responses\"} // see kind.go for all of them\n"

// dense is text that is all escapes and characters beyond ASCII.
const dense = "if s == \"no\" { C:\\code }\n\tÜber die Brücke — 你好 — "

// chatBody returns a chat body of about size bytes: tools, a system text, and turns
// of about 1 KiB.
func chatBody(tb testing.TB, size int, unit string) []byte {
	tb.Helper()
	type object = map[string]any
	turns := []object{{"role": "system", "content": strings.Repeat(unit, 1024/len(unit))}}
	for written := 0; written < size-2000; {
		turn := fmt.Sprint(len(turns)) + strings.Repeat(unit, 1024/len(unit))
		turns = append(turns, object{"role": [...]string{"assistant", "user"}[len(turns)%2], "content": turn})
		quoted, err := json.Marshal(turn)
		if err != nil {
			tb.Fatal(err)
		}
		written += len(quoted) + len(`{"role":"assistant","content":},`)
	}
	body, err := json.Marshal(object{
		"model": "m", "messages": turns, "stream": true, "temperature": 0.7,
		"tools": []object{{"type": "function", "function": object{
			"name": "lookup", "description": "looks things up",
			"parameters": object{"type": "object", "properties": object{"q": object{"type": "string"}}},
		}}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

var scope = kvindex.Scope{BlockBytes: kvindex.DefaultBlockBytes, Pool: "pool", Model: "m"}

// go test -run '^$' -bench . ./api/prompt
func BenchmarkParseHash(b *testing.B) {
	for _, kib := range []int{2, 32, 256} {
		b.Run(fmt.Sprintf("chat=%dKiB", kib), func(b *testing.B) {
			run(b, prompt.Chat, chatBody(b, kib<<10, prose))
		})
	}
	b.Run("code=32KiB", func(b *testing.B) { run(b, prompt.Chat, chatBody(b, 32<<10, code)) })
	b.Run("dense=32KiB", func(b *testing.B) { run(b, prompt.Chat, chatBody(b, 32<<10, dense)) })
	b.Run("tokens=8192", func(b *testing.B) {
		body := bytes.NewBufferString(`{"model":"m","prompt":[`)
		for i := range 8192 {
			fmt.Fprintf(body, "%d,", 1000+i)
		}
		body.WriteString(`0]}`)
		run(b, prompt.Completions, body.Bytes())
	})
}

func run(b *testing.B, kind prompt.Kind, body []byte) {
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := prompt.Parse(kind, body)
		if err != nil {
			b.Fatal(err)
		}
		if keys := r.Hash(scope, kvindex.Unlimited, ""); !keys.HasPrefix {
			b.Fatal("no prefix")
		}
		r.Release()
	}
}

func BenchmarkParse(b *testing.B) {
	body := chatBody(b, 32<<10, prose)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := prompt.Parse(prompt.Chat, body)
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}

func BenchmarkSetIncludeUsage(b *testing.B) {
	body := chatBody(b, 32<<10, prose)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := prompt.SetIncludeUsage(body); err != nil {
			b.Fatal(err)
		}
	}
}
