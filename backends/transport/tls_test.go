package transport

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func secure(t *testing.T, http2 bool, cfg *tls.Config) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s sni=%s ", r.Proto, r.TLS.ServerName)
		echo(w, r)
	}))
	s.EnableHTTP2 = http2
	s.TLS = cfg
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func trusting(s *httptest.Server) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{RootCAs: roots}
}

// DI-09: a private authority can be configured; Host and server name are those of
// the URL.
func TestTLS(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%v", http2), func(t *testing.T) {
			s := secure(t, http2, nil)
			host := strings.TrimPrefix(s.URL, "https://")
			c := Config{TLS: trusting(s)}
			c.DialContext = redirect(host)
			tr := open(t, c)
			b := backend(t, "https://example.com:8443")
			proto := "HTTP/1.1"
			if http2 {
				proto = "HTTP/2.0"
			}
			for range 3 {
				want := proto + " sni=example.com POST /v1/completions host=example.com:8443 body=abc"
				if got := text(t, post(t, tr, b, "abc")); got != want {
					t.Errorf("the backend saw %q, want %q", got, want)
				}
			}
		})
	}
}

func TestTLSFailures(t *testing.T) {
	s := secure(t, false, nil)
	picky := secure(t, false, &tls.Config{ClientAuth: tls.RequireAnyClientCert})
	plain := serve(t, echo)
	silent := raw(t, func(_ *net.TCPConn, r *bufio.Reader) { r.ReadByte() }) // hangs up on the hello
	for _, tt := range []struct {
		name string
		url  string
		tls  *tls.Config
		want Kind
	}{
		{"unknown authority", s.URL, nil, TLS},
		{"wrong name", s.URL, &tls.Config{RootCAs: trusting(s).RootCAs, ServerName: "other"}, TLS},
		{"client certificate missing", picky.URL, trusting(picky), TLS},
		{"https to a plain server", strings.Replace(plain.URL, "http:", "https:", 1), nil, TLS},
		{"closed in the handshake", "https://" + silent, nil, TLS},
		{"skip verification", s.URL, &tls.Config{InsecureSkipVerify: true}, Other},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := open(t, Config{TLS: tt.tls})
			resp, f := tr.Do(t.Context(), backend(t, tt.url), postRequest("x"))
			if tt.want == Other {
				if f != nil {
					t.Fatal(f)
				}
				text(t, resp)
				return
			}
			if tt.name == "client certificate missing" && f != nil && f.Kind == BrokenConn {
				return // with TLS 1.3 the refusal races with our first write
			}
			wantKind(t, f, tt.want)
			if !f.Kind.Retryable() {
				t.Error("the engine has not seen the request: it must be retryable")
			}
		})
	}
}

func TestPlainRequestToATLSServer(t *testing.T) {
	s := secure(t, false, nil)
	tr := open(t, Config{})
	resp, f := tr.Do(t.Context(), backend(t, strings.Replace(s.URL, "https:", "http:", 1)), postRequest("x"))
	if f != nil {
		t.Fatal(f)
	}
	// Go's server explains itself in plain HTTP, and may reset the connection then.
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// An HTTP/2 backend whose connection dies is seen like any other.
func TestHTTP2ConnectionBreaks(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/v1/completions" {
			arrived <- struct{}{}
			<-leave
		}
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	tr := open(t, Config{TLS: trusting(s)})
	b := backend(t, s.URL)
	for _, want := range []Kind{BrokenConn, StaleConn} {
		if want == StaleConn {
			resp, err := tr.Get(t.Context(), b, "/first", nil)
			if err != nil {
				t.Fatal(err)
			}
			text(t, resp)
		}
		go func() {
			<-arrived
			s.CloseClientConnections()
		}()
		_, f := tr.Do(t.Context(), b, postRequest("x"))
		wantKind(t, f, want)
		leave <- struct{}{}
	}
}
