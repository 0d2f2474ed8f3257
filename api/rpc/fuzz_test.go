package rpc_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Whatever is sent as JSON, the answer is one of JSON, no fault of the router, and every
// slot that is taken belongs to a decision that is open.
func FuzzJSON(f *testing.F) {
	f.Add("Route", `{"prompt":{"text":"x","model":"m"},"lease":"60s","alternatives":2}`)
	f.Add("Explain", `{"prompt":{"original":{"path":"/v1/completions","body":"eyJtb2RlbCI6Im0iLCJwcm9tcHQiOlsxLDJdfQ=="}}}`)
	f.Add("Report", `{"decisionId":"0123456789abcdef","outcome":"OUTCOME_ANSWERED","status":200,"usage":{"promptTokens":"7"}}`)
	f.Fuzz(func(t *testing.T, method, body string) {
		if method != "Route" && method != "Explain" && method != "Report" {
			return
		}
		w := newWorld(t)
		mux := http.NewServeMux()
		w.service.Register(mux)
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/warmroute.v1.RoutingService/"+method, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, req)
		if answer.Code >= http.StatusInternalServerError || !strings.HasPrefix(answer.Body.String(), "{") {
			t.Errorf("%s %q: %d %s", method, body, answer.Code, answer.Body)
		}
		if w.service.OpenDecisions() == 0 && w.inFlight() != 0 || w.bodies.Held() != 0 {
			t.Errorf("%d in flight of no decision, %d bytes are held", w.inFlight(), w.bodies.Held())
		}
	})
}
