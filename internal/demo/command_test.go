package demo

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/router"
)

// command runs the command and returns what it printed.
func command(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceErrors = true
	err = cmd.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}

var tiny = []string{"--backends", "2", "--requests", "6", "--users", "3", "--speed", "200", "--profile", "llama-8b-h100"}

func TestCommandJSON(t *testing.T) {
	stdout, stderr, err := command(t.Context(), append(tiny, "-o", "json", "--strategy", "random,PREFIX_AWARE")...)
	if err != nil {
		t.Fatal(err)
	}
	var results []Result
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&results); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if len(results) != 2 || results[0].Strategy != router.Random || results[1].Strategy != router.PrefixAware {
		t.Errorf("results = %+v", results)
	}
	for _, r := range results {
		if r.Requests != 6 || r.Errors != 0 || r.TTFTP50 <= 0 || r.TTFTP90 < r.TTFTP50 || r.ShareMax < 0.5 {
			t.Errorf("%+v", r)
		}
	}
	if stderr != "" {
		t.Errorf("stderr is not a terminal, but got %q", stderr)
	}
}

func TestCommandTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl.gz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(file)
	for i := range 4 {
		_, _ = fmt.Fprintf(packed, `{"timestamp": %d, "input": "%s", "output": "%s", "session_id": "s%d"}`+"\n",
			i*1000, strings.Repeat("Once more, with feeling. ", 100*(1+i/2)), strings.Repeat("word ", 2000), i%2)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	stdout, _, err := command(t.Context(), "--trace", path, "--strategy", router.PrefixAware, "--backends", "2", "--speed", "200")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4 requests in 2 sessions", "PREFIX_AWARE   4 ", "strategy  ", "Advice on PREFIX_AWARE, from the 4 requests of its run", "prove nothing"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestCommandRefuses(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.jsonl")
	if err := os.WriteFile(broken, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--strategy", "FASTEST"}, `--strategy: "FASTEST" is not one of RANDOM`},
		{[]string{"--strategy", "RANDOM,RANDOM"}, "named twice"},
		{[]string{"--strategy", ""}, "name at least one"},
		{[]string{"--backends", "0"}, "--backends: 0"},
		{[]string{"--requests", "-1"}, "--requests: -1"},
		{[]string{"--users", "0"}, "--users: 0"},
		{[]string{"--speed", "0"}, "--speed: 0"},
		{[]string{"--speed", "NaN"}, "--speed: NaN"},
		{[]string{"--profile", "abacus"}, `unknown profile "abacus"`},
		{[]string{"--kv-tokens", "-1"}, "--kv-tokens: -1"},
		{[]string{"-o", "xml"}, `--output: "xml"`},
		{[]string{"--trace", "absent.jsonl"}, "without --trace a workload is generated"},
		{[]string{"--trace", broken}, "line 1"},
		{[]string{"surplus"}, "surplus"},
	} {
		_, _, err := command(t.Context(), c.args...)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.args, err, c.says)
		}
		if _, ok := errors.AsType[*cli.UsageError](err); !ok {
			t.Errorf("%v: %v is no UsageError", c.args, err)
		}
	}
}

// With --keep the fleet answers until the context ends, which is no error then.
func TestCommandKeep(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, w := io.Pipe()
	cmd := Command()
	cmd.SetArgs(append(tiny, "--keep", "--strategy", "PREFIX_AWARE,RANDOM"))
	cmd.SetOut(io.Discard)
	cmd.SetErr(w)
	done := make(chan error, 1)
	go func() {
		done <- cmd.ExecuteContext(ctx)
		_ = w.Close()
	}()
	var said strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(said.String(), "/metrics") {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, said.String())
		}
		said.Write(buf[:n])
	}
	if n := strings.Count(said.String(), "curl "); n != 3 {
		t.Errorf("%d curl lines, want 3:\n%s", n, said.String())
	}
	_, rest, _ := strings.Cut(said.String(), "curl -s ")
	url, _, _ := strings.Cut(rest, "\n")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	state, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if !strings.Contains(string(state), router.PrefixAware) {
		t.Errorf("the fleet that was kept is %s", state)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Ctrl-C after --keep: %v", err)
	}
}

func TestCommandInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stdout, _, err := command(ctx, append(tiny, "-o", "json")...)
	if err == nil || !strings.Contains(err.Error(), "interrupted after 0 of 4") || stdout != "[]\n" {
		t.Errorf("stdout %q, error %v", stdout, err)
	}
}
