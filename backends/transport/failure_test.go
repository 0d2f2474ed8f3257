package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

const whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// deadAddr is an address that nobody listens on.
func deadAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestDialRefused(t *testing.T) {
	addr := deadAddr(t)
	tr := open(t, Config{})
	_, f := tr.Do(t.Context(), backend(t, "http://"+addr), postRequest("x"))
	wantKind(t, f, Dial)
	if !errors.Is(f, syscall.ECONNREFUSED) || !strings.Contains(f.Error(), addr) || f.Reused {
		t.Errorf("failure %+v: want the address and connection refused", f)
	}
}

func TestUnknownHost(t *testing.T) {
	tr := open(t, Config{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "gone", IsNotFound: true}
	}})
	_, f := tr.Do(t.Context(), backend(t, "http://gone:8000"), postRequest("x"))
	wantKind(t, f, Dial)
}

// FO-01, FO-04: what a closed connection means depends on whether it was reused and
// whether anything had come back.
func TestClosedConnections(t *testing.T) {
	closes := map[string]func(*net.TCPConn){
		"closed": func(c *net.TCPConn) { c.Close() },
		"reset":  func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
	}
	for name, end := range closes {
		for _, tt := range []struct {
			name   string
			before int // whole answers on the connection before the one that fails
			partly string
			want   Kind
		}{
			{"fresh", 0, "", BrokenConn},
			{"reused", 1, "", StaleConn},
			{"reused often", 5, "", StaleConn},
			{"fresh, some bytes", 0, "HTTP/1.1 200", BrokenConn},
			{"reused, some bytes", 1, "HTTP/1.1 200", BrokenConn},
			{"reused, headers incomplete", 1, "HTTP/1.1 200 OK\r\nServer: x\r\n", BrokenConn},
		} {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				requests := make(chan struct{}, 100)
				addr := raw(t, func(c *net.TCPConn, r *bufio.Reader) {
					for range tt.before {
						if !readRequest(r) {
							return
						}
						io.WriteString(c, whole)
					}
					if readRequest(r) {
						requests <- struct{}{}
						io.WriteString(c, tt.partly)
						end(c)
					}
				})
				tr := open(t, Config{})
				b := backend(t, "http://"+addr)
				for range tt.before {
					text(t, post(t, tr, b, "x"))
				}
				_, f := tr.Do(t.Context(), b, postRequest("x"))
				if tt.partly != "" && name == "reset" {
					// The reset may overtake the bytes.
					if f == nil || f.Kind != BrokenConn && f.Kind != StaleConn {
						t.Fatalf("failure %v, want a broken connection", f)
					}
				} else {
					wantKind(t, f, tt.want)
				}
				if f.Reused != (tt.before > 0) {
					t.Errorf("reused = %v after %d answers", f.Reused, tt.before)
				}
				<-requests
				if len(requests) > 0 {
					t.Errorf("a POST was sent %d more times", len(requests))
				}
			})
		}
	}
}

// FO-01: the engine closes a kept connection while nobody looks. Whatever the timing,
// a request on it fails as stale, or goes over a new connection.
func TestConnectionClosedWhileIdle(t *testing.T) {
	closed := make(chan struct{}, 1)
	addr := raw(t, func(c *net.TCPConn, r *bufio.Reader) {
		if readRequest(r) {
			io.WriteString(c, whole)
			c.Close()
			closed <- struct{}{}
		}
	})
	tr := open(t, Config{})
	b := backend(t, "http://"+addr)
	body := strings.Repeat("x", 100<<10)
	for range 200 {
		resp, f := tr.Do(t.Context(), b, postRequest(body))
		if f == nil {
			text(t, resp)
			<-closed
			continue
		}
		wantKind(t, f, StaleConn)
		if !f.Kind.Retryable() {
			t.Error("a stale connection must be retryable")
		}
	}
}

func TestMalformedAnswers(t *testing.T) {
	for _, answer := range []string{
		"SSH-2.0-OpenSSH_9.2\r\n\r\n",
		"HTTP/9 200 OK\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeaderBytes+1<<16) + "\r\n\r\n",
	} {
		t.Run(answer[:min(len(answer), 40)], func(t *testing.T) {
			addr := raw(t, func(c *net.TCPConn, r *bufio.Reader) {
				readRequest(r)
				io.WriteString(c, answer)
				io.Copy(io.Discard, r)
			})
			tr := open(t, Config{})
			_, f := tr.Do(t.Context(), backend(t, "http://"+addr), postRequest("x"))
			wantKind(t, f, Malformed)
			for _, part := range []string{"OpenSSH", "HTTP/9", "2x0", "no colon", "-3", "xxx"} {
				if strings.Contains(f.Error(), part) {
					t.Errorf("the error quotes the answer: %v", f)
				}
			}
		})
	}
}

// A switch of protocols was not asked for, and must not hold whoever closes it; a status
// below 100 cannot be passed on.
func TestStatusesThatAreNoAnswer(t *testing.T) {
	for _, head := range []string{
		"101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		"000 None\r\nContent-Length: 2\r\n\r\nok",
		"099 None\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		t.Run(head[:3], func(t *testing.T) {
			addr := raw(t, func(c *net.TCPConn, r *bufio.Reader) {
				readRequest(r)
				io.WriteString(c, "HTTP/1.1 "+head)
				io.Copy(io.Discard, r)
			})
			tr := open(t, Config{})
			_, f := tr.Do(t.Context(), backend(t, "http://"+addr), postRequest("x"))
			wantKind(t, f, Malformed)
			if !strings.Contains(f.Error(), addr) {
				t.Errorf("the error does not name the backend: %v", f)
			}
		})
	}
}

