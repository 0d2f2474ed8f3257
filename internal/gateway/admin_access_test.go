package gateway

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	"github.com/warmroute/warmroute/internal/config"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
)

// hashOf is the hash of a token as the configuration has it.
func hashOf(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

// bearing shows a token with every request.
type bearing struct {
	http.RoundTripper

	token string
}

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// adminClient is the admin service as somebody with a token sees it; empty for none.
func (s *stack) adminClient(token string, options ...connect.ClientOption) warmroutev1connect.AdminServiceClient {
	client := *s.network.Client()
	if token != "" {
		client.Transport = bearing{client.Transport, token}
	}
	return warmroutev1connect.NewAdminServiceClient(&client, "http://"+adminAddr, options...)
}

// TestNamesThatLeadHere: without keys, the admin port answers to names that nobody else can own: a page of
// somebody whose name leads here would be a page of this port.
func TestNamesThatLeadHere(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(c *config.Config) {
				if keyed {
					c.AdminKeys = []config.AdminKey{{Name: "on-call", TokenSHA256: hashOf("admin token")}}
				}
			}, map[string]http.Handler{"b1:8000": new(engine)})
			synctest.Wait()
			for host, own := range map[string]bool{
				"localhost:9090": true, "LOCALHOST": true, "127.0.0.1:9090": true, "[::1]:9090": true, "[::1]": true, "10.1.2.3:80": true,
				"evil.example:9090": false, "localhost.evil.example": false, "127.0.0.1.evil.example:9090": false,
			} {
				for _, path := range []string{"/debug/state", "/metrics", "/warmroute.v1.AdminService/SetRoutingConfig"} {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+adminAddr+path, strings.NewReader(`{"config":{"strategy":"RANDOM"}}`))
					if err != nil {
						t.Fatal(err)
					}
					if !strings.HasSuffix(path, "Config") {
						r.Method, r.Body, r.ContentLength = http.MethodGet, http.NoBody, 0
					}
					r.Host = host
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Connect-Protocol-Version", "1")
					r.Header.Set("Authorization", "Bearer admin token")
					resp, err := s.network.Client().Do(r)
					if err != nil {
						t.Fatal(err)
					}
					text, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err != nil {
						t.Fatal(err)
					}
					if got := resp.StatusCode == http.StatusOK; got != (own || keyed) || !got && !strings.Contains(string(text), "admin_keys") {
						t.Errorf("keys %v, %s as %s: %d %s", keyed, path, host, resp.StatusCode, text)
					}
				}
			}
			s.stop()
		})
	}
}

