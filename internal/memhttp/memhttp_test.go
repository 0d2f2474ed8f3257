package memhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// serve starts a server that is closed when the test ends.
func serve(t *testing.T, n *Network, addr string, h http.HandlerFunc) *Server {
	t.Helper()
	s, err := n.Serve(addr, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestRequestsRunInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		s := serve(t, n, "b1:8000", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			io.Copy(w, r.Body)
		})
		start := time.Now()
		resp, err := n.Client().Get(s.URL() + "/x")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != time.Hour {
			t.Errorf("took %v, want 1h", took)
		}
	})
}

func TestCancellationReachesTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		left := make(chan time.Time, 1)
		s := serve(t, n, "b1:8000", func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			left <- time.Now()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		start := time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := n.Client().Do(req); err == nil {
			resp.Body.Close()
			t.Fatal("the request succeeded")
		}
		if after := (<-left).Sub(start); after != 7*time.Second {
			t.Errorf("the handler saw it after %v, want 7s", after)
		}
	})
}

func TestDialing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		if _, err := n.DialContext(t.Context(), "tcp", "nobody:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody listens: got %v, want connection refused", err)
		}
		l, err := n.Listen("hole:1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Listen("hole:1"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("address taken: got %v, want address in use", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err = n.DialContext(ctx, "tcp", "hole:1")
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("nobody accepts: got %v after %v, want a timeout after 3s", err, time.Since(start))
		}
		l.Close()
		l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed listener: got %v, want net.ErrClosed", err)
		}
		if _, err := n.DialContext(t.Context(), "tcp", "hole:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("closed listener: got %v, want connection refused", err)
		}
		again, err := n.Listen("hole:1")
		if err != nil {
			t.Fatalf("the address of a closed listener is free: %v", err)
		}
		l.Close() // must not take the address from its new owner
		go func() {
			if c, err := again.Accept(); err == nil {
				c.Close()
			}
		}()
		c, err := n.DialContext(t.Context(), "tcp", "hole:1")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := c.RemoteAddr().String(); got != "hole:1" {
			t.Errorf("remote address %q, want hole:1", got)
		}
		again.Close()
	})
}
