package prompt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/kvindex"
)

var seeds = []string{
	`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"u"}}]}]}`,
	`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]}`,
	`{"prompt":[[1,2],[3]],"n":2}`, `{"prompt":[1, 2,"x",-3 , 4e5]}`, `{"prompt":["a","b"],"prompt_embeds":["x"]}`, `{"prompt":[{"a":1}]}`,
	`{"instructions":"i","input":[{"type":"reasoning","summary":[{"text":"x"}]},{"type":"function_call","name":"f"}]}`,
	`{"system":[{"type":"text","text":"x-anthropic-billing-header"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":[]}]}]}`,
	`{"\u006dodel":"\ud83d\ude00","stream_options":{"include_usage":false},"stream":"yes"}`,
	"\xEF\xBB\xBF{ }", `{"a":NaN}`, `{"model":"a","model":null}`, `[`, ``,
}

// Whatever the bytes: no panic, the same keys twice, a stream no longer than the
// body allows for, and what JSON cannot be is refused.
func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		for kind := prompt.Chat; kind <= prompt.Raw; kind++ {
			f.Add(uint8(kind), []byte(seed), 3)
		}
	}
	f.Fuzz(func(t *testing.T, k uint8, body []byte, limit int) {
		kind := prompt.Kind(k % uint8(prompt.Raw+1))
		before := bytes.Clone(body)
		r, err := prompt.Parse(kind, body)
		if err != nil {
			if json.Valid(body) {
				checkRefusal(t, body, err)
			}
			checkScanned(t, body, err)
			return
		}
		defer r.Release()
		keys := r.Hash(small, limit, "")
		first := slices.Clone(keys.Blocks)
		if keys.StreamBytes > 64+17*len(body) || keys.HashedBytes > keys.StreamBytes || len(first) != keys.HashedBytes/small.BlockBytes {
			t.Fatalf("%d bytes of body: %+v", len(body), keys)
		}
		binary, whole := r.HasBinary(), r.Hash(small, kvindex.Unlimited, "").StreamBytes
		again, err := prompt.Parse(kind, body)
		if err != nil {
			t.Fatalf("second Parse: %v", err)
		}
		defer again.Release()
		if again.HasBinary() != binary || again.N() != r.N() || again.Model() != r.Model() {
			t.Fatal("the second reading differs")
		}
		// Beyond a cut, invalid bytes are counted as they are rather than as U+FFFD.
		if whole != keys.StreamBytes && utf8.Valid(body) {
			t.Fatalf("%d bytes of stream, %d when it is cut", whole, keys.StreamBytes)
		}
		if second := again.Hash(small, limit, "").Blocks; !slices.Equal(first, second) {
			t.Fatalf("keys differ: %x, then %x", first, second)
		}
		if !bytes.Equal(before, body) {
			t.Fatal("the body changed")
		}
	})
}

// checkRefusal checks that valid JSON is refused only for what is documented.
func checkRefusal(t *testing.T, body []byte, err error) {
	t.Helper()
	e, ok := errors.AsType[*prompt.Error](err)
	if !ok {
		t.Fatalf("error is a %T", err)
	}
	object := bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
	if e.Code == prompt.CodeInvalidJSON && object {
		t.Fatalf("valid JSON refused: %v", err)
	}
}

// checkScanned checks that what is refused as JSON is refused also where nothing is noted of it,
// as of input lists, whose numbers are skipped in another way.
func checkScanned(t *testing.T, body []byte, err error) {
	t.Helper()
	if e, ok := errors.AsType[*prompt.Error](err); !ok || e.Code != prompt.CodeInvalidJSON {
		return
	}
	if r, err := prompt.Parse(prompt.Embeddings, body); err == nil {
		r.Release()
		t.Fatalf("%q is accepted where nothing is noted of it, and refused where it is", body)
	}
}

