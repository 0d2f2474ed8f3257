package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/warmroute/warmroute/internal/certtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"warmroute": main,
		"engine":    fakeEngine,
	})
}

// fakeEngine serves a model named m on an address until it is interrupted. It says that it
// found 600 of 1,000 tokens of every prompt in its cache.
func fakeEngine() {
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			w.Write([]byte(`{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":600}}}`))
			return
		}
		w.Write([]byte(`{"object":"list","data":[{"id":"m","object":"model"}]}`))
	})}
	context.AfterFunc(ctx, func() { server.Close() })
	server.Serve(l)
}

// post sends a file as JSON: post URL FILE.
func post(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: post URL FILE")
	}
	resp, err := http.Post(args[0], "application/json", strings.NewReader(ts.ReadFile(args[1])))
	ts.Check(err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		ts.Fatalf("%s: %s", args[0], resp.Status)
	}
}

// freePort is an address that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			var free []string
			for range 4 {
				addr, err := freePort()
				if err != nil {
					return err
				}
				free = append(free, addr)
			}
			slices.Sort(free) // so that backends are listed in this order
			for i, name := range []string{"ENGINE", "ENGINE2", "ADDR", "ADMIN"} {
				env.Setenv(name, free[i])
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":        awaitURL,
			"certificates": certificates(t),
			"exitcode":     exitCode,
			"hangup":       hangUp,
			"post":         post,
		},
	})
}

// net/http writes what engines send unasked to the standard logger, word for word.
func TestNothingOfAnEngineIsLogged(t *testing.T) {
	before := log.Writer()
	defer log.SetOutput(before)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	if code := run(ctx, []string{"serve", "--backend", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, io.Discard, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	if log.Writer() != io.Discard {
		t.Error("the standard logger writes")
	}
}

// A replay that is told to stop ends as shells expect it, and leaves nothing.
func TestReplayInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	page := filepath.Join(t.TempDir(), "report.html")
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"replay", "--workload", "docs", "--html", page}, &stdout, &stderr)
	if code != 130 || stdout.Len() > 0 || stderr.String() != "warmroute: interrupted\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
	if _, err := os.Stat(page); !os.IsNotExist(err) {
		t.Errorf("there is a report: %v", err)
	}
}

// certificates writes ca.pem, and tls.crt and tls.key that it signed for this machine:
// certificates DIR.
func certificates(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("usage: certificates DIR")
		}
		dir, authority := ts.MkAbs(args[0]), certtest.New(t, "scripts")
		certtest.Write(t, dir, "ca.pem", authority.PEM)
		authority.Issue("router", time.Now().Add(time.Hour)).Write(t, dir)
	}
}

// exitCode runs the command in this process: exitcode 2 serve --nope.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exitcode CODE [ARG…]")
	}
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), args[1:], &stdout, &stderr)
	if got := string(rune('0' + code)); got != args[0] {
		ts.Fatalf("exit code %s, want %s\n%s%s", got, args[0], &stdout, &stderr)
	}
	if lines := strings.Count(stderr.String(), "\n"); code != 0 && lines != 1 {
		ts.Fatalf("%d lines on stderr, want one:\n%s", lines, &stderr)
	}
}

// hangUp sends SIGHUP to the processes that run in the background, in the shape of
// testscript's own kill, which knows INT and KILL only.
func hangUp(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: hangup")
	}
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGHUP))
	}
}
