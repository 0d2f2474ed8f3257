package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// model is what the doubles serve, and hostile an adapter whose name is an attack.
const (
	model   = "demo-model"
	hostile = "<img src=x onerror=alert(1)>"
)

// patience is how long all of it may take.
const patience = 4 * time.Minute

// engine is an engine double as the script kills it.
type engine struct {
	ID  string `json:"id"`
	PID int    `json:"pid"`
}

// fleet is what the script is told.
type fleet struct {
	Data     string   `json:"data"`
	Admin    string   `json:"admin"`
	Empty    string   `json:"empty"` // the admin port of a router without backends
	Model    string   `json:"model"`
	Engines  []engine `json:"engines"`
	Chromium string   `json:"chromium"`
	Shots    string   `json:"shots"`
}

// TestDashboard drives the page, check by check.
func TestDashboard(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not here")
	}
	if _, err := os.Stat("node_modules"); err != nil {
		t.Skip("the browser's driver is not here: make ui-test fetches it")
	}
	f := fleet{Model: model}
	if f.Chromium, err = exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not here: make ui-test installs it on Debian")
	}
	if f.Shots, err = filepath.Abs(filepath.Join("..", "..", "out", "browser")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f.start(ctx, t, programs(ctx, t))
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, node, "run.mjs", string(text))
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("the script: %v", err)
	}
	checks := 0
	for line := range strings.Lines(string(out)) {
		var one struct {
			Name, Error, Note string
			Seconds           float64
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Errorf("the script said %q", line)
			continue
		}
		checks++
		t.Run(one.Name, func(t *testing.T) {
			t.Logf("%.1f s %s", one.Seconds, one.Note)
			if one.Error != "" {
				t.Error(one.Error)
			}
		})
	}
	if checks < 13 {
		t.Errorf("%d checks came to an end", checks)
	}
}

// programs builds both binaries and returns the directory they are in.
func programs(ctx context.Context, t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(ctx, "go", "build", "-o", dir, "./cmd/warmroute", "./cmd/enginesim")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// start starts four doubles, the router before them, and a router before nobody.
func (f *fleet) start(ctx context.Context, t *testing.T, dir string) {
	t.Helper()
	const anyPort = "127.0.0.1:0"
	serve := []string{"serve", "--listen", anyPort, "--admin-listen", anyPort, "--log-level", "error"}
	args := serve
	for range 4 {
		urls, pid := launch(ctx, t, 1, filepath.Join(dir, "enginesim"), "--listen", anyPort, "--model", model, "--model", hostile,
			"--prompt-tokens-details", "--profile", "llama-8b-l40s", "--speed", "4", "--kv-tokens", "24000")
		f.Engines = append(f.Engines, engine{strings.TrimPrefix(urls[0], "http://"), pid})
		args = append(args, "--backend", urls[0])
	}
	urls, _ := launch(ctx, t, 2, filepath.Join(dir, "warmroute"), args...)
	f.Data, f.Admin = urls[0], urls[1]
	none := filepath.Join(t.TempDir(), "warmroute.yaml")
	targets := filepath.Join(t.TempDir(), "targets.json")
	if err := os.WriteFile(targets, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("version: 1\npools:\n  - name: default\n    models: [%s]\n    discovery:\n      files:\n        - path: %s\n", model, targets)
	if err := os.WriteFile(none, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	urls, _ = launch(ctx, t, 2, filepath.Join(dir, "warmroute"), append(serve, "--config", none)...)
	f.Empty = urls[1]
}

var loopback = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// launch starts a program and returns the URLs that it prints first, and its process id.
func launch(ctx context.Context, t *testing.T, want int, name string, args ...string) (urls []string, pid int) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it may have been killed before
	})
	lines := bufio.NewScanner(stdout)
	for len(urls) < want && lines.Scan() {
		urls = append(urls, loopback.FindAllString(lines.Text(), -1)...)
	}
	if len(urls) < want {
		cancel()
		_ = cmd.Wait()
		t.Fatalf("%s ended, or said nothing of where it listens: %s", name, stderr.String())
	}
	go func() {
		for lines.Scan() { // so that it does not block
		}
	}()
	return urls, cmd.Process.Pid
}
