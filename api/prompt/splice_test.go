package prompt_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/api/prompt"
)

func TestSetModel(t *testing.T) {
	for _, c := range []struct{ body, model, want string }{
		{`{"model":"a"}`, "b", `{"model":"b"}`},
		{` { "x" : 1.0 , "model" : "a" , "y":[ ] } `, "b", ` { "x" : 1.0 , "model" : "b" , "y":[ ] } `},
		{`{"\u006dodel":"a","x":{"model":"a"},"models":"a","Model":"a"}`, "b", `{"\u006dodel":"b","x":{"model":"a"},"models":"a","Model":"a"}`},
		{`{"model":"a","model":null,"model":{"x":"}"}}`, "b", `{"model":"b","model":"b","model":"b"}`},
		{`{"model":"a\"}","z":"\"model\":\"a\""}`, "b", `{"model":"b","z":"\"model\":\"a\""}`},
		{`{"model":"a"}`, "q\"\\\n\x01\x1f<é>\xff", `{"model":"q\"\\\u000a\u0001\u001f<é>` + "\uFFFD" + `"}`},
		{`{"x":1}`, "b", `{"x":1}`},
		{`{}`, "b", `{}`},
		{"\xEF\xBB\xBF{\"model\":\"a\"}", "b", "\xEF\xBB\xBF{\"model\":\"b\"}"},
	} {
		got, err := prompt.SetModel([]byte(c.body), c.model)
		if err != nil {
			t.Errorf("SetModel(%s): %v", c.body, err)
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("SetModel(%s, %q) mismatch (-want +got):\n%s", c.body, c.model, diff)
		}
	}
	for body, want := range map[string]string{
		`{"x":1}`:             `{"x":1,"model":"b"}`,
		`{}`:                  `{"model":"b"}`,
		`{"model":"a","x":1}`: `{"model":"b","x":1}`,
		`{"model":null}`:      `{"model":"b"}`,
	} {
		if got, err := prompt.PutModel([]byte(body), "b"); err != nil || string(got) != want {
			t.Errorf("PutModel(%s) = %s, %v, want %s", body, got, err, want)
		}
	}
	body := []byte(`{"model":"a"}`)
	if got, _ := prompt.SetModel(body, "a"); &got[0] != &body[0] {
		t.Error("SetModel copies a body that needs no change")
	}
}

func TestSetIncludeUsage(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                         `{"stream_options":{"include_usage":true}}`,
		"{ \n}":                      "{ \n" + `"stream_options":{"include_usage":true}}`,
		`{"stream":true}`:            `{"stream":true,"stream_options":{"include_usage":true}}`,
		"{\"a\" : [ 1 ] \n} ":        "{\"a\" : [ 1 ] \n" + `,"stream_options":{"include_usage":true}} `,
		`{"stream_options":null}`:    `{"stream_options":{"include_usage":true}}`,
		`{"stream_options":{}}`:      `{"stream_options":{"include_usage":true}}`,
		`{"stream_options":{ }}`:     `{"stream_options":{ "include_usage":true}}`,
		`{"stream_options":{"x":1}}`: `{"stream_options":{"x":1,"include_usage":true}}`,
		`{"stream_options":{"x":{"include_usage":true}},"y":{"stream_options":{}}}`: `{"stream_options":{"x":{"include_usage":true},"include_usage":true},"y":{"stream_options":{}}}`,
		`{"stream_options":{"include_usage":true}}`:                                 `{"stream_options":{"include_usage":true}}`,
		`{"stream_options":{"include_usage" : false ,"x":1}}`:                       `{"stream_options":{"include_usage" : true ,"x":1}}`,
		`{"stream_options":{"include_usage":null,"include_usage":0}}`:               `{"stream_options":{"include_usage":true,"include_usage":true}}`,
		`{"stream_options":{},"stream_options":null}`:                               `{"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}`,
		`{"\u0073tream_options":{"include\u005fusage":false}}`:                      `{"\u0073tream_options":{"include\u005fusage":true}}`,
		`{"stream_options":[1],"x":"stream_options"}`:                               `{"stream_options":[1],"x":"stream_options"}`,
		`{"x":"}","y":"\\"}`: `{"x":"}","y":"\\","stream_options":{"include_usage":true}}`,
	} {
		got, err := prompt.SetIncludeUsage([]byte(body))
		if err != nil {
			t.Errorf("SetIncludeUsage(%s): %v", body, err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("SetIncludeUsage(%s) mismatch (-want +got):\n%s", body, diff)
		}
		again, err := prompt.SetIncludeUsage(got)
		if err != nil || &again[0] != &got[0] {
			t.Errorf("SetIncludeUsage(%s) is not at rest: %s, %v", got, again, err)
		}
	}
}

