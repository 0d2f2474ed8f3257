package anthropic

import (
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/api/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestErrors(t *testing.T) {
	for status, kind := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 405: "invalid_request_error", 413: "request_too_large",
		415: "invalid_request_error", 429: "rate_limit_error", 500: "api_error", 501: "api_error", 502: "api_error",
		503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
	} {
		e := &proxy.Error{Status: status, Message: "what was wrong"}
		want := `{"type":"error","error":{"type":"` + kind + `","message":"what was wrong"}}`
		w := httptest.NewRecorder()
		dialect{}.WriteError(w, e)
		if diff := cmp.Diff(want, w.Body.String()); diff != "" || w.Code != status || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%d: got %d %v (-want +got)\n%s", status, w.Code, w.Header(), diff)
		}
		if got := string(dialect{}.StreamError(e)); got != "event: error\ndata: "+want+"\n\n" {
			t.Errorf("%d as an event: %q", status, got)
		}
	}
}
