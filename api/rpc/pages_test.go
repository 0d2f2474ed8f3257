package rpc_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/router"
)

// Pages of other sites can change nothing, however they ask; programs and the page of the
// same origin can.
func TestPagesOfOtherSites(t *testing.T) {
	o := newOperator(t)
	mux := http.NewServeMux()
	o.admin.Register(mux)
	call := func(method string, header ...string) *httptest.ResponseRecorder {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, "http://router:9090/warmroute.v1.AdminService/SetRoutingConfig",
			strings.NewReader(`{"config":{"strategy":"RANDOM"}}`))
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
	version := []string{"Connect-Protocol-Version", "1"}
	for _, tc := range []struct {
		name   string
		header []string
		status int
	}{
		{"a program", nil, 200},
		{"the page", append(version, "Origin", "http://router:9090", "Sec-Fetch-Site", "same-origin"), 200},
		{"the page, in a browser that sends no Sec-Fetch-Site", append(version, "Origin", "http://router:9090"), 200},
		{"the page behind a proxy that changes Host, over HTTPS", append(version, "Origin", "https://ops.example.com", "Sec-Fetch-Site", "same-origin"), 200},
		{"gRPC of the same origin", []string{"Origin", "http://router:9090", "Content-Type", "application/grpc-web+proto"}, 200},
		{"another site", append(version, "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"), 403},
		{"another port", append(version, "Origin", "http://router:9091", "Sec-Fetch-Site", "same-site"), 403},
		{"another site, in an old browser", append(version, "Origin", "http://evil.example"), 403},
		{"a frame without an origin", append(version, "Origin", "null"), 403},
		{"what a form of the same site could send", []string{"Origin", "http://router:9090", "Sec-Fetch-Site", "same-origin"}, 403},
		{"another type of content", []string{"Content-Type", "text/plain", "Sec-Fetch-Site", "same-origin", "Connect-Protocol-Version", "1"}, 415},
	} {
		c := o.pool.Config()
		c.Strategy = router.PrefixAware
		if err := o.pool.SetConfig(c); err != nil {
			t.Fatal(err)
		}
		w := call(http.MethodPost, tc.header...)
		if w.Code != tc.status {
			t.Errorf("%s: status %d, want %d: %s", tc.name, w.Code, tc.status, w.Body)
		}
		var refusal struct{ Code, Message string }
		if w.Code == http.StatusForbidden {
			if err := json.Unmarshal(w.Body.Bytes(), &refusal); err != nil || refusal.Code != "permission_denied" || refusal.Message == "" {
				t.Errorf("%s: %s, %v", tc.name, w.Body, err)
			}
		}
		if changed := o.pool.Config().Strategy == router.Random; changed != (tc.status == 200 && !strings.HasPrefix(tc.name, "gRPC")) {
			t.Errorf("%s: changed: %v", tc.name, changed)
		}
	}
	// Nor does another site's page read: advice takes long.
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden, "same-origin": http.StatusOK, "none": http.StatusOK} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://router:9090/warmroute.v1.AdminService/ListBackends?connect=v1&encoding=json&message=%7B%7D", nil)
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		if mux.ServeHTTP(w, r); w.Code != want {
			t.Errorf("GET by %s: %d, want %d: %s", site, w.Code, want, w.Body)
		}
	}
	// Nor by a link: a change is no GET.
	if w := call(http.MethodGet); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", w.Code)
	}
}
