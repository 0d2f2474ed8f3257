package transport

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// PS-15: trailers, announced or not.
func TestTrailers(t *testing.T) {
	for _, announced := range []bool{true, false} {
		t.Run(fmt.Sprintf("announced=%v", announced), func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				name := http.TrailerPrefix + "X-Usage"
				if announced {
					w.Header().Set("Trailer", "X-Usage")
					name = "X-Usage"
				}
				io.WriteString(w, "body")
				w.(http.Flusher).Flush()
				w.Header().Set(name, "7")
			})
			tr := open(t, Config{})
			resp := post(t, tr, backend(t, s.URL), "x")
			text(t, resp)
			if diff := cmp.Diff(http.Header{"X-Usage": {"7"}}, resp.Trailer); diff != "" {
				t.Errorf("trailers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInformationalAnswersArePassedOver(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		echo(w, r)
	})
	tr := open(t, Config{})
	resp := post(t, tr, backend(t, s.URL), "abc")
	if got := text(t, resp); resp.StatusCode != 200 || !strings.HasSuffix(got, "body=abc") {
		t.Errorf("got %d %q", resp.StatusCode, got)
	}
}

// PS-17: an engine that refuses early answers while the body is still being sent,
// then hangs up. Its answer must get through, every time.
func TestEarlyAnswer(t *testing.T) {
	const answer = "HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large"
	body := strings.Repeat("x", 10<<20)
	for _, tt := range []struct {
		name string
		read int64
		end  func(*net.TCPConn)
	}{
		{"closes", 64 << 10, func(*net.TCPConn) {}},
		{"reads nothing", 0, func(*net.TCPConn) {}},
		{"closes its half, then all", 64 << 10, func(c *net.TCPConn) { c.CloseWrite() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := raw(t, func(c *net.TCPConn, r *bufio.Reader) {
				io.CopyN(io.Discard, r, tt.read)
				io.WriteString(c, answer)
				tt.end(c)
			})
			tr := open(t, Config{})
			b := backend(t, "http://"+addr)
			for i := range 50 {
				resp, f := tr.Do(t.Context(), b, postRequest(body))
				if f != nil {
					t.Fatalf("request %d: %v (%v)", i, f, f.Kind)
				}
				if got := text(t, resp); resp.StatusCode != 413 || got != "too large" {
					t.Fatalf("request %d: %d %q", i, resp.StatusCode, got)
				}
			}
		})
	}
}

// An engine that answers early and neither reads on nor hangs up must not keep the
// caller: the answer is there at once, and Close gives everything back.
func TestEarlyAnswerOnAStuckConnection(t *testing.T) {
	gone := make(chan error, 1)
	addr := raw(t, func(c *net.TCPConn, r *bufio.Reader) {
		io.CopyN(io.Discard, r, 1000)
		io.WriteString(c, "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\nno")
		// What comes now was sent before the caller had read the answer.
		_, err := io.Copy(io.Discard, r)
		gone <- err
	})
	tr := open(t, Config{})
	body := bytes.Repeat([]byte("x"), 20<<20)
	resp, f := tr.Do(t.Context(), backend(t, "http://"+addr), Request{Method: http.MethodPost, Path: "/", Body: body})
	if f != nil {
		t.Fatal(f)
	}
	if got := text(t, resp); resp.StatusCode != 429 || got != "no" {
		t.Errorf("got %d %q", resp.StatusCode, got)
	}
	clear(body) // the race detector sees whether it is still being read
	<-gone
}

// ML-05: many parallel short requests use few connections beyond those that so many at
// once need.
func TestConnectionsAreReused(t *testing.T) {
	const parallel, each = 500, 30
	var dials atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "ok")
	})
	c := DefaultConfig()
	dial := c.withDefaults().DialContext
	c.DialContext = countDials(&dials, dial)
	tr := open(t, c)
	b := backend(t, s.URL)
	send := func(each int) {
		var wg sync.WaitGroup
		for range parallel {
			wg.Go(func() {
				for range each {
					resp, f := tr.Do(t.Context(), b, postRequest("body"))
					if f != nil {
						t.Errorf("no answer: %v (%v)", f, f.Kind)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		wg.Wait()
	}
	send(1)
	before := dials.Load()
	send(each)
	if n := dials.Load() - before; n > parallel*each/20 {
		t.Errorf("%d more connections for %d requests, want at most a twentieth", n, parallel*each)
	}
}

// ML-08: answers that are closed unread leave nothing behind; short ones give even
// their connection back.
func TestAnswersClosedUnread(t *testing.T) {
	for _, tt := range []struct {
		name    string
		size    int
		declare bool
		dials   int64
	}{
		{"short", 300, true, 1},
		{"empty", 0, true, 1},
		{"large", 1 << 20, true, 100},
		{"of unknown length", 1 << 20, false, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var dials, live atomic.Int64
			closed := make(chan struct{}, 1000)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tt.declare {
					w.Header().Set("Content-Length", fmt.Sprint(tt.size))
				}
				w.WriteHeader(http.StatusInternalServerError)
				if !tt.declare {
					w.(http.Flusher).Flush()
				}
				w.Write(make([]byte, tt.size))
			}))
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					live.Add(1)
				case http.StateClosed:
					live.Add(-1)
					closed <- struct{}{}
				}
			}
			s.Start()
			t.Cleanup(s.Close)
			c := DefaultConfig()
			c.DialContext = countDials(&dials, c.withDefaults().DialContext)
			tr := open(t, c)
			b := backend(t, s.URL)
			for range 100 {
				resp := post(t, tr, b, "x")
				resp.Body.Close()
				resp.Body.Close()
			}
			if n := dials.Load(); n > tt.dials {
				t.Errorf("%d connections for 100 answers, want at most %d", n, tt.dials)
			}
			tr.Close()
			for live.Load() > 0 {
				<-closed
			}
		})
	}
}

// A caller may use the body's memory again once the answer is closed.
func TestBodyMayBeReusedAfterClose(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 10)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	tr := open(t, Config{})
	b := backend(t, s.URL)
	body := make([]byte, 4<<20)
	for i := range 20 {
		for j := range body {
			body[j] = byte(i)
		}
		resp, f := tr.Do(t.Context(), b, Request{Method: http.MethodPost, Path: "/", Body: body})
		if f == nil {
			resp.Body.Close()
		}
	}
}

func TestHeadAndNoContent(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	tr := open(t, Config{})
	b := backend(t, s.URL)
	for _, method := range []string{http.MethodHead, http.MethodDelete, http.MethodOptions} {
		resp, f := tr.Do(t.Context(), b, Request{Method: method, Path: "/"})
		if f != nil {
			t.Fatalf("%s: %v", method, f)
		}
		if got := text(t, resp); got != "" {
			t.Errorf("%s: body %q", method, got)
		}
	}
}

// An answer reaches the caller piece by piece, not when it is whole.
func TestPiecesAreNotHeldBack(t *testing.T) {
	next := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 10 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	tr := open(t, Config{Idle: time.Minute})
	resp := post(t, tr, backend(t, s.URL), "x")
	defer resp.Body.Close()
	p := make([]byte, 100)
	for i := range 10 {
		n, err := resp.Body.Read(p)
		if want := fmt.Sprintf("data: %d\n\n", i); err != nil || string(p[:n]) != want {
			t.Fatalf("read %q, %v; want %q", p[:n], err, want)
		}
		next <- struct{}{}
	}
}
