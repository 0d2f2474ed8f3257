package workload_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/internal/workload"
)

// However a trace is packed, what is kept of it is bounded, and the error names the line.
func TestTraceMemoryIsBounded(t *testing.T) {
	workload.LimitTraceMemory(t, 1<<20)
	for kind := range fixtures {
		content := fixture(t, kind)
		if _, err := workload.Open(kind, bytes.NewReader(content), workload.Options{}); err != nil {
			t.Errorf("%s: a small trace: %v", kind, err)
		}
		// The last line over and over: nothing that is new in it is new again but the request.
		lines := bytes.SplitAfter(bytes.TrimSpace(content), []byte("\n"))
		last := append(bytes.TrimSpace(lines[len(lines)-1]), '\n')
		endless := append(bytes.TrimSpace(content), '\n')
		endless = append(endless, bytes.Repeat(last, 20_000)...)
		_, err := workload.Open(kind, bytes.NewReader(endless), workload.Options{})
		line, ok := errors.AsType[*workload.LineError](err)
		if !ok || line.Line < 100 || !strings.Contains(err.Error(), "the trace takes more than 1 MiB of memory") {
			t.Errorf("%s: a large trace: %v", kind, err)
		}
	}
}

// What a prompt holds counts, and not only that there is one.
func TestTraceMemoryCountsBlocks(t *testing.T) {
	workload.LimitTraceMemory(t, 1<<20)
	text := `{"timestamp": 0, "input_length": 16777216, "output_length": 1, "hash_ids": [0` + strings.Repeat(",0", 32_000) + "]}\n"
	_, err := workload.ReadMooncake(strings.NewReader(strings.Repeat(text, 8)), 1)
	if line, ok := errors.AsType[*workload.LineError](err); !ok || line.Line != 5 {
		t.Errorf("32,001 ids of 8 bytes a line: %v, want line 5", err)
	}
}
