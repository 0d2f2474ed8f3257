package transport

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
)

// echo answers with what it saw of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s host=%s body=%s", r.Method, r.RequestURI, r.Host, body)
}

// DI-07: slashes between base URL and path, base paths, escapes.
func TestPaths(t *testing.T) {
	s := serve(t, echo)
	host := strings.TrimPrefix(s.URL, "http://")
	tr := open(t, Config{})
	for _, tt := range []struct{ base, path, query, want string }{
		{"", "/v1/models", "", "/v1/models"},
		{"/", "/v1/models", "", "/v1/models"},
		{"//", "/v1/models", "", "/v1/models"},
		{"/base", "/v1/models", "", "/base/v1/models"},
		{"/base/", "/v1/models", "", "/base/v1/models"},
		{"/base/two/", "v1/models", "", "/base/two/v1/models"},
		{"", "", "", "/"},
		{"/base", "/v1/responses/a%2Fb", "", "/base/v1/responses/a%2Fb"},
		{"/b%20c", "/v1/responses/a%2Fb%20c", "", "/b%20c/v1/responses/a%2Fb%20c"},
		{"", "/with space", "", "/with%20space"},
		{"", "/v1/models", "a=1&b=%20", "/v1/models?a=1&b=%20"},
		{"", "/v1//models/../x", "", "/v1//models/../x"},
	} {
		t.Run(tt.base+" "+tt.path, func(t *testing.T) {
			b := backend(t, s.URL+tt.base)
			resp, f := tr.Do(t.Context(), b, Request{Method: http.MethodGet, Path: tt.path, RawQuery: tt.query})
			if f != nil {
				t.Fatal(f)
			}
			if got, want := text(t, resp), "GET "+tt.want+" host="+host+" body="; got != want {
				t.Errorf("the backend saw %q, want %q", got, want)
			}
		})
	}
}

func TestPathThatIsNotEscaped(t *testing.T) {
	tr := open(t, Config{})
	_, f := tr.Do(t.Context(), backend(t, "http://127.0.0.1:1"), Request{Method: http.MethodGet, Path: "/a%zz"})
	wantKind(t, f, Other)
}

// DI-09: the Host header is the backend's, and nothing of the client's connection is
// passed on.
func TestHeaders(t *testing.T) {
	seen := make(chan http.Header, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Host", r.Host)
		r.Header.Set("Content-Length", fmt.Sprint(r.ContentLength))
		seen <- r.Header
	})
	host := strings.TrimPrefix(s.URL, "http://")
	tr := open(t, Config{})
	sent := http.Header{
		"Host": {"client.example"}, "Connection": {"close"}, "Keep-Alive": {"1"}, "Upgrade": {"h2c"},
		"Proxy-Connection": {"x"}, "Expect": {"100-continue"}, "Content-Length": {"999"},
		"Transfer-Encoding": {"chunked"}, "X-Request-Id": {"r1"}, "X-Many": {"a", "b"},
	}
	before := sent.Clone()
	for _, tt := range []struct {
		name string
		rank int
		want http.Header
	}{
		{"one cache", backends.NoRank, http.Header{}},
		{"rank 3", 3, http.Header{"X-Data-Parallel-Rank": {"3"}}},
		{"rank 0", 0, http.Header{"X-Data-Parallel-Rank": {"0"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, f := tr.Do(t.Context(), rank(t, s.URL, tt.rank), Request{
				Method: http.MethodPost, Path: "/", Header: sent, Body: []byte("12345"),
			})
			if f != nil {
				t.Fatal(f)
			}
			text(t, resp)
			want := tt.want
			want["Host"], want["Content-Length"] = []string{host}, []string{"5"}
			want["X-Request-Id"], want["X-Many"] = []string{"r1"}, []string{"a", "b"}
			if diff := cmp.Diff(want, <-seen); diff != "" {
				t.Errorf("headers at the backend (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, sent); diff != "" {
				t.Errorf("the request's own headers were changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBodies(t *testing.T) {
	s := serve(t, echo)
	host := strings.TrimPrefix(s.URL, "http://")
	b := backend(t, s.URL)
	tr := open(t, Config{})
	for _, size := range []int{0, 1, 4095, 4096, 100 << 10, 3 << 20} {
		body := strings.Repeat("x", size)
		if got, want := text(t, post(t, tr, b, body)), "POST /v1/completions host="+host+" body="+body; got != want {
			t.Errorf("%d bytes: the backend saw %d bytes, want %d", size, len(got), len(want))
		}
	}
}

// PS-16: an Expect header must not hold the body back.
func TestStatusIsPassedThrough(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		fmt.Sscanf(r.URL.Query().Get("s"), "%d", &code)
		w.Header().Set("Location", "/elsewhere")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
	})
	tr := open(t, Config{})
	b := backend(t, s.URL)
	for _, code := range []int{200, 204, 302, 400, 401, 404, 408, 429, 500, 503, 529} {
		resp, f := tr.Do(t.Context(), b, Request{Method: http.MethodPost, Path: "/", RawQuery: fmt.Sprintf("s=%d", code), Body: []byte("x")})
		if f != nil {
			t.Fatalf("%d: %v", code, f)
		}
		text(t, resp)
		if resp.StatusCode != code || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("got %d with %v, want %d", resp.StatusCode, resp.Header, code)
		}
	}
}

func TestNoCompressionIsAskedForOrUndone(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, "asked:"+r.Header.Get("Accept-Encoding"))
	})
	tr := open(t, Config{})
	resp := post(t, tr, backend(t, s.URL), "x")
	if got := text(t, resp); got != "asked:" || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("got %q with %v", got, resp.Header)
	}
}

func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 on this machine: ", err)
	}
	s := &http.Server{Handler: http.HandlerFunc(echo)}
	t.Cleanup(func() { s.Close() })
	go s.Serve(l)
	tr := open(t, Config{})
	want := "POST /v1/completions host=" + l.Addr().String() + " body=x"
	if got := text(t, post(t, tr, backend(t, "http://"+l.Addr().String()), "x")); got != want {
		t.Errorf("the backend saw %q, want %q", got, want)
	}
}

func TestGet(t *testing.T) {
	s := serve(t, echo)
	tr := open(t, Config{})
	b := backend(t, s.URL)
	resp, err := tr.Get(t.Context(), b, "/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, resp); !strings.HasPrefix(got, "GET /v1/models ") {
		t.Errorf("the backend saw %q", got)
	}
	tr.Close()
	if resp, err := tr.Get(t.Context(), b, "/v1/models", nil); err == nil || resp != nil {
		t.Errorf("a closed transport answered: %v, %v", resp, err)
	}
}
