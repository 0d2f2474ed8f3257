package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/warmroute/warmroute/internal/certtest"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/telemetry"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
)

// live is a gateway on real ports, with one engine.
type live struct {
	*Gateway

	t   *testing.T
	log *syncBuffer
}

// startLive runs a gateway on two ports of this machine until the test ends.
func startLive(t *testing.T, configure func(*config.Config)) *live {
	t.Helper()
	backend := httptest.NewServer(new(engine))
	t.Cleanup(backend.Close)
	c, _, err := config.FromBackends([]string{backend.URL})
	if err != nil {
		t.Fatal(err)
	}
	c.Listen, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	c.Pools[0].Models = []config.Model{{Name: "m"}}
	configure(c)
	l := &live{t: t, log: new(syncBuffer)}
	l.Gateway, err = New(Options{Config: c, Logger: slog.New(slog.NewJSONHandler(l.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return l
}

// client is one that speaks HTTP/1.1, or HTTP/2 where the server can.
func (l *live) client(trust *tls.Config, http2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	carrier := &http.Transport{TLSClientConfig: trust, Protocols: protocols}
	l.t.Cleanup(carrier.CloseIdleConnections)
	return &http.Client{Transport: carrier, Timeout: 30 * time.Second}
}

const aChat = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

// ask sends a chat request and returns its status, and what went wrong otherwise.
func (l *live) ask(client *http.Client, scheme string) (*http.Response, error) {
	resp, err := client.Post(scheme+"://"+l.Addr().String()+"/v1/chat/completions", "application/json", strings.NewReader(aChat))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return resp, fmt.Errorf("%s %s %w", resp.Status, text, err)
	}
	return resp, nil
}

// get asks the admin port.
func (l *live) get(client *http.Client, path string, header ...string) (int, string) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, "https://"+l.AdminAddr().String()+path, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// secrets is a directory as Kubernetes makes one of a secret: links to files behind a link that
// is turned.
type secrets struct {
	t    *testing.T
	dir  string
	turn int
}

func newSecrets(t *testing.T, p certtest.Pair) (s *secrets, files config.TLS) {
	t.Helper()
	s = &secrets{t: t, dir: t.TempDir()}
	s.put(p)
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return s, config.TLS{CertFile: filepath.Join(s.dir, "tls.crt"), KeyFile: filepath.Join(s.dir, "tls.key")}
}

// put turns the link to another pair.
func (s *secrets) put(p certtest.Pair) {
	s.t.Helper()
	s.turn++
	version := fmt.Sprintf("..%d", s.turn)
	if err := os.Mkdir(filepath.Join(s.dir, version), 0o700); err != nil {
		s.t.Fatal(err)
	}
	p.Write(s.t, filepath.Join(s.dir, version))
	if err := os.Symlink(version, filepath.Join(s.dir, "..data_tmp")); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, "..data_tmp"), filepath.Join(s.dir, "..data")); err != nil {
		s.t.Fatal(err)
	}
}

// until waits until what is asked is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A port with a certificate speaks HTTP/1.1, HTTP/2, gRPC and Connect over TLS, 1.2 or newer, and
// nothing else.
func TestTLSHandshakes(t *testing.T) {
	authority := certtest.New(t, "tests")
	_, files := newSecrets(t, authority.Issue("router", time.Now().Add(time.Hour)))
	l := startLive(t, func(c *config.Config) { c.TLS, c.AdminTLS = files, files })
	for _, http2 := range []bool{false, true} {
		client := l.client(authority.Client(), http2)
		resp, err := l.ask(client, "https")
		if err != nil || resp.TLS.Version < tls.VersionTLS12 || (resp.ProtoMajor == 2) != http2 {
			t.Errorf("HTTP/2 %v: %+v, %v", http2, resp, err)
		}
		for path, want := range map[string]string{
			"/readyz": `"status"`, "/metrics": `warmroute_tls_certificate_not_after_timestamp_seconds{port="data"}`,
		} {
			if status, body := l.get(client, path); status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("HTTP/2 %v, admin port %s: %d %s", http2, path, status, body)
			}
		}
	}
	old := authority.Client()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := l.ask(l.client(old, false), "https"); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.1: %v", err)
	}
	if resp, err := l.ask(l.client(nil, false), "http"); err == nil || resp == nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %v", err)
	}
	if _, err := l.ask(l.client(certtest.New(t, "somebody").Client(), false), "https"); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a client that trusts somebody else: %v", err)
	}
	for name, options := range map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
		client := l.client(authority.Client(), true)
		routing := warmroutev1connect.NewRoutingServiceClient(client, "https://"+l.Addr().String(), options...)
		out, err := routing.Route(t.Context(), &v1.RouteRequest{Prompt: &v1.Prompt{Content: &v1.Prompt_Original{
			Original: &v1.OriginalRequest{Path: "/v1/chat/completions", Body: []byte(aChat)},
		}}})
		if err != nil || out.GetTarget().GetUrl() == "" {
			t.Errorf("%s: %v, %v", name, out, err)
		}
		operators := warmroutev1connect.NewAdminServiceClient(client, "https://"+l.AdminAddr().String(), options...)
		if out, err := operators.ListBackends(t.Context(), &v1.ListBackendsRequest{}); err != nil || len(out.GetBackends()) != 1 {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
}

