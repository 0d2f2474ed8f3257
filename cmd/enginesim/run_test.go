package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
)

func TestBadInvocations(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"unknown flag", []string{"--speeed", "2"}, 2, "--speeed"},
		{"bad value", []string{"--speed", "fast"}, 2, "--speed"},
		{"speed 0", []string{"--speed", "0"}, 2, "--speed: must be > 0"},
		{"speed -1", []string{"--speed", "-1"}, 2, "--speed: must be > 0 and at most 1000000, is -1"},
		{"argument", []string{"serve"}, 2, `unexpected argument "serve"`},
		{"profile", []string{"--profile", "h200"}, 2, "llama-70b-8xh100"},
		{"no file", []string{"--profile-file", "/nowhere/p.json"}, 2, "/nowhere/p.json"},
		{"unknown key", []string{"--profile-file", file(t, "{\n\"kv\": 3}")}, 2, `p.json:2: json: unknown field "kv"`},
		{"unknown base", []string{"--profile-file", file(t, `{"base":"x"}`)}, 2, `base: unknown profile "x"`},
		{"bad profile", []string{"--profile-file", file(t, `{"max_seqs":-1}`)}, 2, "profile.max_seqs"},
		{"engines", []string{"--engines", "-1"}, 2, "enginesim: --engines: "},
		{"metrics", []string{"--metrics-generation", "0.7"}, 2, "--metrics-generation: must be one of v0, 0.8, 0.9.2, current"},
		{"several", []string{"--engines", "-1", "--block-size", "-1"}, 2, "--block-size: "},
		{"taken port", []string{"--listen", taken.Addr().String()}, 1, "enginesim: --listen: " + taken.Addr().String() + " is in use by another process\n"},
		{"bad address", []string{"--listen", "nowhere"}, 1, "--listen"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), test.args, &stdout, &stderr)
			text := stderr.String()
			if code != test.code || !strings.Contains(text, test.want) {
				t.Errorf("exit code %d, stderr %q, want %d and %q", code, text, test.code, test.want)
			}
			if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "enginesim: ") {
				t.Errorf("stderr %q, want one line", text)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout %q, want nothing", stdout.String())
			}
		})
	}
}

// file writes a profile file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProfileFile(t *testing.T) {
	base, err := enginesim.ProfileByName("llama-8b-a100")
	if err != nil {
		t.Fatal(err)
	}
	got, err := readProfile(file(t, `{"name":"ours","prefill_us_per_token":50,"step_floor_ms":2.5,"kv_tokens":1600}`), "llama-8b-a100")
	if err != nil {
		t.Fatal(err)
	}
	want := base
	want.Name, want.PrefillPerToken, want.StepFloor, want.KVTokens = "ours", 50_000, 2500*time.Microsecond, 1600
	if *got != want {
		t.Errorf("profile %+v, want %+v", *got, want)
	}
}

func TestVersion(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--version"}, &stdout, &stderr)
	if code != 0 || stderr.Len() > 0 || !regexp.MustCompile(`^enginesim \S+ \(go1\.\S+, \w+/\w+\)\n$`).MatchString(stdout.String()) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &stdout, &stderr); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	for _, want := range []string{
		"--listen", "--model", "--profile", "--speed", "--kv-tokens", "--block-size", "--prompt-tokens-details",
		"--engines", "--seed", "--metrics-generation", "--overcount", "/sim/fault", `{"restart":true}`, "llama-8b-l40s",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("help does not mention %s", want)
		}
	}
}

// TestServe starts the program, asks it something and ends it.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stdout, out := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"--listen", "127.0.0.1:0", "--model", "a,b", "--speed", "100"}, out, &stderr)
	}()
	line := make([]byte, 256)
	n, err := stdout.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://\S+`).FindString(string(line[:n]))
	if url == "" {
		t.Fatalf("first line %q has no URL", line[:n])
	}
	body := `{"model":"b","messages":[{"role":"user","content":"hi"}],"max_tokens":3}`
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	cancel()
	select {
	case got := <-code:
		if got != 0 || stderr.Len() > 0 {
			t.Errorf("exit code %d, stderr %q, want 0 and nothing", got, stderr.String())
		}
	case <-time.After(10 * time.Second):
		t.Fatal("still running 10 s after it was told to end")
	}
}
