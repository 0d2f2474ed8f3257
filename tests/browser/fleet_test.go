package browser

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// model is what the doubles serve, and hostile an adapter whose name is an attack.
const (
	model   = "demo-model"
	hostile = "<img src=x onerror=alert(1)>"
)

// anyPort is a loopback address whose port the system chooses.
const anyPort = "127.0.0.1:0"

// double is an engine double as the script kills it.
type double struct {
	ID  string `json:"id"`
	PID int    `json:"pid"`
}

// fleet is processes: doubles and the routers before them.
type fleet struct {
	Data    string   `json:"data"`
	Admin   string   `json:"admin"`
	Empty   string   `json:"empty"` // the admin port of a router without backends
	Model   string   `json:"model"`
	Doubles []double `json:"doubles"`
}

// TestFleet looks at a fleet at work.
func TestFleet(t *testing.T) {
	s := newStage(t)
	s.play(t, "fleet.mjs", startFleet(t, programs(t)), 13)
}

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

// startFleet starts four doubles, the router before them, and a router before nobody.
func startFleet(t *testing.T, dir string) *fleet {
	t.Helper()
	f := &fleet{Model: model}
	serve := []string{"serve", "--listen", anyPort, "--admin-listen", anyPort, "--log-level", "error"}
	args := serve
	for range 4 {
		urls, pid := launch(t, 1, filepath.Join(dir, "enginesim"), "--listen", anyPort, "--model", model, "--model", hostile,
			"--prompt-tokens-details", "--profile", "llama-8b-l40s", "--speed", "4", "--kv-tokens", "24000")
		f.Doubles = append(f.Doubles, double{strings.TrimPrefix(urls[0], "http://"), pid})
		args = append(args, "--backend", urls[0])
	}
	urls, _ := launch(t, 2, filepath.Join(dir, "warmroute"), args...)
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
	urls, _ = launch(t, 2, filepath.Join(dir, "warmroute"), append(serve, "--config", none)...)
	f.Empty = urls[1]
	return f
}

var loopback = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// launch starts a program and returns the URLs that it prints first, and its process id.
func launch(t *testing.T, want int, name string, args ...string) (urls []string, pid int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
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
