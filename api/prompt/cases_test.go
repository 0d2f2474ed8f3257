package prompt_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/kvindex"
)

// parse parses body and releases it when the test ends.
func parse(tb testing.TB, kind prompt.Kind, body string) *prompt.Request {
	tb.Helper()
	r, err := prompt.Parse(kind, []byte(body))
	if err != nil {
		tb.Fatalf("Parse(%v, %.200q): %v", kind, body, err)
	}
	tb.Cleanup(r.Release)
	return r
}

// small is a scope with the smallest blocks, so that short texts have several.
var small = kvindex.Scope{BlockBytes: kvindex.MinBlockBytes, Pool: "pool", Model: "m"}

func keysOf(tb testing.TB, kind prompt.Kind, body string) []kvindex.Key {
	tb.Helper()
	return slices.Clone(parse(tb, kind, body).Hash(small, kvindex.Unlimited, "").Blocks)
}

// shared returns how many leading keys a and b share.
func shared(a, b []kvindex.Key) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// long returns text of n bytes in which no two blocks are equal.
func long(seed string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s %d. ", seed, i)
	}
	return b.String()[:n]
}

// same checks that all bodies have the keys of the first, and that it has some.
func same(t *testing.T, kind prompt.Kind, bodies ...string) {
	t.Helper()
	want := keysOf(t, kind, bodies[0])
	if len(want) < 2 {
		t.Fatalf("%d blocks of %q, want at least 2", len(want), bodies[0])
	}
	for _, body := range bodies[1:] {
		if diff := cmp.Diff(want, keysOf(t, kind, body)); diff != "" {
			t.Errorf("keys of %s differ from those of %s (-want +got):\n%s", body, bodies[0], diff)
		}
	}
}

// apart checks that no two bodies share a key.
func apart(t *testing.T, kind prompt.Kind, bodies ...string) {
	t.Helper()
	for i, a := range bodies {
		for _, b := range bodies[i+1:] {
			if n := shared(keysOf(t, kind, a), keysOf(t, kind, b)); n > 0 {
				t.Errorf("%s\nand %s\nshare %d blocks, want none", a, b, n)
			}
		}
	}
}

func TestRP01StringAndParts(t *testing.T) {
	text := long("same", 300)
	same(t, prompt.Chat,
		`{"messages":[{"role":"user","content":"`+text+`"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"`+text+`"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"input_text","text":"`+text+`"}]}]}`,
		`{"messages":[{"role":"user","content":["`+text+`"]}]}`)
}

func TestRP02ToolTurns(t *testing.T) {
	turns := func(assistant, args, result string) string {
		return `{"messages":[{"role":"user","content":"` + long("q", 200) + `"},{"role":"assistant",` + assistant +
			`"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"` + args + `"}}]},` +
			`{"role":"tool","tool_call_id":"c","content":` + result + `},{"role":"user","content":"` + long("r", 200) + `"}]}`
	}
	same(t, prompt.Chat,
		turns(`"content":null,`, "{}", `[{"type":"text","text":"42"}]`),
		turns(``, "{}", `"42"`),
		turns(`"content":"",`, "{}", `"42"`))
	a := keysOf(t, prompt.Chat, turns("", `{\"a\":1}`, `"42"`))
	b := keysOf(t, prompt.Chat, turns("", `{\"a\":2}`, `"42"`))
	if n := shared(a, b); n < 3 || n == len(a) {
		t.Errorf("other arguments of a call share %d of %d blocks, want those before the call and no more", n, len(a))
	}
}

