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
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/internal/memhttp"
)

// fleet is a network in memory with a transport that dials it. To be made inside a
// bubble.
type fleet struct {
	*memhttp.Network
	*Transport
	t     *testing.T
	dials atomic.Int64
}

func newFleet(t *testing.T, c Config) *fleet {
	t.Helper()
	f := &fleet{Network: memhttp.NewNetwork(), t: t}
	c.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		f.dials.Add(1)
		return f.Network.DialContext(ctx, network, addr)
	}
	f.Transport = New(c)
	t.Cleanup(f.Close)
	return f
}

func (f *fleet) start(addr string, s *http.Server) {
	f.t.Helper()
	srv, err := f.Start(addr, s)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { srv.Close() })
}

// FO-08: a black hole fails after timeouts.connect.
func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{})
		l, err := f.Listen("hole:8000")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		start := time.Now()
		_, failure := f.Do(t.Context(), backend(t, "http://hole:8000"), postRequest("x"))
		wantKind(t, failure, Dial)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("gave up after %v, want 3s", took)
		}
		if !strings.Contains(failure.Error(), "within 3s (timeouts.connect)") {
			t.Errorf("text %q does not name the setting", failure)
		}
	})
}

func TestConnectTimeoutCoversTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Connect: 4 * time.Second})
		l, err := f.Listen("hole:8000")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			time.Sleep(time.Second)
			if c, err := l.Accept(); err == nil {
				io.Copy(io.Discard, c) // listens and says nothing
			}
		}()
		start := time.Now()
		_, failure := f.Do(t.Context(), backend(t, "https://hole:8000"), postRequest("x"))
		wantKind(t, failure, TLS)
		if took := time.Since(start); took != 4*time.Second || !strings.Contains(failure.Error(), "timeouts.connect") {
			t.Errorf("gave up after %v with %q, want 4s and the setting", took, failure)
		}
	})
}

// PS-09: an answer that is not streamed takes as long as the generation.
func TestFirstByteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{})
		var delay time.Duration
		left := make(chan struct{}, 1)
		f.start("b1:8000", &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			select {
			case <-time.After(delay):
			case <-r.Context().Done():
				left <- struct{}{}
			}
		})})
		b := backend(t, "http://b1:8000")

		delay = 19 * time.Minute
		text(t, post(t, f.Transport, b, "x"))

		delay = time.Hour
		start := time.Now()
		_, failure := f.Do(t.Context(), b, postRequest("x"))
		wantKind(t, failure, FirstByteTimeout)
		if took := time.Since(start); took != 20*time.Minute {
			t.Errorf("gave up after %v, want 20m", took)
		}
		if !strings.Contains(failure.Error(), "within 20m0s (timeouts.first_byte)") || failure.Kind.Retryable() {
			t.Errorf("failure %q: want the setting named, and no retry", failure)
		}
		<-left // the engine is told
	})
}

// The wait counts from the end of the upload; an upload that does not get on is
// bounded as well.
func TestFirstByteCountsFromTheEndOfTheUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{FirstByte: 10 * time.Second})
		var servers sync.WaitGroup
		defer servers.Wait()
		for _, tt := range []struct {
			addr  string
			pause time.Duration
			fail  time.Duration // after the start, 0 for an answer
		}{
			{"slow:1", 9 * time.Second, 0},
			{"slower:1", 11 * time.Second, 10 * time.Second},
		} {
			l, err := f.Listen(tt.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			servers.Go(func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				time.Sleep(tt.pause) // nothing can be written meanwhile
				if readRequest(bufio.NewReader(c)) {
					time.Sleep(tt.pause)
					io.WriteString(c, whole)
				}
			})
			start := time.Now()
			resp, failure := f.Do(t.Context(), backend(t, "http://"+tt.addr), postRequest("x"))
			if tt.fail == 0 {
				if failure != nil {
					t.Errorf("%s: %v", tt.addr, failure)
					continue
				}
				text(t, resp)
				continue
			}
			wantKind(t, failure, FirstByteTimeout)
			if took := time.Since(start); took != tt.fail {
				t.Errorf("%s: gave up after %v, want %v", tt.addr, took, tt.fail)
			}
		}
	})
}

// PS-08: there is no limit on the whole of a stream, only on its pauses, and the
// pauses of a slow reader do not count.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Idle: 30 * time.Second})
		left := make(chan time.Time, 1)
		f.start("b1:8000", &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := range 100 {
				fmt.Fprintf(w, "%02d", i)
				w.(http.Flusher).Flush()
				time.Sleep(29 * time.Second)
			}
			<-r.Context().Done()
			left <- time.Now()
		})})
		resp := post(t, f.Transport, backend(t, "http://b1:8000"), "x")
		defer resp.Body.Close()
		p := make([]byte, 2)
		for i := range 100 {
			if _, err := io.ReadFull(resp.Body, p); err != nil {
				t.Fatalf("after %d pieces: %v", i, err)
			}
			if i == 50 {
				time.Sleep(time.Hour) // a slow reader
			}
		}
		start := time.Now()
		_, err := resp.Body.Read(p)
		failure := FailureOf(err)
		wantKind(t, failure, IdleTimeout)
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("gave up after %v, want 30s", took)
		}
		if !strings.Contains(failure.Error(), "within 30s (timeouts.idle)") {
			t.Errorf("text %q does not name the setting", failure)
		}
		if at := <-left; at.Sub(start) != 30*time.Second {
			t.Errorf("the engine heard of it %v later", at.Sub(start)-30*time.Second)
		}
	})
}