// With client_ca_file nobody gets a connection to the data plane without a certificate of that
// authority, and of the admin port only what a kubelet asks for.
func TestMutualTLS(t *testing.T) {
	authority, clients := certtest.New(t, "servers"), certtest.New(t, "clients")
	_, files := newSecrets(t, authority.Issue("router", time.Now().Add(time.Hour)))
	files.ClientCAFile = certtest.Write(t, t.TempDir(), "ca.pem", clients.PEM)
	l := startLive(t, func(c *config.Config) { c.TLS, c.AdminTLS = files, files })
	for _, test := range []struct {
		name  string
		trust *tls.Config
		in    bool
	}{
		{"none", authority.Client(), false},
		{"of somebody else", authority.Client(authority.Issue("client", time.Now().Add(time.Hour))), false},
		{"expired", authority.Client(clients.Issue("client", time.Now().Add(-time.Minute))), false},
		{"good", authority.Client(clients.Issue("client", time.Now().Add(time.Hour))), true},
	} {
		for _, http2 := range []bool{false, true} {
			client := l.client(test.trust, http2)
			if _, err := l.ask(client, "https"); (err == nil) != test.in {
				t.Errorf("certificate %s, HTTP/2 %v: %v", test.name, http2, err)
			}
			if !test.in && test.name != "none" {
				continue // the handshake with the admin port fails too
			}
			for path, open := range map[string]bool{"/healthz": true, "/readyz": true, "/metrics": false, "/debug/state": false, "/debug/": false, "/": true} {
				status, body := l.get(client, path)
				if want := test.in || open; (status == http.StatusOK) != want || !want && (status != http.StatusUnauthorized || !strings.Contains(body, "client certificate")) {
					t.Errorf("certificate %s, admin port %s: %d %s", test.name, path, status, body)
				}
			}
			operators := warmroutev1connect.NewAdminServiceClient(client, "https://"+l.AdminAddr().String())
			_, err := operators.ListBackends(t.Context(), &v1.ListBackendsRequest{})
			if test.in && err != nil || !test.in && connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("certificate %s, RPC: %v", test.name, err)
			}
		}
	}
}

