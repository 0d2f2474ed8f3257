package usage

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// someValue draws a JSON value as text.
func someValue(t *rapid.T, depth int) string {
	text := rapid.SampledFrom([]string{
		"", "usage", `a"b`, `\`, `\\"`, "x\ny", "}", "{", "]", ",", ":", `","usage":{"x":1},"`, "é\u2028", "error", "response", "message", "id",
	})
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return strconv.Quote(strconv.Itoa(rapid.IntRange(-5, 5).Draw(t, "number")))
	case 1:
		quoted, _ := json.Marshal(text.Draw(t, "text"))
		return string(quoted)
	case 2:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
	case 3:
		return rapid.SampledFrom([]string{"0", "-1.5e3", "12"}).Draw(t, "number")
	case 4:
		return rapid.SampledFrom([]string{"{}", "[]", "[ ]", "{ }"}).Draw(t, "empty")
	case 5:
		var out strings.Builder
		out.WriteString("[" + space.Draw(t, "space"))
		for i := range rapid.IntRange(1, 3).Draw(t, "length") {
			if i > 0 {
				out.WriteString(",")
			}
			out.WriteString(space.Draw(t, "space") + someValue(t, depth-1))
		}
		return out.String() + space.Draw(t, "space") + "]"
	}
	return someObject(t, depth, rapid.IntRange(1, 4).Draw(t, "length"))
}

func someObject(t *rapid.T, depth, length int) string {
	key := rapid.SampledFrom([]string{"usage", "error", "id", "response", "message", "choices", "x", `us"age`, `\`, "a long key that is not looked for", "type", ""})
	space := rapid.SampledFrom([]string{"", "", " ", "\r\n"})
	var out strings.Builder
	out.WriteString("{")
	for i := range length {
		if i > 0 {
			out.WriteString(",")
		}
		quoted, _ := json.Marshal(key.Draw(t, "key"))
		out.WriteString(space.Draw(t, "space") + string(quoted) + space.Draw(t, "space") + ":" + space.Draw(t, "space") + someValue(t, depth-1))
	}
	return out.String() + space.Draw(t, "space") + "}"
}

// compact returns a value as the scanner keeps it, nil when there is none.
func compact(raw json.RawMessage) []byte {
	if raw == nil {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// The scanner finds what a real parser finds, however the bytes are split.
func TestScannerAgreesWithAParser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := someObject(t, 4, rapid.IntRange(0, 6).Draw(t, "length"))
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("the test drew broken JSON %q: %v", text, err)
		}
		var s scanner
		s.feed([]byte("{\"usage\":{\"left\":")) // of an earlier value
		s.reset()
		for _, p := range splits(t, text) {
			s.feed([]byte(p))
		}
		if !s.complete {
			t.Fatalf("not complete after %q", text)
		}
		for at, key := range map[slot]string{usageSlot: "usage", idSlot: "id", typeSlot: "type", errorSlot: "error", choicesSlot: "choices"} {
			if s.values[at].over {
				continue
			}
			if diff := cmp.Diff(string(compact(object[key])), string(s.raw(at))); diff != "" {
				t.Fatalf("%s of %q (-parser +scanner):\n%s", key, text, diff)
			}
		}
		// Inside, the last object that has the key counts.
		if object["message"] == nil || object["response"] == nil {
			var within map[string]json.RawMessage
			for _, outer := range []string{"message", "response"} {
				json.Unmarshal(object[outer], &within)
			}
			if bytes.Count([]byte(text), []byte(`"message"`))+bytes.Count([]byte(text), []byte(`"response"`)) > 1 {
				return // a key that comes twice leaves what the first held
			}
			if diff := cmp.Diff(string(compact(within["usage"])), string(s.raw(innerUsageSlot))); diff != "" {
				t.Fatalf("usage inside %q (-parser +scanner):\n%s", text, diff)
			}
		}
	})
}

func TestScannerOnBrokenJSON(t *testing.T) {
	for _, tt := range []struct {
		text     string
		complete bool
	}{
		{"", false},
		{"   ", false},
		{"]", false},
		{"}", false},
		{"{", false},
		{"{}}}}", true},
		{"[]", true},
		{"{]", true},
		{`{"usage":`, false},
		{`{"usage":{"a":"\`, false},
		{"null", false},
		{"nonsense {}", false},
	} {
		var s scanner
		s.feed([]byte(tt.text))
		if s.complete != tt.complete {
			t.Errorf("%q: complete = %v, want %v", tt.text, s.complete, tt.complete)
		}
	}
}
