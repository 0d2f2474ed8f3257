package workload_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/workload"
)

// fuzzOpen opens any bytes as a file of a kind: the error names a line, and what was read
// can be played to its end.
func fuzzOpen(f *testing.F, kind string) {
	f.Helper()
	for k := range fixtures {
		f.Add(fixture(f, k))
	}
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add([]byte("{}\n[]\n\"\"\nnull"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		w, err := workload.Open(kind, bytes.NewReader(data), workload.Options{})
		if err != nil {
			if line, ok := errors.AsType[*workload.LineError](err); !ok || line.Line < 1 {
				t.Fatalf("error %v does not name its line", err)
			}
			return
		}
		if n := len(play(t, w, 1, 0)); n != w.Requests || n == 0 {
			t.Fatalf("%d requests, promised %d", n, w.Requests)
		}
	})
}

func FuzzReadMooncake(f *testing.F)   { fuzzOpen(f, workload.KindMooncake) }
func FuzzReadWeka(f *testing.F)       { fuzzOpen(f, workload.KindWeka) }
func FuzzReadAgentText(f *testing.F)  { fuzzOpen(f, workload.KindAgentText) }
func FuzzReadRequestLog(f *testing.F) { fuzzOpen(f, workload.KindRequestLog) }

// A line of the request log that can be read is the same after it was written again.
func FuzzParseLoggedRequest(f *testing.F) {
	for line := range bytes.SplitSeq(fixture(f, workload.KindRequestLog), []byte("\n")) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		want, err := workload.ParseLoggedRequest(line)
		if err != nil {
			return
		}
		again, err := want.AppendLine(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := workload.ParseLoggedRequest(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("written and read again (-want +got):\n%s", diff)
		}
	})
}
