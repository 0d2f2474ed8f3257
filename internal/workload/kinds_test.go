package workload_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/internal/workload"
)

func TestOpenUnknown(t *testing.T) {
	_, err := workload.Open("mooncak", strings.NewReader(""), workload.Options{})
	const want = `there is no kind of workload "mooncak": the kinds are docs, chat, head, mooncake, weka, agent-text, request-log`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for kind := range fixtures {
		if _, err := workload.Open(kind, nil, workload.Options{}); err == nil || !strings.Contains(err.Error(), "is read from a file") {
			t.Errorf("%s without a file: %v", kind, err)
		}
	}
}

func TestOpenRefusesOptions(t *testing.T) {
	for _, kind := range workload.Kinds() {
		for _, load := range []float64{-1, 1e9} {
			_, err := workload.Open(kind, bytes.NewReader(nil), workload.Options{Load: load})
			if err == nil || !strings.Contains(err.Error(), kind+": load: must be in") {
				t.Errorf("%s under a load of %v: %v", kind, load, err)
			}
		}
	}
	for kind, o := range map[string]workload.Options{workload.KindWeka: {Window: -1}, workload.KindAgentText: {Users: -1}} {
		if _, err := workload.Open(kind, bytes.NewReader(fixture(t, kind)), o); err == nil || !strings.Contains(err.Error(), "is -1") {
			t.Errorf("%s with %+v: %v", kind, o, err)
		}
	}
}

// A file of one kind that is given as another says what it is.
func TestWrongKind(t *testing.T) {
	for kind := range fixtures {
		for other := range fixtures {
			if kind == other {
				continue
			}
			_, err := workload.Open(kind, bytes.NewReader(fixture(t, other)), workload.Options{})
			line, ok := errors.AsType[*workload.LineError](err)
			if !ok || line.Line != 1 || !strings.Contains(err.Error(), `as a file of kind "`+other+`" does`) {
				t.Errorf("a file of kind %s given as %s: %v", other, kind, err)
			}
		}
	}
}

// badFiles are files that no reader takes.
var badFiles = []struct {
	name, text string
	line       int
	says       string
}{
	{"empty", "", 1, "the file holds no requests"},
	{"blank", "\n \n\r\n", 1, "the file holds no requests"},
	{"not JSON", "timestamp,input_length\n0,5\n", 1, "the line is not a JSON object with fields"},
	{"not an object", "\n[1, 2]\n", 2, "the line is not a JSON object with fields"},
	{"something else", `{"a": 1, "c": 2, "b": 3}`, 1, `the line has the fields "a", "b", "c"`},
	{"not gzip after all", "\x1f\x8bnonsense", 1, "gzip"},
	{"many long fields", `{"` + strings.Repeat("x", 999) + `":1,"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1}`, 1, `"h", …`},
}

func TestBadFiles(t *testing.T) {
	for kind := range fixtures {
		for _, c := range badFiles {
			_, err := workload.Open(kind, strings.NewReader(c.text), workload.Options{})
			line, ok := errors.AsType[*workload.LineError](err)
			if !ok || line.Line != c.line || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: %v, want line %d and %q", kind, c.name, err, c.line, c.says)
			}
			if len(err.Error()) > 500 {
				t.Errorf("%s, %s: an error of %d bytes", kind, c.name, len(err.Error()))
			}
		}
	}
}

// A gzip file that is cut short is told from one whose last line is nonsense, wherever it is
// cut.
func TestCutShort(t *testing.T) {
	for kind := range fixtures {
		text := string(fixture(t, kind))
		data := packed(t, text)
		for _, left := range []int{len(data) - 1, len(data) - 9, len(data) / 2, 12} {
			_, err := workload.Open(kind, bytes.NewReader(data[:left]), workload.Options{})
			line, ok := errors.AsType[*workload.LineError](err)
			if !ok || !strings.Contains(err.Error(), "cut short") || line.Line > strings.Count(text, "\n")+1 {
				t.Errorf("%s, %d of %d bytes: %v", kind, left, len(data), err)
			}
		}
	}
}

// A line without end is not read to it.
func TestEndlessLine(t *testing.T) {
	for kind := range fixtures {
		var r endless
		_, err := workload.Open(kind, &r, workload.Options{})
		if err == nil || !strings.Contains(err.Error(), "line 1: longer than") {
			t.Errorf("%s: an endless line gives %v", kind, err)
		}
		if r.read > 2*workload.MaxLineBytes {
			t.Errorf("%s: %d bytes were read of a line that may have %d", kind, r.read, workload.MaxLineBytes)
		}
	}
}