// Whatever encoding/json reads in a body, spelled otherwise, has the same keys.
func FuzzSpelling(f *testing.F) {
	for _, seed := range seeds {
		for _, kind := range []prompt.Kind{prompt.Chat, prompt.Responses, prompt.Messages} {
			f.Add(uint8(kind), []byte(seed))
		}
	}
	f.Add(uint8(prompt.Chat), []byte(`{"messages":[{"role":"us\u0065r","content":"a\nb\"c\\d\u00e9\ud83d\ude00\ud800\/"}],"tools":[{"type":"function","function":{"name":"f","a":1.50,"a":[{}]}}]}`))
	f.Fuzz(func(t *testing.T, k uint8, body []byte) {
		kind := []prompt.Kind{prompt.Chat, prompt.Responses, prompt.Messages}[k%3]
		body = bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF"))
		if !json.Valid(body) || !utf8.Valid(body) { // what is no text is hashed as it is
			return
		}
		other, err := respelled(body)
		if err != nil {
			return // it is nested deeper than encoding/json goes
		}
		a, errA := prompt.Parse(kind, body)
		b, errB := prompt.Parse(kind, other)
		if errA != nil || errB != nil {
			if (errA == nil) != (errB == nil) {
				t.Fatalf("%s: %v\n%s: %v", body, errA, other, errB)
			}
			return
		}
		defer a.Release()
		defer b.Release()
		keysA, keysB := a.Hash(small, kvindex.Unlimited, ""), b.Hash(small, kvindex.Unlimited, "")
		if keysA.Prefix != keysB.Prefix || !slices.Equal(keysA.Blocks, keysB.Blocks) {
			t.Fatalf("the keys differ:\n%s\n%q\n%s\n%q", body, a.Stream(0), other, b.Stream(0))
		}
		if a.Model() != b.Model() || a.N() != b.N() || a.HasBinary() != b.HasBinary() || a.Streaming() != b.Streaming() || a.UsageAsked() != b.UsageAsked() {
			t.Fatalf("read otherwise:\n%s\n%s", body, other)
		}
	})
}

// respelled is a body as encoding/json reads it, with other white space, and every second
// character of its texts in an escape.
func respelled(body []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var out bytes.Buffer
	type container struct {
		object  bool
		members int // keys count as well
	}
	var open []container
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		if end, ok := token.(json.Delim); ok && (end == '}' || end == ']') {
			open = open[:len(open)-1]
			fmt.Fprintf(&out, "\r%c", end)
			continue
		}
		if len(open) > 0 {
			in := &open[len(open)-1]
			switch {
			case in.object && in.members%2 == 1:
				out.WriteString(" : ")
			case in.members > 0:
				out.WriteString("\n,\t")
			}
			in.members++
		}
		switch v := token.(type) {
		case json.Delim:
			open = append(open, container{object: v == '{'})
			fmt.Fprintf(&out, "%c ", v)
		case string:
			out.WriteByte('"')
			for i, r := range []rune(v) {
				switch {
				case r > 0xFFFF && i%2 == 0:
					high, low := utf16.EncodeRune(r)
					fmt.Fprintf(&out, `\u%04X\u%04x`, high, low)
				case r < ' ' || r == '"' || r == '\\' || i%2 == 0 && r <= 0xFFFF:
					fmt.Fprintf(&out, `\u%04x`, r)
				default:
					out.WriteRune(r)
				}
			}
			out.WriteByte('"')
		case nil:
			out.WriteString("null")
		default: // a number as it is spelled, or a truth
			fmt.Fprint(&out, v)
		}
	}
}

func FuzzSetModel(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed), "other\"")
	}
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		got, err := prompt.SetModel(body, model)
		if !isObject(body) {
			return
		}
		if err != nil {
			checkRefusal(t, body, err)
			return
		}
		if !json.Valid(got) {
			t.Fatalf("SetModel(%s) = %s", body, got)
		}
		checkSetModel(t, body, model)
	})
}

func FuzzSetIncludeUsage(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := prompt.SetIncludeUsage(body)
		if !isObject(body) {
			return
		}
		if err != nil {
			checkRefusal(t, body, err)
			return
		}
		if !json.Valid(got) {
			t.Fatalf("SetIncludeUsage(%s) = %s", body, got)
		}
		checkSetIncludeUsage(t, body)
	})
}

func FuzzSetStream(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := prompt.SetStream(body)
		if !isObject(body) {
			return
		}
		if err != nil {
			checkRefusal(t, body, err)
			return
		}
		want, have := members(t, body), members(t, got)
		if string(have["stream"]) != "true" {
			t.Fatalf("SetStream(%s) = %s", body, got)
		}
		delete(want, "stream")
		delete(have, "stream")
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatalf("SetStream(%s) changed more (-want +got):\n%s", body, diff)
		}
		if again, err := prompt.SetStream(got); err != nil || &again[0] != &got[0] {
			t.Fatalf("SetStream(%s) is not at rest: %s, %v", got, again, err)
		}
	})
}

func isObject(body []byte) bool {
	return json.Valid(body) && bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
}

func FuzzMultipartModel(f *testing.F) {
	for _, boundary := range []string{"xyz", "a=b"} {
		contentType, body := form(f, boundary, "file", "abc", "model", "m", "stream", "true")
		f.Add(contentType, body)
	}
	f.Add("multipart/form-data; boundary=\"", []byte("--\r\n"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		model, _, err := prompt.MultipartModel(contentType, body)
		if err != nil && model != "" || len(model) > len(body) {
			t.Fatalf("MultipartModel = %q, %v", model, err)
		}
	})
}
