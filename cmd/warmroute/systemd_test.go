//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// patience is how long a process has for what it should do at once.
const patience = 30 * time.Second

// supervised is a router that was started as systemd does it.
type supervised struct {
	t         *testing.T
	cmd       *exec.Cmd
	stderr    bytes.Buffer
	data      string // base URL of the data plane
	admin     string
	told      chan string // what it told the manager
	watchdogs atomic.Int64
	exit      chan error
}

// supervise starts a router with a configuration file.
func supervise(t *testing.T, config string) *supervised {
	t.Helper()
	dir := t.TempDir()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	s := &supervised{t: t, told: make(chan string, 1000), exit: make(chan error, 1)}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			if text := string(buffer[:n]); text == "WATCHDOG=1" {
				s.watchdogs.Add(1)
			} else if !strings.HasPrefix(text, "STATUS=") {
				s.told <- text
			}
		}
	}()
	file := filepath.Join(dir, "warmroute.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	s.cmd = exec.CommandContext(ctx, "warmroute", "serve", "--config", file, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	s.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket.LocalAddr().String(), "WATCHDOG_USEC=100000")
	s.cmd.Stderr = &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		<-s.exit
	})
	lines := bufio.NewScanner(stdout)
	for (s.data == "" || s.admin == "") && lines.Scan() {
		switch f := strings.Fields(lines.Text()); {
		case len(f) == 2 && f[0] == "requests":
			s.data = f[1]
		case len(f) == 2 && f[0] == "admin":
			s.admin = f[1]
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdout)
		s.exit <- s.cmd.Wait()
		close(s.exit)
	}()
	if s.admin == "" {
		t.Fatal("the router does not say where it listens")
	}
	return s
}

// hears returns the next that the manager is told.
func (s *supervised) hears() string {
	s.t.Helper()
	select {
	case text := <-s.told:
		return text
	case <-time.After(patience):
		s.t.Fatal("the manager is told nothing")
		return ""
	}
}

// status asks for the status of a page.
func (s *supervised) status(url string) int {
	s.t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		s.t.Error(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (s *supervised) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// ended waits for the process's end.
func (s *supervised) ended() error {
	s.t.Helper()
	select {
	case err := <-s.exit:
		return err
	case <-time.After(patience):
		s.t.Fatal("the process does not end")
		return nil
	}
}

// monotonic is the clock by which systemd compares.
func monotonic(t *testing.T) int64 {
	t.Helper()
	_, text, _ := strings.Cut(strings.TrimSpace(daemon.SdNotifyMonotonicUsec()), "=")
	now, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// startSlowly is an engine that says what it serves once it is told to, and whose streams end
// when they are told to.
func startSlowly(t *testing.T) (url string, serve *atomic.Bool, finish chan struct{}) {
	serve, finish = new(atomic.Bool), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !serve.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/v1/models":
			io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		case r.Method == http.MethodPost:
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"id\":\"x\",\"choices\":[]}\n\n")
			http.NewResponseController(w).Flush()
			select {
			case <-finish:
				io.WriteString(w, "data: [DONE]\n\n")
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, serve, finish
}

// stream begins a stream and returns what is read of it once it has begun.
func (s *supervised) stream() io.ReadCloser {
	s.t.Helper()
	resp, err := http.Post(s.data+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	if first, err := bufio.NewReader(io.LimitReader(resp.Body, 8)).ReadString(':'); err != nil || first != "data:" {
		s.t.Fatalf("%d: %q, %v", resp.StatusCode, first, err)
	}
	return resp.Body
}

// TestServiceManager: systemd is told when the router is ready and not before, each reload from
// its begin to its end, that it works, and that it stops; a stream finishes meanwhile.
func TestServiceManager(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes")
	}
	url, serve, finish := startSlowly(t)
	s := supervise(t, "version: 1\npools: [{name: default, backends: [{url: "+url+"}]}]\nscrape: {enabled: false}\ntimeouts: {shutdown_delay: 100ms, shutdown_grace: 1m}\n")
	if got := s.status(s.admin + "/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("readiness before the engine: %d", got)
	}
	select {
	case text := <-s.told:
		t.Errorf("told before it is ready: %q", text)
	default:
	}
	serve.Store(true)
	if text := s.hears(); text != "READY=1\nSTATUS=ready: 1 of 1 backends can serve" {
		t.Errorf("told %q", text)
	}
	if got := s.status(s.admin + "/readyz"); got != http.StatusOK {
		t.Errorf("readiness when it was told: %d", got)
	}
	before := monotonic(t)
	s.signal(syscall.SIGHUP)
	stamp, ok := strings.CutPrefix(s.hears(), "RELOADING=1\nMONOTONIC_USEC=")
	at, err := strconv.ParseInt(strings.TrimSpace(stamp), 10, 64)
	if !ok || err != nil || at < before || at > monotonic(t) {
		t.Errorf("reloading at %q, which is not after %d", stamp, before)
	}
	if text := s.hears(); text != "READY=1" {
		t.Errorf("after the reload: %q", text)
	}
	for seen, end := s.watchdogs.Load(), time.Now().Add(patience); s.watchdogs.Load() < seen+2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the watchdog hears nothing")
		}
	}
	body := s.stream()
	s.signal(syscall.SIGTERM)
	if text := s.hears(); text != "STOPPING=1\nSTATUS=stopping: requests have up to 1m3.1s\nEXTEND_TIMEOUT_USEC=63100000" {
		t.Errorf("told %q", text)
	}
	if got := s.status(s.admin + "/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("readiness while it stops: %d", got)
	}
	close(finish)
	if rest, err := io.ReadAll(body); err != nil || !strings.HasSuffix(string(rest), "[DONE]\n\n") {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
	if err := s.ended(); err != nil {
		t.Errorf("%v: %s", err, &s.stderr)
	}
	if len(s.told) > 0 {
		t.Errorf("told at last: %q", <-s.told)
	}
}

// TestSD02SecondSignal: a second signal ends the process at once, whatever runs.
func TestSD02SecondSignal(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes")
	}
	url, serve, _ := startSlowly(t)
	serve.Store(true)
	s := supervise(t, "version: 1\npools: [{name: default, backends: [{url: "+url+"}]}]\nscrape: {enabled: false}\ntimeouts: {shutdown_delay: 1h, shutdown_grace: 1h}\n")
	s.hears()
	s.stream()
	s.signal(syscall.SIGTERM)
	if text := s.hears(); !strings.HasPrefix(text, "STOPPING=1") {
		t.Errorf("told %q", text)
	}
	s.signal(syscall.SIGTERM)
	failed, ok := errors.AsType[*exec.ExitError](s.ended())
	if !ok {
		t.Fatal("it ends as if everything had finished")
	}
	if status, ok := failed.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ends with %v, want by the signal", failed)
	}
}
