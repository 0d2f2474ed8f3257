package deploy

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
)

// patience is how long a process has for what it should do at once.
const patience = 30 * time.Second

// root is the root of the repository.
var root = filepath.Join("..", "..")

// scratch is where the program is built.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "warmroute-deploy"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// read reads a file of deploy.
func read(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root, "deploy"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// version is what the program is told to be.
const version = "v9.9.9-test"

// build runs the command that the Dockerfile builds with, but for where it puts what it makes.
var build = sync.OnceValues(func() (program string, err error) {
	text, err := os.ReadFile(filepath.Join(root, "deploy", "docker", "Dockerfile"))
	if err != nil {
		return "", err
	}
	lines := regexp.MustCompile(`(?m)^RUN (.*go build.*-o )/out/( .*)$`).FindStringSubmatch(string(text))
	if lines == nil {
		return "", fmt.Errorf("the Dockerfile has no line RUN … go build … -o /out/ …")
	}
	cmd := exec.Command("sh", "-c", lines[1]+scratch+"/"+lines[2]) //nolint:gosec // from the repository
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "VERSION="+version)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(scratch, "warmroute"), nil
})

// program returns the program that the Dockerfile builds.
func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// execute runs the program and returns its exit code and what it wrote.
func execute(t *testing.T, environment []string, args ...string) (code int, out string) {
	t.Helper()
	path := program(t) // to build it may take longer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environment // and nothing else
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// understands checks that a command line is one of the program's: unknown commands and flags
// are refused before the help is shown.
func understands(t *testing.T, args []string) {
	t.Helper()
	if code, out := execute(t, nil, append(args[:len(args):len(args)], "--help")...); code != 0 {
		t.Errorf("warmroute %s: %s", strings.Join(args, " "), out)
	}
}

// secrets are what configurations take from the environment.
var secrets = map[string]string{
	"REDIS_PASSWORD": "hunter2", "WARMROUTE_KEY_SEED": "0123456789abcdef0123456789abcdef",
	"WARMROUTE_ADMIN_KEY_SHA256": strings.Repeat("0123456789abcdef", 4), "VLLM_API_KEY": "sk-x",
}

// checked checks a configuration as check-config does, in a process and as the program's own
// code, and returns it. Its environment has only what is named.
func checked(t *testing.T, name string, text []byte, environment []string) *config.Config {
	t.Helper()
	var with []string
	for _, key := range environment {
		value, known := secrets[key]
		if !known {
			continue
		}
		with = append(with, key+"="+value)
		t.Setenv(key, value)
	}
	file := filepath.Join(t.TempDir(), "warmroute.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := execute(t, with, "check-config", "--config", file); code != 0 || strings.Contains(out, "warning") {
		t.Errorf("%s: exit code %d: %s", name, code, out)
	}
	c, _, err := config.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// running is a router that was started.
type running struct {
	t          *testing.T
	cmd        *exec.Cmd
	data       string
	admin      string
	stderr     *bytes.Buffer
	terminated bool
}

var loopback = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// launch starts the program on free ports.
func launch(t *testing.T, environment []string, args ...string) *running {
	t.Helper()
	path := program(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	r := &running{t: t, stderr: new(bytes.Buffer)}
	r.cmd = exec.CommandContext(ctx, path, append(args, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")...)
	r.cmd.Env, r.cmd.Stderr = environment, r.stderr
	out, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	r.cmd.Stdout = out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if !r.terminated {
			_ = r.cmd.Wait()
		}
	})
	await(t, "the router says where it listens", func() bool {
		text, err := os.ReadFile(out.Name())
		urls := loopback.FindAllString(string(text), -1)
		if err != nil || len(urls) < 2 {
			return false
		}
		r.data, r.admin = urls[0], urls[1]
		return true
	})
	return r
}

// await waits until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// status asks for a page of a port.
func status(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url) //nolint:noctx // bounded by the test
	if err != nil {
		t.Error(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// terminate ends the router as managers do, and returns its exit code.
func (r *running) terminate() int {
	r.t.Helper()
	r.terminated = true
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	_ = r.cmd.Wait() // the state says how it ended
	return r.cmd.ProcessState.ExitCode()
}

// TestImageProgram: what the Dockerfile builds needs nothing beside it, and runs.
func TestImageProgram(t *testing.T) {
	file, err := elf.Open(program(t))
	if err != nil {
		t.Skipf("not a program of Linux: %v", err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it needs a loader: %v", p.Type)
		}
	}
	if needed, err := file.ImportedLibraries(); err != nil || len(needed) > 0 {
		t.Errorf("it needs %v, %v", needed, err)
	}
	if file.Section(".symtab") != nil {
		t.Error("it has a table of symbols")
	}
	if code, out := execute(t, nil, "version"); code != 0 || !strings.HasPrefix(out, "warmroute "+version) {
		t.Errorf("version: %d, %s", code, out)
	}
	r := launch(t, nil, "serve", "--backend", "http://127.0.0.1:1")
	if got := status(t, r.admin+"/healthz"); got != http.StatusOK {
		t.Errorf("alive: %d", got)
	}
	for _, args := range [][]string{{"health", "--admin", r.admin}, {"health", "--ready", "--admin", r.admin}} {
		if code, out := execute(t, nil, args...); code != len(args)-3 { // alive, and not ready
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
	if code := r.terminate(); code != 0 {
		t.Errorf("exit code %d: %s", code, r.stderr)
	}
}