// Everything of the admin port wants one of its keys, apart from the files of its page, which hold no data, and what says whether the router is
// alive and ready; a key of the data plane is none, and the other way round. No key is in a log or an error (AU-05).
func TestAdminKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(c *config.Config) {
			c.AdminKeys = []config.AdminKey{{Name: "on-call", TokenSHA256: hashOf("admin token")}, {Name: "robot", TokenSHA256: strings.ToUpper(hashOf("robot token"))}}
			c.Keys = []config.Key{{Name: "app", TokenSHA256: hashOf("app token")}}
		}, map[string]http.Handler{"b1:8000": new(engine)})
		synctest.Wait()
		for path, open := range map[string]bool{
			"/healthz": true, "/readyz": true, "/": true, "/assets/app.js": true, "/debug/": false, "/metrics": false, "/debug/state": false, "/debug/decisions": false,
			"/debug/pprof/": false, "/debug/pprof/cmdline": false, "/nothing": false, "/healthz/": false, "//healthz": false, "/metrics/": false,
		} {
			for auth, known := range map[string]bool{
				"": false, "Bearer app token": false, "Bearer admin toke": false, "Bearer " + hashOf("admin token"): false, "Basic admin token": false,
				"Bearer admin token": true, "bearer robot token": true,
			} {
				status, header, body := s.request(http.MethodGet, "http://"+adminAddr+path, "", "Authorization", auth)
				refused := status == http.StatusUnauthorized
				if refused != (!open && !known) {
					t.Errorf("%s with %q: %d %s", path, auth, status, body)
				}
				if refused && (header.Get("WWW-Authenticate") != "Bearer" || !strings.Contains(body, "admin_keys") || strings.Contains(body, "token of") || strings.Contains(body, "app token")) {
					t.Errorf("%s with %q: %v %s", path, auth, header, body)
				}
			}
		}
		for name, options := range map[string][]connect.ClientOption{"Connect": nil, "JSON": {connect.WithProtoJSON()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
			for token, want := range map[string]connect.Code{"": connect.CodeUnauthenticated, "app token": connect.CodeUnauthenticated, "admin token": 0} {
				operators := s.adminClient(token, options...)
				_, err := operators.DrainBackend(t.Context(), &v1.DrainBackendRequest{Backend: "b1:8000"})
				if err != nil && connect.CodeOf(err) != want || err == nil && want != 0 {
					t.Errorf("%s with %q: %v", name, token, err)
				}
				stream, err := operators.WatchDecisions(t.Context(), &v1.WatchDecisionsRequest{Pool: "none"})
				if err == nil {
					stream.Receive()
					err = stream.Err()
					stream.Close()
				}
				if refused := connect.CodeOf(err) == connect.CodeUnauthenticated; refused != (want != 0) {
					t.Errorf("%s with %q, a stream: %v", name, token, err)
				}
			}
		}
		if !strings.Contains(s.log.String(), `"key":"on-call"`) {
			t.Error("the log does not say whose key drained the backend")
		}
		if status, _, body := s.chat("hi", "", "Authorization", "Bearer admin token"); status != http.StatusUnauthorized {
			t.Errorf("the data plane with a key of the admin port: %d %s", status, body)
		}
		for _, secret := range []string{"admin token", "app token", "robot token"} {
			if strings.Contains(s.log.String(), secret) {
				t.Errorf("the log holds %q", secret)
			}
		}
		s.stop()
	})
}

// Keys of the admin port are replaced by a reload; a port that other machines can reach keeps one.
func TestAdminKeysAreReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began *config.Config
		s := start(t, func(c *config.Config) {
			c.AdminListen = "10.0.0.1:9090" // where the listener stands in
			c.AdminKeys = []config.AdminKey{{Name: "old", TokenSHA256: hashOf("old")}}
			began = c
		}, map[string]http.Handler{"b1:8000": new(engine)})
		synctest.Wait()
		allowed := func(token string) bool {
			_, err := s.adminClient(token).ListBackends(t.Context(), &v1.ListBackendsRequest{})
			return err == nil
		}
		reload := func(change func(*config.Config)) error {
			next := *began
			change(&next)
			return s.Reload(&next)
		}
		if !allowed("old") || allowed("new") || allowed("") {
			t.Error("before: the old key is not the only one")
		}
		if err := reload(func(c *config.Config) { c.AdminKeys = []config.AdminKey{{Name: "new", TokenSHA256: hashOf("new")}} }); err != nil {
			t.Fatal(err)
		}
		if allowed("old") || !allowed("new") || allowed("") {
			t.Error("the new key is not the only one")
		}
		err := reload(func(c *config.Config) { c.AdminKeys, c.AdminListen = nil, "127.0.0.1:9090" })
		if err == nil || !strings.Contains(err.Error(), `admin_keys: "10.0.0.1:9090", where the admin port listens until a restart, must not be without`) {
			t.Errorf("without keys: %v", err)
		}
		if !allowed("new") || allowed("") {
			t.Error("what was refused is in force")
		}
		metrics := func() int { status, _ := s.admin("/metrics"); return status }
		if metrics() != http.StatusUnauthorized {
			t.Error("metrics are open")
		}
		if err := reload(func(c *config.Config) { c.MetricsWithoutKey = true }); err != nil || metrics() != http.StatusOK {
			t.Errorf("metrics_without_key: %v, %d", err, metrics())
		}
		s.stop()
	})
}