// PS-01: when the client leaves, the engine learns of it, before and after the
// headers, and it is nobody's failure.
func TestClientGone(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		t.Run(fmt.Sprintf("streaming=%v", streaming), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{})
				left := make(chan time.Time, 1)
				f.start("b1:8000", &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					if streaming {
						io.WriteString(w, "x")
						w.(http.Flusher).Flush()
					}
					<-r.Context().Done()
					left <- time.Now()
				})})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(200*time.Millisecond, cancel)
				start := time.Now()
				resp, failure := f.Do(ctx, backend(t, "http://b1:8000"), postRequest("x"))
				if streaming {
					if failure != nil {
						t.Fatal(failure)
					}
					defer resp.Body.Close()
					_, err := io.ReadAll(resp.Body)
					failure = FailureOf(err)
				}
				wantKind(t, failure, ClientGone)
				if !errors.Is(failure, context.Canceled) {
					t.Errorf("failure %v does not wrap context.Canceled", failure)
				}
				if at := (<-left).Sub(start); at != 200*time.Millisecond {
					t.Errorf("the engine heard of it after %v, want 200ms", at)
				}
			})
		})
	}
}

// Closing a body before its end is how a caller says that it does not want the rest.
func TestCloseEndsTheWorkUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{})
		left := make(chan struct{})
		f.start("b1:8000", &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100") // short, but it does not come
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(left)
		})})
		resp := post(t, f.Transport, backend(t, "http://b1:8000"), "x")
		start := time.Now()
		resp.Body.Close()
		<-left
		if took := time.Since(start); took > drainTime {
			t.Errorf("took %v, want at most %v", took, drainTime)
		}
		if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
			t.Error("a closed body could be read")
		}
	})
}

// A Read that waits is ended by a Close from elsewhere.
func TestCloseWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{})
		f.start("b1:8000", &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})})
		resp := post(t, f.Transport, backend(t, "http://b1:8000"), "x")
		time.AfterFunc(time.Second, func() { resp.Body.Close() })
		start := time.Now()
		_, err := resp.Body.Read(make([]byte, 1))
		wantKind(t, FailureOf(err), ClientGone)
		if took := time.Since(start); took != time.Second {
			t.Errorf("Read ended after %v, want 1s", took)
		}
	})
}

// FO-01: requests spaced around the engine's keep-alive of 5 s never meet a
// connection that is just being closed.
func TestKeepAliveOfTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{})
		f.start("b1:8000", &http.Server{
			IdleTimeout: 5 * time.Second,
			Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }),
		})
		b := backend(t, "http://b1:8000")
		body := strings.Repeat("x", 100<<10)
		for i := range 300 {
			text(t, post(t, f.Transport, b, body))
			time.Sleep(4950*time.Millisecond + time.Duration(i%101)*time.Millisecond)
		}
		if n := f.dials.Load(); n != 300 {
			t.Errorf("%d connections for 300 requests that far apart, want 300", n)
		}
		for range 300 {
			text(t, post(t, f.Transport, b, body))
			time.Sleep(100 * time.Millisecond)
		}
		if n := f.dials.Load() - 300; n > 2 {
			t.Errorf("%d more connections for 300 requests in half a minute, want at most 2", n)
		}
	})
}

// DI-14: connections to a name are renewed in a stated time, even where they are
// never idle for long; answers under way are not cut.
func TestNamesThatMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{})
		release := make(chan struct{})
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				io.WriteString(w, "x")
				w.(http.Flusher).Flush()
				<-release
			}
		})
		f.start("b1:8000", &http.Server{Handler: handler})
		f.start("10.0.0.1:8000", &http.Server{Handler: handler})
		long := post(t, f.Transport, backend(t, "http://b1:8000"), "x")
		for _, tt := range []struct {
			url      string
			min, max int64
		}{
			{"http://b1:8000", 5, 6},
			{"http://10.0.0.1:8000", 1, 1},
		} {
			before := f.dials.Load()
			b := backend(t, tt.url)
			for range 300 {
				resp, err := f.Get(t.Context(), b, "/", nil)
				if err != nil {
					t.Fatal(err)
				}
				text(t, resp)
				time.Sleep(time.Second)
			}
			if n := f.dials.Load() - before; n < tt.min || n > tt.max {
				t.Errorf("%s: %d connections in 5 minutes, want %d to %d", tt.url, n, tt.min, tt.max)
			}
		}
		close(release)
		if got := text(t, long); got != "x" {
			t.Errorf("the long answer was %q", got)
		}
	})
}

func TestForgetClosesIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{IdleConn: time.Hour})
		var open atomic.Int64
		f.start("b1:8000", &http.Server{
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			ConnState: func(_ net.Conn, s http.ConnState) {
				switch s {
				case http.StateNew:
					open.Add(1)
				case http.StateClosed:
					open.Add(-1)
				}
			},
		})
		b := backend(t, "http://b1:8000")
		text(t, post(t, f.Transport, b, "x"))
		if open.Load() != 1 {
			t.Fatalf("%d connections, want 1", open.Load())
		}
		f.Forget(b)
		f.Forget(b)
		synctest.Wait()
		if open.Load() != 0 {
			t.Errorf("%d connections after Forget, want 0", open.Load())
		}
		text(t, post(t, f.Transport, b, "x")) // it may come back
		f.Keep([]*backends.Backend{b})
		synctest.Wait()
		if open.Load() != 1 {
			t.Errorf("%d connections of who is kept, want 1", open.Load())
		}
		f.Keep(nil)
		synctest.Wait()
		if open.Load() != 0 {
			t.Errorf("%d connections of who is not kept, want 0", open.Load())
		}
		text(t, post(t, f.Transport, b, "x"))
		f.Close()
		synctest.Wait()
		if open.Load() != 0 {
			t.Errorf("%d connections after Close, want 0", open.Load())
		}
		_, failure := f.Do(t.Context(), b, postRequest("x"))
		wantKind(t, failure, Other)
	})
}