// Certificates are replaced under traffic, by clients that keep their connections and by such as
// make one for each request: none fails. What cannot be used, or has expired, is refused.
func TestCertificatesAreReplaced(t *testing.T) {
	authority := certtest.New(t, "tests")
	secret, files := newSecrets(t, authority.Issue("first", time.Now().Add(time.Hour)))
	l := startLive(t, func(c *config.Config) { c.TLS = files })

	var asked, failed atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	defer traffic.Wait()
	defer cancel()
	for i := range 4 {
		client := l.client(authority.Client(), i%2 == 0)
		traffic.Go(func() {
			for ctx.Err() == nil {
				if i >= 2 {
					client.CloseIdleConnections()
				}
				asked.Add(1)
				if _, err := l.ask(client, "https"); err != nil {
					failed.Add(1)
					t.Errorf("request %d: %v", asked.Load(), err)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	shown := func() string {
		conn, err := tls.Dial("tcp", l.Addr().String(), authority.Client())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	reloads := func(result string) string {
		for line := range strings.Lines(l.metrics()) {
			if rest, ok := strings.CutPrefix(line, `warmroute_tls_reloads_total{port="data",result="`+result+`"} `); ok {
				return strings.TrimSpace(rest)
			}
		}
		return ""
	}
	if shown() != "first" {
		t.Fatalf("the port shows %q", shown())
	}
	second := authority.Issue("second", time.Now().Add(2*time.Hour))
	secret.put(second)
	until(t, "the second certificate is shown", func() bool { return shown() == "second" })

	secret.put(certtest.Pair{Certificate: authority.Issue("third", time.Now().Add(time.Hour)).Certificate, Key: second.Key})
	until(t, "a key of another certificate is refused", func() bool { return reloads("failure") == "1" })
	secret.put(authority.Issue("expired", time.Now().Add(-time.Minute)))
	until(t, "an expired one is refused", func() bool { return reloads("failure") == "2" })
	if shown() != "second" || !strings.Contains(l.metrics(), `warmroute_tls_last_reload_successful{port="data"} 0`) {
		t.Errorf("the port shows %q\n%s", shown(), l.metrics())
	}
	for _, want := range []string{"tls: private key does not match public key", "the certificate expired at"} {
		if !strings.Contains(l.log.String(), want) {
			t.Errorf("the log does not say %q", want)
		}
	}

	until4 := time.Now().Add(4 * time.Hour)
	secret.put(authority.Issue("fourth", until4))
	until(t, "the fourth certificate is shown", func() bool { return shown() == "fourth" })
	gauge := fmt.Sprintf(`warmroute_tls_certificate_not_after_timestamp_seconds{port="data"} %v`, float64(until4.Unix()))
	if !strings.Contains(l.metrics(), gauge) || !strings.Contains(l.metrics(), `warmroute_tls_last_reload_successful{port="data"} 1`) {
		t.Errorf("no %s in the metrics", gauge)
	}
	l.ReloadCertificates() // nothing has changed, and SIGHUP reads again
	if n := reloads("success"); n != "3" {
		t.Errorf("%s reloads were good, want 3", n)
	}
	begun := asked.Load()
	until(t, "100 requests more", func() bool { return asked.Load() > begun+100 })
	cancel()
	traffic.Wait()
	if failed.Load() > 0 || asked.Load() < 100 {
		t.Errorf("%d of %d requests failed", failed.Load(), asked.Load())
	}
}

// TestCertificateOfTomorrow: a certificate that is not valid yet is refused, once in the log, and taken over
// when it is.
func TestCertificateOfTomorrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, now := certtest.New(t, "tests"), time.Now()
		secret, files := newSecrets(t, authority.Issue("today", now.Add(time.Hour)))
		log := new(syncBuffer)
		set, err := telemetry.New(telemetry.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		g := &Gateway{telemetry: set, logger: slog.New(slog.NewJSONHandler(log, nil))}
		port, err := g.secure("data", "tls", files, false)
		if err != nil {
			t.Fatal(err)
		}
		secret.put(authority.IssueFrom("tomorrow", now.Add(time.Minute), now.Add(2*time.Hour)))
		for range 6 {
			if port.reload(false) {
				t.Fatal("it is taken over before its time")
			}
			time.Sleep(10 * time.Second)
		}
		if n := strings.Count(log.String(), "is not valid before"); n != 1 {
			t.Errorf("refused %d times in the log, want once", n)
		}
		if !port.reload(false) || !port.current.Load().NotAfter.Equal(now.Add(2*time.Hour).Truncate(time.Second)) {
			t.Errorf("in its time it is not taken over:\n%s", log)
		}
	})
}

// metrics are the metrics of the gateway.
func (l *live) metrics() string {
	w := httptest.NewRecorder()
	l.telemetry.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// Whoever signs clients' certificates is replaced too, and sessions are not resumed behind that.
func TestClientAuthorityIsReplaced(t *testing.T) {
	authority, before, after := certtest.New(t, "servers"), certtest.New(t, "before"), certtest.New(t, "after")
	_, files := newSecrets(t, authority.Issue("router", time.Now().Add(time.Hour)))
	files.ClientCAFile = certtest.Write(t, t.TempDir(), "ca.pem", before.PEM)
	l := startLive(t, func(c *config.Config) { c.TLS = files })
	trust := authority.Client(before.Issue("client", time.Now().Add(time.Hour)))
	trust.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	client := l.client(trust, false)
	if _, err := l.ask(client, "https"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.ClientCAFile, after.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	newcomer := l.client(authority.Client(after.Issue("client", time.Now().Add(time.Hour))), false)
	until(t, "the new authority's clients are let in", func() bool {
		_, err := l.ask(newcomer, "https")
		return err == nil
	})
	client.CloseIdleConnections()
	if _, err := l.ask(client, "https"); err == nil {
		t.Error("a client of the old authority gets a new connection")
	}
}
