package workload_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/workload"
)

const twoSessions = `{"timestamp": 5000000, "input": "b, first", "output": "123456789", "session_id": "b"}

{"timestamp": 3000000, "input": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "a, "}, {"type": "text", "text": "first"}]}], "output": "", "session_id": "a"}
{"timestamp": 4000000, "input": [{"role": "assistant", "content": null}], "output": "1234", "session_id": "a", "more": {}}
{"timestamp": 3500000, "input": "a, out of order", "output": "1234", "session_id": "a"}
{"timestamp": 999000000000, "input": "b, after lunch", "output": "1234", "session_id": "b"}
`

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestLoadLMCache(t *testing.T) {
	user := func(text string) []workload.Message {
		return []workload.Message{{Role: workload.RoleUser, Content: text}}
	}
	want := workload.Text{
		Name: "LMCache agent trace",
		Sessions: []workload.Session{
			{ID: "a", Turns: []workload.Turn{
				{
					Messages: []workload.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "a, first"}},
					Whole:    true, OutputTokens: 1,
				},
				{Messages: []workload.Message{{Role: "assistant"}}, Whole: true, Gap: time.Second, OutputTokens: 1},
				{Messages: user("a, out of order"), Whole: true, OutputTokens: 1},
			}},
			{ID: "b", Start: 2 * time.Second, Turns: []workload.Turn{
				{Messages: user("b, first"), Whole: true, OutputTokens: 3},
				{Messages: user("b, after lunch"), Whole: true, Gap: 300 * time.Second, OutputTokens: 1},
			}},
		},
	}
	for name, data := range map[string][]byte{"plain": []byte(twoSessions), "gzip": packed(t, twoSessions)} {
		got, err := workload.LoadLMCache(bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoadLMCacheNamesTheLine(t *testing.T) {
	const good = `{"timestamp": 1, "input": "x", "output": "", "session_id": "a"}` + "\n"
	for _, c := range []struct {
		name, text string
		line       int
		says       string
	}{
		{"empty", "", 1, "no requests"},
		{"blank", "\n\n", 1, "no requests"},
		{"not JSON", good + "nonsense\n", 2, "not a request"},
		{"cut short", good + good + `{"timestamp": 1, "inp`, 3, "not a request"},
		{"another format", `{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46]}`, 1, `"session_id" is missing`},
		{"no timestamp", `{"input": "x", "session_id": "a"}`, 1, `"timestamp" is missing`},
		{"negative timestamp", `{"timestamp": -1, "input": "x", "session_id": "a"}`, 1, "-1"},
		{"timestamp too large", `{"timestamp": 9223372036854775807, "input": "x", "session_id": "a"}`, 1, "microseconds"},
		{"no input", `{"timestamp": 1, "session_id": "a"}`, 1, `"input": it is missing`},
		{"null input", `{"timestamp": 1, "input": null, "session_id": "a"}`, 1, `"input": it is missing`},
		{"number input", `{"timestamp": 1, "input": 3, "session_id": "a"}`, 1, "neither text nor a list"},
		{"no messages", `{"timestamp": 1, "input": [], "session_id": "a"}`, 1, "empty"},
		{"no role", `{"timestamp": 1, "input": [{"content": "x"}], "session_id": "a"}`, 1, "message 1: it has no role"},
		{
			"image", `{"timestamp": 1, "input": [{"role": "user", "content": [{"type": "image_url"}]}], "session_id": "a"}`,
			1, `message 1: content of type "image_url"`,
		},
		{"odd content", `{"timestamp": 1, "input": [{"role": "user", "content": 3}], "session_id": "a"}`, 1, "neither text nor a list of parts"},
		{"not gzip after all", "\x1f\x8bnonsense", 1, "gzip"},
	} {
		_, err := workload.LoadLMCache(strings.NewReader(c.text))
		line, ok := errors.AsType[*workload.LineError](err)
		if !ok {
			t.Errorf("%s: error %v is not a LineError", c.name, err)
			continue
		}
		if line.Line != c.line || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want line %d and %q", c.name, err, c.line, c.says)
		}
	}
}

func TestLoadLMCacheBroken(t *testing.T) {
	data := packed(t, strings.Repeat(twoSessions, 100))
	_, err := workload.LoadLMCache(bytes.NewReader(data[:len(data)-20]))
	if line, ok := errors.AsType[*workload.LineError](err); !ok || line.Line < 2 {
		t.Errorf("a broken gzip file gives %v, want an error behind the lines it had", err)
	}
	broken := errors.New("disk on fire")
	if _, err := workload.LoadLMCache(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("a failing reader gives %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// endless is a line that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += len(p)
	return len(p), nil
}

func TestLoadLMCacheBoundsLines(t *testing.T) {
	var r endless
	_, err := workload.LoadLMCache(&r)
	if err == nil || !strings.Contains(err.Error(), "line 1: longer than") {
		t.Errorf("an endless line gives %v", err)
	}
	if r.read > 2*workload.MaxLineBytes {
		t.Errorf("%d bytes were read of a line that may have %d", r.read, workload.MaxLineBytes)
	}
}

func FuzzLoadLMCache(f *testing.F) {
	f.Add([]byte(twoSessions))
	f.Add([]byte(`{"timestamp": 1, "input": [{"role": "user", "content": [{"type": "text", "text": "é"}]}], "session_id": ""}`))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add([]byte("{}\n[]\n\"\"\nnull"))
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, _ = w.Write([]byte(twoSessions))
	_ = w.Close()
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		text, err := workload.LoadLMCache(bytes.NewReader(data))
		if err != nil {
			if line, ok := errors.AsType[*workload.LineError](err); !ok || line.Line < 1 {
				t.Fatalf("error %v does not name its line", err)
			}
			return
		}
		if err := text.Validate(); err != nil {
			t.Fatalf("what was loaded cannot be sent: %v", err)
		}
		last := time.Duration(0)
		for _, s := range text.Sessions {
			if s.Start < last {
				t.Fatalf("session %q starts at %v, after one at %v", s.ID, s.Start, last)
			}
			last = s.Start
		}
	})
}
