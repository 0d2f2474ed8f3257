package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programs builds both binaries and returns the directory they are in.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./cmd/warmroute", "./cmd/enginesim")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// process is a running program.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	urls   []string // that it printed
}

var loopback = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// launch starts a program and returns when it has printed that many URLs.
func launch(t *testing.T, urls int, name string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	p := &process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = p.cmd.Wait() // it may have ended before
	})
	lines := bufio.NewScanner(stdout)
	for len(p.urls) < urls && lines.Scan() {
		p.urls = append(p.urls, loopback.FindAllString(lines.Text(), -1)...)
	}
	if len(p.urls) < urls {
		cancel()
		_ = p.cmd.Wait()
		t.Fatalf("%s ended, or said nothing of where it listens: %s", name, p.stderr.String())
	}
	go func() {
		for lines.Scan() { // so that it does not block
		}
	}()
	return p
}

// terminate sends SIGTERM and checks that the program ends well.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v: %s", err, p.stderr.String())
	}
}

// The two programs, as somebody tries them first.
func TestBinaries(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binaries")
	}
	dir := programs(t)
	t.Run("serve", func(t *testing.T) { tryServe(t, dir) })
	t.Run("demo", func(t *testing.T) { tryDemo(t, dir) })
	t.Run("mistakes", func(t *testing.T) { tryMistakes(t, dir) })
}

func tryServe(t *testing.T, dir string) {
	const anyPort = "127.0.0.1:0"
	args := []string{"serve", "--listen", anyPort, "--admin-listen", anyPort}
	var engines []*process
	for range 2 {
		e := launch(t, 1, filepath.Join(dir, "enginesim"), "--listen", anyPort, "--model", model, "--speed", "20")
		engines = append(engines, e)
		args = append(args, "--backend", e.urls[0])
	}
	w := launch(t, 2, filepath.Join(dir, "warmroute"), args...)
	f := &fleet{t: t, url: w.urls[0], admin: w.urls[1], client: &http.Client{Transport: &http.Transport{}}}
	f.await("the router has learned what the engines serve", func() bool {
		status, _, err := f.send(t.Context(), http.MethodGet, f.url+"/v1/models/"+model, "", nil)
		return err == nil && status == http.StatusOK
	})
	first := f.mustChat(ask{messages: []message{user(prose(1, 4000))}, tokens: 20})
	second := f.mustChat(ask{messages: []message{user(prose(1, 4000)), {"assistant", first.text}, user("And?")}, tokens: 20})
	if first.backend == "" || second.backend != first.backend || second.cached < first.prompt/2 || first.text == "" {
		t.Errorf("first %+v, second %+v: want the second on the first's backend, mostly cached", first, second)
	}
	state := f.state()
	if len(state) != 2 || state[first.backend].Blocks == 0 || state[first.backend].State != "up" {
		t.Errorf("/debug/state shows %+v", state)
	}
	f.await("2 requests are counted", func() bool {
		return f.metric("warmroute_requests_total", `result="success"`, `pool="default"`) == 2
	})
	f.client.CloseIdleConnections()
	w.terminate(t)
	if log := w.stderr.String(); strings.Count(log, "route=/v1/chat/completions") != 2 || strings.Contains(log, "pressure") {
		t.Errorf("want 2 access records and nothing of the prompts in the log:\n%s", log)
	}
	for _, e := range engines {
		e.terminate(t)
	}
}

func tryDemo(t *testing.T, dir string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "warmroute"), "demo", "-o", "json", "--backends", "2", "--requests", "10",
		"--users", "4", "--speed", "100", "--strategy", "RANDOM,PREFIX_AWARE")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	t.Logf("the demo took %v", time.Since(began))
	if stderr.Len() > 0 {
		t.Errorf("stderr is no terminal, but got %q", stderr.String())
	}
	var results []map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &results); err != nil || len(results) != 2 {
		t.Fatalf("%v: %s", err, stdout.String())
	}
	fields := []string{
		"strategy", "requests", "errors", "hit_rate", "ttft_p50_s", "ttft_p90_s", "share_min", "share_max", "overflow_share",
	}
	for _, r := range results {
		for _, name := range fields {
			if _, there := r[name]; !there {
				t.Errorf("%v has no %s", r, name)
			}
		}
		if len(r) != len(fields) || r["requests"] != 10.0 || r["errors"] != 0.0 {
			t.Errorf("%v", r)
		}
	}
}

// tryMistakes checks that what cannot work ends at once, with one line that says
// why.
func tryMistakes(t *testing.T, dir string) {
	e := launch(t, 1, filepath.Join(dir, "enginesim"), "--listen", "127.0.0.1:0", "--model", model)
	taken := strings.TrimPrefix(e.urls[0], "http://")
	for _, c := range []struct{ command, says string }{
		{"enginesim --listen " + taken, taken},
		{"enginesim --profile abacus", "abacus"},
		{"warmroute serve --backend http://127.0.0.1:1 --listen " + taken + " --admin-listen 127.0.0.1:0", taken},
		{"warmroute serve --backend nonsense:", "nonsense"},
		{"warmroute serve --strategy FASTEST --backend http://127.0.0.1:1", "FASTEST"},
		{"warmroute demo --strategy FASTEST", "FASTEST"},
		{"warmroute demo --backends 0 --users 0", "--users"},
		{"warmroute dance", "dance"},
	} {
		args := strings.Fields(c.command)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := exec.CommandContext(ctx, filepath.Join(dir, args[0]), args[1:]...).CombinedOutput()
		cancel()
		if err == nil {
			t.Errorf("%s: exit code 0", c.command)
		}
		if text := strings.TrimSpace(string(out)); !strings.Contains(text, c.says) || strings.Contains(text, "\n") {
			t.Errorf("%s: want one line with %q:\n%s", c.command, c.says, text)
		}
	}
	e.terminate(t)
}
