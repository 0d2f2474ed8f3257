package openai

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestErrors(t *testing.T) {
	for _, test := range []struct {
		e    proxy.Error
		want string
	}{
		{
			proxy.Error{Status: 404, Code: proxy.CodeModelNotFound, Message: "gone", Param: "model"},
			`{"error":{"message":"gone","type":"invalid_request_error","param":"model","code":"model_not_found"}}`,
		},
		{
			proxy.Error{Status: 400, Code: proxy.CodeInvalidRequest, Message: "bad"},
			`{"error":{"message":"bad","type":"invalid_request_error","param":null,"code":null}}`,
		},
		{
			proxy.Error{Status: 429, Code: proxy.CodeSaturated, Message: "full", RetryAfter: time.Second},
			`{"error":{"message":"full","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`,
		},
		{
			proxy.Error{Status: 503, Code: proxy.CodeNoBackend, Message: "none"},
			`{"error":{"message":"none","type":"service_unavailable_error","param":null,"code":"no_backend"}}`,
		},
		{
			proxy.Error{Status: 502, Code: proxy.CodeUnavailable, Message: "a \"quoted\" <word>"},
			`{"error":{"message":"a \"quoted\" \u003cword\u003e","type":"server_error","param":null,"code":"upstream_unavailable"}}`,
		},
		{
			proxy.Error{Status: 404, Code: proxy.CodeNotFound, Message: "nothing"},
			`{"error":{"message":"nothing","type":"invalid_request_error","param":null,"code":"not_found"}}`,
		},
	} {
		w := httptest.NewRecorder()
		dialect{}.WriteError(w, &test.e)
		if diff := cmp.Diff(test.want, w.Body.String()); diff != "" || w.Code != test.e.Status {
			t.Errorf("status %d (-want +got)\n%s", w.Code, diff)
		}
		if got := string(dialect{}.StreamError(&test.e)); got != "data: "+test.want+"\n\n" {
			t.Errorf("as an event: %q", got)
		}
	}
}

