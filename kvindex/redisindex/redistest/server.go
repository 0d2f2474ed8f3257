package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience bounds every wait. It is for machines that are very busy.
const patience = 30 * time.Second

// Server is a Redis server that a test started. Its methods fail the test.
type Server struct {
	// Addr is host:port, the same after a restart.
	Addr string

	t       testing.TB
	program string
	args    []string
	dir     string
	process *exec.Cmd
	output  bytes.Buffer
}

// Find returns the path of a program of Debian's redis packages. Where it is missing, the
// test is skipped, or fails in continuous integration.
func Find(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is missing; on Debian: apt-get install redis-server redis-sentinel", program)
	default:
		t.Skipf("%s is missing; on Debian: apt-get install redis-server redis-sentinel", program)
	}
	return ""
}

// FreePort returns a port of loopback that nobody listens on, and whose cluster bus port,
// 10,000 above it, is free as well.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port > 55_535 {
			continue
		}
		if bus, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port+10_000)); err == nil {
			bus.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// Start starts a server and returns when it answers. Arguments are settings as on its
// command line: "--maxmemory", "10mb".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := New(t, args...)
	s.Start()
	return s
}

// New returns a server that is not started.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	port := FreePort(t)
	s := &Server{
		t: t, program: Find(t, "redis-server"), dir: t.TempDir(),
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
	}
	s.args = append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}, args...)
	t.Cleanup(s.Kill)
	return s
}

// Start starts the server, anew after Kill, and returns when it answers.
func (s *Server) Start() {
	s.t.Helper()
	// Not the test's context: a server outlives the clean-ups that still need it.
	s.process = exec.CommandContext(context.Background(), s.program, s.args...)
	s.process.Stdout, s.process.Stderr = &s.output, &s.output
	s.process.SysProcAttr = attr()
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !s.answers() {
		if time.Now().After(deadline) {
			s.Kill()
			s.t.Fatalf("redis-server at %s does not answer:\n%s", s.Addr, s.output.String())
		}
		<-tick.C
	}
}

// answers reports whether the server answers anything at all: it may want a password.
func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(time.Second)) != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	n, err := conn.Read(make([]byte, 64))
	return err == nil && n > 0
}

// Kill ends the server at once, as a crash would. It may be called again.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGCONT)
	_ = s.process.Process.Kill()
	_ = s.process.Wait() // it says that it was killed
	s.process = nil
}

// Stop makes the server hang: connections stay, and nothing is answered.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Continue lets a server go on that hangs.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.process.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Client returns a client of the server for the test's own questions, with a password
// where the server wants one.
func (s *Server) Client(password ...string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.Addr, Password: strings.Join(password, "")})
	s.t.Cleanup(func() { client.Close() })
	return client
}

// Do sends a command and returns its answer, nil where there is none.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer client.Close()
	answer, err := client.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatalf("redis %v: %v", args, err)
	}
	return answer
}