// PS-03, PS-04: an answer that breaks off is told from one that ended.
func TestAnswersThatBreakOff(t *testing.T) {
	for _, tt := range []struct {
		name, head, body string
		want             Kind
	}{
		{"short of its length", "Content-Length: 10\r\n", "12345", BrokenConn},
		{"no last chunk", "Transfer-Encoding: chunked\r\n", "5\r\n12345\r\n", BrokenConn},
		{"inside a chunk", "Transfer-Encoding: chunked\r\n", "9\r\n12345", BrokenConn},
		{"no chunk at all", "Transfer-Encoding: chunked\r\n", "", BrokenConn},
		{"bad chunk", "Transfer-Encoding: chunked\r\n", "5\r\n12345\r\nzz\r\n", Malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := raw(t, func(c *net.TCPConn, r *bufio.Reader) {
				readRequest(r)
				io.WriteString(c, "HTTP/1.1 200 OK\r\n"+tt.head+"\r\n"+tt.body)
			})
			tr := open(t, Config{})
			resp := post(t, tr, backend(t, "http://"+addr), "x")
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			wantKind(t, FailureOf(err), tt.want)
			if tt.body != "" && string(got) != "12345" {
				t.Errorf("read %q before the failure", got)
			}
			if _, again := resp.Body.Read(make([]byte, 1)); !errors.Is(again, err) {
				t.Errorf("the next Read failed with %v, want %v again", again, err)
			}
		})
	}
}

// A connection that net/http closes on behalf of the request that it carried before ends with
// that one's reason, which may be anything. It is a kept connection that was closed.
func TestReasonsOfOthers(t *testing.T) {
	b := backend(t, "http://127.0.0.1:8000")
	config := Config{}.withDefaults()
	for _, err := range []error{errors.New("the time for a probe has passed"), context.Canceled} {
		for _, test := range []struct {
			reused, firstByte bool
			want              Kind
		}{{true, false, StaleConn}, {false, false, Other}, {true, true, Malformed}} {
			x := newExchange(t.Context(), &config, b)
			x.connected(test.reused)
			if test.firstByte {
				x.gotFirstByte()
			}
			if f := x.abandon(err); f.Kind != test.want {
				t.Errorf("%v on a connection, reused %v, after a byte %v: %v, want %v", err, test.reused, test.firstByte, f.Kind, test.want)
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		x := newExchange(ctx, &config, b)
		x.connected(true)
		leave()
		if f := x.abandon(err); f.Kind != ClientGone {
			t.Errorf("%v when the caller gave up: %v", err, f.Kind)
		}
	}
}

func TestFailureOf(t *testing.T) {
	stale := &Failure{Kind: StaleConn, Err: errors.New("x")}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "nil"},
		{io.EOF, "nil"},
		{stale, "stale_connection"},
		{fmt.Errorf("copy: %w", stale), "stale_connection"},
		{io.ErrUnexpectedEOF, "broken_connection"},
		{fmt.Errorf("read: %w", io.EOF), "broken_connection"},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, "broken_connection"},
		{fmt.Errorf("copy: %w", context.Canceled), "client_gone"},
		{context.DeadlineExceeded, "client_gone"},
		{http.ErrBodyReadAfterClose, "other"},
	} {
		got := "nil"
		if f := FailureOf(tt.err); f != nil {
			got = f.Kind.String()
		}
		if got != tt.want {
			t.Errorf("FailureOf(%v) = %s, want %s", tt.err, got, tt.want)
		}
	}
}

func TestKinds(t *testing.T) {
	names := make(map[string]bool)
	retryable := 0
	for k := range Kind(len(kindNames)) {
		names[k.String()] = true
		if k.Retryable() {
			retryable++
		}
	}
	if len(names) != len(kindNames) || names[""] || retryable != 3 {
		t.Errorf("kinds %v, %d retryable: want all named differently, 3 retryable", names, retryable)
	}
	if got := Kind(200).String(); got != "unknown" {
		t.Errorf("Kind(200) = %q", got)
	}
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
	if c := (Config{}).withDefaults(); c.IdleConn >= 5*time.Second || c.FirstByte != 20*time.Minute {
		t.Errorf("defaults %+v: connections must not be kept as long as engines do (FO-01)", c)
	}
	for _, tt := range []struct {
		c    Config
		name string
	}{
		{Config{Connect: -1}, "timeouts.connect"},
		{Config{FirstByte: -1}, "timeouts.first_byte"},
		{Config{Idle: -1}, "timeouts.idle"},
		{Config{IdleConn: -1}, "transport.idle_connection"},
		{Config{MaxConnAge: -1}, "transport.max_connection_age"},
		{Config{MaxIdlePerBackend: -1}, "transport.max_idle_per_backend"},
	} {
		if err := tt.c.Validate(); err == nil || !strings.HasPrefix(err.Error(), tt.name+":") {
			t.Errorf("Validate() = %v, want it to name %s", err, tt.name)
		}
	}
}