func TestRP03CompletionPrompts(t *testing.T) {
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = fmt.Sprint(i * 37)
	}
	list := strings.Join(ids, ",")
	same(t, prompt.Completions,
		`{"prompt":[`+list+`]}`,
		`{"prompt":[`+strings.ReplaceAll(list, ",", " ,\n")+`]}`,
		`{"prompt":[[`+list+`],[1,2]]}`,
		`{"prompt":[[`+list+`],"x"]}`)
	text := long("text", 300)
	same(t, prompt.Completions, `{"prompt":"`+text+`"}`, `{"prompt":["`+text+`","b"]}`, `{"inputs":"`+text+`"}`)
	apart(t, prompt.Completions, `{"prompt":"`+text+`"}`, `{"prompt":[`+list+`]}`)
	ids[50] += "1" // its bytes start at 201
	other := keysOf(t, prompt.Completions, `{"prompt":[`+strings.Join(ids, ",")+`]}`)
	if n, want := shared(keysOf(t, prompt.Completions, `{"prompt":[`+list+`]}`), other), 201/small.BlockBytes; n != want {
		t.Errorf("another id in the middle leaves %d of %d blocks, want %d", n, len(other), want)
	}
	for body, want := range map[string]int{
		`{"prompt":"a"}`: 1, `{"prompt":["a","b"]}`: 2, `{"prompt":[1,2,3]}`: 1, `{"prompt":[[1],[2],[3]],"n":2}`: 6,
		`{"prompt":["a"],"n":0}`: 1, `{"prompt":"a","n":-4}`: 1, `{"prompt":"a","n":99999999999999999999}`: prompt.MaxN,
		`{"prompt":"a","n":2,"best_of":5}`: 5, `{"prompt":"a","n":"3"}`: 3, `{"prompt":"a","n":2.0}`: 2,
	} {
		r := parse(t, prompt.Completions, body)
		if r.N() != want || r.NoEvidence() != (want > 1) {
			t.Errorf("%s: N = %d, NoEvidence = %v, want %d, %v", body, r.N(), r.NoEvidence(), want, want > 1)
		}
	}
}

