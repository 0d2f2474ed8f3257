package transport

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/backends"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend returns the backend with a base URL.
func backend(t testing.TB, url string) *backends.Backend {
	t.Helper()
	return rank(t, url, backends.NoRank)
}

// rank returns one data-parallel rank behind a base URL.
func rank(t testing.TB, url string, n int) *backends.Backend {
	t.Helper()
	r, err := backends.NewRegistry(backends.DefaultEjection())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Set([]backends.Spec{{URL: url, Rank: n}}); err != nil {
		t.Fatal(err)
	}
	return r.Snapshot()[0]
}

// open returns a transport that is closed when the test ends.
func open(t testing.TB, c Config) *Transport {
	t.Helper()
	tr := New(c)
	t.Cleanup(tr.Close)
	return tr
}

// serve runs a real HTTP server until the test ends.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// raw accepts connections and gives each to handle, which owns it, until the test
// ends. It returns the listener's address.
func raw(t testing.TB, handle func(*net.TCPConn, *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			tcp := c.(*net.TCPConn)
			go func() {
				defer tcp.Close()
				handle(tcp, bufio.NewReader(tcp))
			}()
		}
	}()
	return l.Addr().String()
}

// readRequest takes one whole request off a raw connection.
func readRequest(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// post sends a body and fails the test if there is no answer.
func post(t testing.TB, tr *Transport, b *backends.Backend, body string) *http.Response {
	t.Helper()
	resp, failure := tr.Do(context.Background(), b, postRequest(body))
	if failure != nil {
		t.Fatalf("no answer: %v (%v)", failure, failure.Kind)
	}
	return resp
}

func postRequest(body string) Request {
	return Request{
		Method: http.MethodPost, Path: "/v1/completions", Body: []byte(body),
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}

// text reads an answer to its end and closes it.
func text(t testing.TB, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	p, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("the answer broke off after %q: %v", p, err)
	}
	return string(p)
}

// wantKind fails the test unless the failure has this kind.
func wantKind(t testing.TB, f *Failure, want Kind) {
	t.Helper()
	switch {
	case f == nil:
		t.Fatalf("no failure, want %v", want)
	case f.Kind != want:
		t.Fatalf("failure %v (%v), want %v", f.Kind, f, want)
	}
}

// quiet is the log of a server that is expected to complain.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func countDials(n *atomic.Int64, dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		n.Add(1)
		return dial(ctx, network, addr)
	}
}

// redirect dials one address whatever is asked for.
func redirect(to string) dialFunc {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, to)
	}
}
