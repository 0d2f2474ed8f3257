package comparison

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/cli"
)

// mooncakeText is a Mooncake trace whose requests have times of their own, a second apart, the
// first in 2023.
func mooncakeText(requests int) string {
	var text strings.Builder
	for i := range requests {
		fmt.Fprintf(&text, `{"timestamp": %d, "input_length": 1030, "output_length": 5, "hash_ids": [1, 2, 3]}`+"\n", 1_700_000_000_000+1000*i)
	}
	return text.String()
}

// fifo is a named pipe.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What comes through a pipe comes once, and is swept over all the same.
func TestTraceIsReadOnce(t *testing.T) {
	path := fifo(t)
	go func() { _ = os.WriteFile(path, []byte(mooncakeText(20)), 0o600) }()
	piped := rows(t, "--trace", "mooncake:"+path, "--strategy", "PREFIX_AWARE", "--sweep", "load=1,2,4")

	file := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(file, []byte(mooncakeText(20)), 0o600); err != nil {
		t.Fatal(err)
	}
	want := rows(t, "--trace", "mooncake:"+file, "--strategy", "PREFIX_AWARE", "--sweep", "load=1,2,4")
	if diff := cmp.Diff(want, piped); diff != "" || len(want) != 3 || want[0].RPS > want[2].RPS/2 {
		t.Errorf("from a file and through a pipe (-file +pipe):\n%s", diff)
	}
}

// Pools are chosen in reading: those of a file can be swept, those of a pipe cannot.
func TestSweepOverPools(t *testing.T) {
	log := `{"arrived": "2026-01-01T00:00:00Z", "pool": "a", "result": "success", "status": 200, "duration_seconds": 1, "stream_bytes": 400, "block_bytes": 256, "keys": "AQAAAAAAAAA="}
{"arrived": "2026-01-01T00:00:01Z", "pool": "b", "result": "success", "status": 200, "duration_seconds": 1, "stream_bytes": 400, "block_bytes": 256, "keys": "AQAAAAAAAAA="}
{"arrived": "2026-01-01T00:00:02Z", "pool": "b", "result": "success", "status": 200, "duration_seconds": 1, "stream_bytes": 400, "block_bytes": 256, "keys": "AQAAAAAAAAA="}
`
	file := filepath.Join(t.TempDir(), "log.jsonl")
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	got := rows(t, "--trace", "request-log:"+file, "--strategy", "RANDOM", "--sweep", "request-log-pool=a,b")
	if len(got) != 2 || got[0].Requests != 1 || got[1].Requests != 2 {
		t.Errorf("%+v", got)
	}
	path := fifo(t)
	go func() { _ = os.WriteFile(path, []byte(log), 0o600) }()
	_, _, err := command(t.Context(), "--trace", "request-log:"+path, "--strategy", "RANDOM", "--sweep", "request-log-pool=a,b")
	refused(t, err, "is not a file that can be read again for another pool")
}

// Ctrl-C ends the wait for who writes to a pipe, and for what they write.
func TestWaitForAPipeIsInterrupted(t *testing.T) {
	for _, opened := range []bool{false, true} {
		path := fifo(t)
		if opened {
			writer, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = writer.Close() }()
			if _, err := writer.WriteString(mooncakeText(1)[:20]); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, _, err := command(ctx, "--trace", "mooncake:"+path); !errors.Is(err, cli.ErrInterrupted) {
			t.Errorf("opened %v: %v", opened, err)
		}
	}
}

// A trace begins with its first request, and faults count from there.
func TestFaultsCountFromTheFirstRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(file, []byte(mooncakeText(20)), 0o600); err != nil {
		t.Fatal(err)
	}
	trace := []string{"--trace", "mooncake:" + file, "--backends", "1", "--strategy", "RANDOM"}
	whole := rows(t, trace...)
	faulty := rows(t, append(trace, "--fault", "t=9500ms backend=0 lose-cache")...)
	if whole[0].HitRate <= faulty[0].HitRate || whole[0].RPS < 0.8 {
		t.Errorf("a cache lost in the middle: hit rate %v, without %v, at %v requests/s", faulty[0].HitRate, whole[0].HitRate, whole[0].RPS)
	}
	_, _, err := command(t.Context(), append(trace, "--fault", "t=8000h backend=0 restart")...)
	refused(t, err, `--fault "t=8000h0m0s backend=0 restart": the requests end at 19s`)
}

// Where sessions take as long as their answers, some runs may miss a fault that others see.
func TestMissedFaultIsARemark(t *testing.T) {
	session := func(second int) string {
		return fmt.Sprintf(`{"block": 64, "request": ["t", "in", "out", "api_time", "think_time", "keep", "rle"]}
{"tool_tokens": 0, "system_tokens": 0, "requests": [[0,6400,1,1,0,0,[1,100]],[%d,6400,1,1,%d,100,[]]]}
`, second, second)
	}
	file := filepath.Join(t.TempDir(), "weka.jsonl")
	if err := os.WriteFile(file, []byte(session(30)), 0o600); err != nil {
		t.Fatal(err)
	}
	trace := []string{"--trace", "weka:" + file, "--weka-window", "1ms", "--strategy", "RANDOM"}
	stdout, _, err := command(t.Context(), append(trace, "--fault", "t=35s backend=0 lose-cache", "--sweep", "prefill-rate=500,10000")...)
	if err != nil || !strings.Contains(stdout, "Nothing came of the fault t=35s backend=0 lose-cache in 1 of 2 runs: by then their requests had ended.") {
		t.Errorf("%v in\n%s", err, stdout)
	}
	_, _, err = command(t.Context(), append(trace, "--fault", "t=2h backend=0 restart")...)
	refused(t, err, `--fault "t=2h0m0s backend=0 restart": all requests had ended at 3`)
}