func TestRP10ArrivalDoesNotMatter(t *testing.T) {
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("naïve 你好 ", 60) + `"}]}`
	want := keysOf(t, prompt.Chat, body)
	chunked, err := io.ReadAll(iotest.OneByteReader(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	roomy := append(make([]byte, 0, 4*len(body)), body...)
	for _, b := range [][]byte{chunked, roomy} {
		before := bytes.Clone(b)
		if diff := cmp.Diff(want, keysOf(t, prompt.Chat, string(b))); diff != "" {
			t.Errorf("keys differ (-want +got):\n%s", diff)
		}
		if !bytes.Equal(b, before) {
			t.Error("Parse changed the body")
		}
	}
}

func TestRP13ResponsesInput(t *testing.T) {
	text, system := long("input", 300), long("system", 100)
	same(t, prompt.Responses,
		`{"instructions":"`+system+`","input":"`+text+`"}`,
		`{"input":[{"role":"user","content":"`+text+`"}],"instructions":"`+system+`"}`,
		`{"instructions":"`+system+`","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"`+text+`"}]}]}`,
		`{"input":[{"role":"system","content":"`+system+`"},{"type":"message","id":"x","role":"user","content":"`+text+`"}]}`)
	apart(t, prompt.Responses,
		`{"instructions":"a","input":"`+text+`"}`, `{"instructions":"b","input":"`+text+`"}`, `{"input":"`+text+`"}`)
	for body, want := range map[string]bool{
		`{"input":"x"}`: false,
		`{"input":"x","tools":[{"type":"function","name":"f"}]}`:  false,
		`{"input":"x","tools":[{"type":"code_interpreter"}]}`:     true,
		`{"input":"x","previous_response_id":"resp_1"}`:           true,
		`{"input":"x","previous_response_id":null}`:               false,
		`{"input":"x","truncation":"auto"}`:                       true,
		`{"input":"x","truncation":"disabled","n":null,"echo":1}`: false,
	} {
		if got := parse(t, prompt.Responses, body).NoEvidence(); got != want {
			t.Errorf("NoEvidence of %s = %v, want %v", body, got, want)
		}
	}
}

func TestRP14AnthropicMessages(t *testing.T) {
	text, system := long("user", 300), long("system", 100)
	same(t, prompt.Messages,
		`{"system":"`+system+`","messages":[{"role":"user","content":"`+text+`"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"`+text+`","cache_control":{"type":"ephemeral"}}]}],"system":[{"type":"text","text":"`+system+`"}]}`,
		`{"system":[{"type":"text","text":"x-anthropic-billing-header: v=1"},{"type":"text","text":"`+system+`","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"`+text+`"}]}`,
		`{"system":[{"type":"text","text":"x-anthropic-billing-header: v=2"},{"type":"text","text":"`+system+`"}],"messages":[{"role":"user","content":"`+text+`"}],"max_tokens":1,"metadata":{"user_id":"u"}}`)
	result := func(content string) string {
		return `{"messages":[{"role":"user","content":"` + text + `"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":` + content + `}]}]}`
	}
	same(t, prompt.Messages, result(`"`+text+`"`), result(`[{"type":"text","text":"`+text+`"}]`))
}

func TestRP16EmbeddingsHaveNoKeys(t *testing.T) {
	inputs := strings.Repeat(`"`+long("input", 400)+`",`, 2047) + `"x"`
	ids := strings.Repeat("[1,2,3],", 200_000) + "[4]" // more values than a tree may have
	for _, list := range []string{inputs, ids} {
		r := parse(t, prompt.Embeddings, `{"input":[`+list+`],"model":"e","encoding_format":"base64"}`)
		keys := r.Hash(small, kvindex.Unlimited, "hint")
		if diff := cmp.Diff(prompt.Keys{}, keys); diff != "" {
			t.Errorf("Hash mismatch (-want +got):\n%s", diff)
		}
		if r.Model() != "e" || r.N() != 1 || r.HasBinary() {
			t.Errorf("model %q, n %d, binary %v; want e, 1, false", r.Model(), r.N(), r.HasBinary())
		}
	}
}

func TestHA01BlocksAreAChain(t *testing.T) {
	chat := func(text string) string {
		return `{"messages":[{"role":"user","content":"` + text + `"}]}`
	}
	x, y := long("x", 640), long("y", 640)
	kx, ky, kyx := keysOf(t, prompt.Chat, chat(x)), keysOf(t, prompt.Chat, chat(y)), keysOf(t, prompt.Chat, chat(y+x))
	if n := shared(ky, kyx); n != len(ky) {
		t.Errorf("y+x shares %d blocks with y, want all %d", n, len(ky))
	}
	for _, key := range kyx {
		if slices.Contains(kx, key) {
			t.Errorf("y+x has block %x of x, want none", key)
		}
	}
}

// The start of the stream of a chat whose first text is the user's: two frames and
// the role.
const opening = len("_user_")

func TestHA02BlockEdges(t *testing.T) {
	for size := kvindex.MinBlockBytes; size <= 256; size += 64 {
		for _, char := range []string{"😀", "界", "e\u0301", "\u00e9"} {
			for n := size - 12; n <= size+2; n++ {
				checkEdge(t, size, strings.Repeat("a", n), char)
			}
		}
	}
}

// checkEdge checks blocks and cuts near an edge of a block of size bytes that
// lies in or near char, which follows text.
func checkEdge(t *testing.T, size int, text, char string) {
	t.Helper()
	hash := func(tail string, prefixLength int) prompt.Keys {
		r := parse(t, prompt.Chat, `{"messages":[{"role":"user","content":"`+text+char+tail+`"}]}`)
		return r.Hash(kvindex.Scope{BlockBytes: size}, prefixLength, "")
	}
	a := hash(strings.Repeat("x", 2*size), kvindex.Unlimited)
	b := hash(strings.Repeat("y", 2*size), kvindex.Unlimited)
	if got, want := shared(a.Blocks, b.Blocks), (opening+len(text+char))/size; got != want {
		t.Errorf("size %d, %d bytes and %q: %d blocks shared, want %d", size, len(text), char, got, want)
	}
	first := string([]rune(char)[:1])
	if got, want := hash("b", len(text)+1).HashedBytes, opening+len(text+first); got != want {
		t.Errorf("cut behind %d bytes and the first character of %q: %d bytes hashed, want %d", len(text), char, got, want)
	}
}

func TestHA05HeadComesFirst(t *testing.T) {
	chat := func(head string) string {
		return `{"messages":[{"role":"user","content":"` + long("q", 300) + `"}]` + head + `}`
	}
	a := `{"type":"function","function":{"name":"alpha","parameters":{"type":"object","a":1}}}`
	b := `{"type":"function","function":{"name":"beta","parameters":{"type":"object","a":1}}}`
	apart(t, prompt.Chat,
		chat(""),
		chat(`,"tools":[`+a+`]`), chat(`,"tools":[`+b+`]`), chat(`,"tools":[`+a+`,`+b+`]`), chat(`,"tools":[`+b+`,`+a+`]`),
		chat(`,"tools":[`+strings.Replace(a, "1", "1.0", 1)+`]`),
		chat(`,"chat_template_kwargs":{"enable_thinking":false}`), chat(`,"chat_template_kwargs":{"enable_thinking":true}`),
		chat(`,"chat_template":"x"`), chat(`,"reasoning_effort":"low"`), chat(`,"documents":[{"a":1}]`))
	same(t, prompt.Chat,
		chat(`,"tools":[`+a+`,`+b+`]`),
		chat(`, "tools" : [ `+a+` , `+b+` ] , "tool_choice":"auto"`),
		chat(`,"tools":[{"function":{"parameters":{"type":"object","a":1},"name":"\u0061lpha"},"type":"function"},`+b+`]`))
	tail := chat(`,"add_generation_prompt":false`)
	plain := keysOf(t, prompt.Chat, chat(""))
	if n := shared(plain, keysOf(t, prompt.Chat, tail)); n < len(plain)-1 {
		t.Errorf("an option of the prompt's end leaves %d of %d blocks, want all before the end", n, len(plain))
	}
}

func TestHA06EnvelopeCosmetics(t *testing.T) {
	text := long("Ask", 300)
	same(t, prompt.Chat,
		`{"model":"m","messages":[{"role":"system","content":"be kind"},{"role":"user","content":"`+text+`"}]}`,
		`{"messages":[{"content":"be kind","role":"system"},{"content":"`+text+`","role":"user"}],"model":"m"}`,
		" {\n\t\"model\" : \"m\" ,\r\n \"messages\" : [ { \"role\" : \"system\" , \"content\" : \"be kind\" } , { \"role\" : \"user\" , \"content\" : \""+text+"\" } ] }\n",
		"\xEF\xBB\xBF"+`{"\u006dessages":[{"role":"\u0073ystem","content":"be\u0020kind"},{"role":"user","\u0063ontent":"\u0041`+text[1:]+`"}]}`,
		`{"messages":[{"role":"system","content":[{"text":"be kind","type":"text"}]},{"role":"user","content":[{"type":"text","text":"`+text+`"}]}],"stream":true,"stream_options":{"include_usage":true},"temperature":1,"top_p":0.5,"seed":1,"max_tokens":9,"stop":["x"],"user":"u","metadata":{"k":"v"},"n":3,"logit_bias":{"1":2},"response_format":{"type":"json_object"},"tool_choice":"auto","store":true,"priority":3}`)
}

func TestMT01Salts(t *testing.T) {
	chat := func(extra string) string {
		return `{"messages":[{"role":"user","content":"` + long("q", 300) + `"}]` + extra + `}`
	}
	apart(t, prompt.Chat, chat(""), chat(`,"cache_salt":"a"`), chat(`,"cache_salt":"b"`))
	same(t, prompt.Chat, chat(`,"cache_salt":"a"`), chat(`,"cache_salt":"\u0061"`))
	salted := small
	salted.Salt = "a"
	got := parse(t, prompt.Chat, chat(`,"cache_salt":"a"`)).Hash(salted, kvindex.Unlimited, "").Blocks
	if diff := cmp.Diff(keysOf(t, prompt.Chat, chat(`,"cache_salt":"a"`)), got); diff != "" {
		t.Errorf("a scope with the salt and one without differ (-without +with):\n%s", diff)
	}
}

func TestLO01Adapters(t *testing.T) {
	body := `{"model":"x","messages":[{"role":"user","content":"` + long("q", 300) + `"}]}`
	r := parse(t, prompt.Chat, body)
	seen := map[kvindex.Key]string{}
	for _, model := range []string{"base", "adapter-1", "adapter-2"} {
		scope := small
		scope.Model = model
		for _, key := range r.Hash(scope, kvindex.Unlimited, "").Blocks {
			if other, ok := seen[key]; ok {
				t.Errorf("%s shares block %x with %s", model, key, other)
			}
			seen[key] = model
		}
	}
}

func TestInvalidUTF8(t *testing.T) {
	for _, kind := range []prompt.Kind{prompt.Chat, prompt.Completions} {
		r := parse(t, kind, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\xffb\xfb\"}],\"prompt\":\"a\xffb\xfb\"}")
		if got := frames(r.Stream(kvindex.Unlimited)); !strings.HasSuffix(got, "text \"a\uFFFDb\uFFFD\"\n") {
			t.Errorf("%v stream:\n%s", kind, got)
		}
	}
	apart(t, prompt.Chat, // text cannot imitate frames
		`{"messages":[{"role":"user","content":"`+"\xFCa"+long("q", 300)+`"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"a`+long("q", 300)+`"}]}]}`)
}

func TestShape(t *testing.T) {
	for body, want := range map[string]prompt.Kind{
		`{"messages":[],"input":1}`: prompt.Chat, `{"prompt":""}`: prompt.Completions, `{"inputs":"x"}`: prompt.Completions,
		`{"input_ids":[1]}`: prompt.Completions, `{"input":"x"}`: prompt.Responses, `{"x":{"messages":1}}`: prompt.Raw,
		`{"\u006dessages":[]}`: prompt.Chat, `[1]`: prompt.Raw, `text`: prompt.Raw, ``: prompt.Raw, `{"prompt":null,"input":""}`: prompt.Responses,
		`{"messages":[`: prompt.Raw,
	} {
		r := parse(t, prompt.Raw, body)
		if got := r.Shape(); got != want {
			t.Errorf("the shape of %s is %v, want %v", body, got, want)
		}
		if r.Kind() != prompt.Raw {
			t.Errorf("%s was parsed as %v", body, r.Kind())
		}
	}
	if got := parse(t, prompt.Messages, `{"messages":[]}`).Shape(); got != prompt.Messages {
		t.Errorf("what was parsed as messages has the shape of %v", got)
	}
}

func TestStreamUnset(t *testing.T) {
	for body, want := range map[string]bool{
		`{}`: true, `{"stream":null}`: true, `{"stream":false}`: false, `{"stream":true}`: false, `{"stream":true,"stream":null}`: true,
		`{"x":{"stream":true}}`: true, `no object`: false,
	} {
		if got := parse(t, prompt.Raw, body).StreamUnset(); got != want {
			t.Errorf("StreamUnset of %s = %v", body, got)
		}
	}
}

func TestUsageAsked(t *testing.T) {
	for options, want := range map[string]prompt.UsageAsk{
		`{"include_usage":true}`: prompt.UsageYes, `{"include_usage":false}`: prompt.UsageNo, `{"include_usage":null}`: prompt.UsageUnset,
		`{}`: prompt.UsageUnset, `null`: prompt.UsageUnset, `[]`: prompt.UsageUnset, `{"x":{"include_usage":true}}`: prompt.UsageUnset,
		`{"include_usage":true,"include_usage":false}`: prompt.UsageNo, `{"\u0069nclude_usage" : true}`: prompt.UsageYes,
	} {
		if got := parse(t, prompt.Chat, `{"stream_options":`+options+`}`).UsageAsked(); got != want {
			t.Errorf("UsageAsked of %s = %v, want %v", options, got, want)
		}
	}
}