func TestSetStream(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:              `{"stream":true}`,
		`{"a":1 }`:        `{"a":1 ,"stream":true}`,
		`{"stream":true}`: `{"stream":true}`,
		`{ "stream" : null, "b":[{"stream":false}]}`: `{ "stream" : true, "b":[{"stream":false}]}`,
		`{"stream":false,"stream":null}`:             `{"stream":true,"stream":true}`,
		`{"\u0073tream":0}`:                          `{"\u0073tream":true}`,
	} {
		got, err := prompt.SetStream([]byte(body))
		if err != nil || string(got) != want {
			t.Errorf("SetStream(%s) = %s, %v, want %s", body, got, err, want)
		}
	}
}

func TestSpliceErrors(t *testing.T) {
	for _, body := range []string{``, `[]`, `{"model":"a"`, `{"model":"a"}x`, `{"model"}`, `{"a":nil}`} {
		if got, err := prompt.SetModel([]byte(body), "b"); err == nil {
			t.Errorf("SetModel(%s) = %s, want an error", body, got)
		}
		if got, err := prompt.SetIncludeUsage([]byte(body)); err == nil {
			t.Errorf("SetIncludeUsage(%s) = %s, want an error", body, got)
		}
		if got, err := prompt.SetStream([]byte(body)); err == nil {
			t.Errorf("SetStream(%s) = %s, want an error", body, got)
		}
	}
}

// members decodes a JSON object, the last of equal keys counting, with its values
// as they are spelled.
func members(tb interface{ Fatalf(string, ...any) }, body []byte) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &all); err != nil {
		tb.Fatalf("%s: %v", body, err)
	}
	return all
}

// checkSetModel checks that SetModel of valid JSON changes the model and nothing
// else.
func checkSetModel(tb interface{ Fatalf(string, ...any) }, body []byte, model string) {
	got, err := prompt.SetModel(body, model)
	if err != nil {
		tb.Fatalf("SetModel(%s): %v", body, err)
	}
	want, have := members(tb, body), members(tb, got)
	if _, ok := want["model"]; !ok {
		if !bytes.Equal(got, body) {
			tb.Fatalf("SetModel(%s) = %s, want no change", body, got)
		}
		return
	}
	var set string
	if err := json.Unmarshal(have["model"], &set); err != nil || set != string([]rune(model)) {
		tb.Fatalf("SetModel(%s, %q) set %s", body, model, have["model"])
	}
	want["model"] = have["model"]
	if !maps.EqualFunc(want, have, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		tb.Fatalf("SetModel(%s) = %s: another member changed", body, got)
	}
}

// checkSetIncludeUsage checks that SetIncludeUsage of valid JSON sets the option
// and nothing else.
func checkSetIncludeUsage(tb interface{ Fatalf(string, ...any) }, body []byte) {
	got, err := prompt.SetIncludeUsage(body)
	if err != nil {
		tb.Fatalf("SetIncludeUsage(%s): %v", body, err)
	}
	want, have := members(tb, body), members(tb, got)
	before, after := want["stream_options"], have["stream_options"]
	delete(want, "stream_options")
	delete(have, "stream_options")
	if !maps.EqualFunc(want, have, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		tb.Fatalf("SetIncludeUsage(%s) = %s: another member changed", body, got)
	}
	if len(before) > 0 && before[0] != '{' && before[0] != 'n' {
		if !bytes.Equal(before, after) {
			tb.Fatalf("SetIncludeUsage(%s) = %s: odd options changed", body, got)
		}
		return
	}
	options := members(tb, after)
	if string(options["include_usage"]) != "true" {
		tb.Fatalf("SetIncludeUsage(%s) = %s: not set", body, got)
	}
	if len(before) == 0 || before[0] == 'n' {
		before = []byte("{}")
	}
	old := members(tb, before)
	delete(old, "include_usage")
	delete(options, "include_usage")
	if !maps.EqualFunc(old, options, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		tb.Fatalf("SetIncludeUsage(%s) = %s: another option changed", body, got)
	}
}

func TestSplicesChangeNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := drawChat(t)
		keys := rapid.SampledFrom([]string{"model", "stream_options", "x", "include_usage"})
		values := rapid.SampledFrom([]node{
			text("v\"}"), literal("null"), literal("1e5"), object(), object("include_usage", literal("false"), "x", literal("1")),
			object("model", text("a"), "stream_options", object()), list(literal("true")),
		})
		for range rapid.IntRange(0, 4).Draw(t, "extra") {
			body.add(keys.Draw(t, "key"), values.Draw(t, "value"))
		}
		raw := spelled(t, body)
		checkSetModel(t, raw, words.Draw(t, "model"))
		checkSetIncludeUsage(t, raw)
		both, err := prompt.SetModel(raw, "other")
		if err != nil {
			t.Fatal(err)
		}
		checkSetIncludeUsage(t, both)
	})
}