func TestFailedResponse(t *testing.T) {
	text := string(responsesDialect{}.StreamError(&proxy.Error{Message: "broke\noff", ResponseID: "resp_1"}))
	data, ok := strings.CutPrefix(text, "event: response.failed\ndata: ")
	if !ok || strings.Count(text, "\n") != 3 || !strings.HasSuffix(text, "\n\n") {
		t.Fatalf("not one event: %q", text)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(data), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"type": "response.failed",
		"response": map[string]any{
			"id": "resp_1", "object": "response", "status": "failed", "output": []any{},
			"error": map[string]any{"code": "server_error", "message": "broke\noff"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRenamed(t *testing.T) {
	for object, want := range map[string]string{
		`{"id":"a"}`: `{"id":"new"}`,
		`{ "x": {"id":"a"}, "id" : "a", "y":[1, 2.50]}`: `{ "x": {"id":"a"}, "id" : "new", "y":[1, 2.50]}`,
		`{"root":"a","id":"a","parent":"a"}`:            `{"root":"a","id":"new","parent":"a"}`,
		`{"id":"","x":""}`:                              `{"id":"new","x":""}`,
		`{"x":"é","id":"é"}`:                            `{"x":"é","id":"new"}`,
		`{"x":1}`:                                       `{"x":1}`,
		`[]`:                                            `[]`,
		`{"id":`:                                        `{"id":`,
		``:                                              ``,
	} {
		if got := string(renamed([]byte(object), "new")); got != want {
			t.Errorf("renamed(%s) = %s, want %s", object, got, want)
		}
	}
}

// serve returns a mux over a router with these models and one backend.
func serve(t *testing.T, models []router.ModelSpec, says []backends.Model) *http.ServeMux {
	t.Helper()
	r := router.New(router.Options{})
	pool, err := r.AddPool(router.PoolSpec{
		Name: "p", Models: models, Config: router.DefaultConfig(), Ejection: backends.DefaultEjection(),
		Backends: []backends.Spec{{URL: "http://b1:8000", Rank: backends.NoRank}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if says != nil {
		pool.Backends()[0].SetModels(says)
	}
	carrier := transport.New(transport.Config{})
	t.Cleanup(carrier.Close)
	p, err := proxy.New(proxy.Options{Router: r, Transport: carrier})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	Register(mux, p)
	return mux
}

func get(mux *http.ServeMux, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestDI13AliasesAreListed(t *testing.T) {
	mux := serve(t,
		[]router.ModelSpec{{Name: "gpt-4", Served: "org/qwen"}, {Name: "org/qwen"}, {Name: "quiet"}},
		[]backends.Model{{ID: "org/qwen", JSON: []byte(`{"id": "org/qwen", "max_model_len":8192,"root":"org/qwen"}`)}})
	want := `{"object":"list","data":[{"id": "gpt-4", "max_model_len":8192,"root":"org/qwen"},` +
		`{"id": "org/qwen", "max_model_len":8192,"root":"org/qwen"},{"id":"quiet","object":"model","created":0,"owned_by":"warmroute"}]}`
	if got := get(mux, "GET", "/v1/models").Body.String(); got != want {
		t.Errorf("got %s", got)
	}
	if got := get(mux, "GET", "/v1/models/org/qwen").Body.String(); got != `{"id": "org/qwen", "max_model_len":8192,"root":"org/qwen"}` {
		t.Errorf("got %s", got)
	}
	if got := get(mux, "GET", "/v1/models/gpt-4").Body.String(); !strings.HasPrefix(got, `{"id": "gpt-4"`) {
		t.Errorf("got %s", got)
	}
	if w := get(mux, "GET", "/v1/models/nope"); w.Code != 404 || !strings.Contains(w.Body.String(), "model_not_found") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestModelsBeforeAnythingIsKnown(t *testing.T) {
	mux := serve(t, nil, nil)
	for _, path := range []string{"/v1/models", "/v1/models/x"} {
		if w := get(mux, "GET", path); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: got %d %v", path, w.Code, w.Header())
		}
	}
}

// Every endpoint that design names is there, and says which methods it has.
func TestRoutes(t *testing.T) {
	mux := serve(t, []router.ModelSpec{{Name: "m"}}, nil)
	for path, allow := range map[string]string{
		"/v1/chat/completions": "OPTIONS, POST", "/v1/completions": "OPTIONS, POST", "/v1/responses": "OPTIONS, POST",
		"/v1/responses/r": "DELETE, GET, HEAD, OPTIONS", "/v1/responses/r/cancel": "OPTIONS, POST",
		"/v1/embeddings": "OPTIONS, POST", "/v1/models": "GET, HEAD, OPTIONS", "/v1/models/a/b": "GET, HEAD, OPTIONS",
		"/tokenize": "OPTIONS, POST", "/detokenize": "OPTIONS, POST", "/v1/rerank": "OPTIONS, POST", "/rerank": "OPTIONS, POST",
		"/v2/rerank": "OPTIONS, POST", "/score": "OPTIONS, POST", "/v1/score": "OPTIONS, POST", "/pooling": "OPTIONS, POST",
		"/classify": "OPTIONS, POST", "/v1/audio/transcriptions": "OPTIONS, POST", "/v1/audio/translations": "OPTIONS, POST",
		"/v1/realtime": "GET, HEAD, OPTIONS", "/health": "GET, HEAD, OPTIONS", "/ping": "GET, HEAD, OPTIONS",
	} {
		if w := get(mux, "OPTIONS", path); w.Code != 204 || w.Header().Get("Allow") != allow {
			t.Errorf("OPTIONS %s: %d %q, want %q", path, w.Code, w.Header().Get("Allow"), allow)
		}
		if w := get(mux, "PATCH", path); w.Code != 405 || w.Header().Get("Allow") != allow || !json.Valid(w.Body.Bytes()) {
			t.Errorf("PATCH %s: %d %q", path, w.Code, w.Header().Get("Allow"))
		}
	}
}
