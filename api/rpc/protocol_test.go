package rpc_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
	"github.com/warmroute/warmroute/router"
)

// post sends JSON as curl would and returns status and body.
func (w *world) post(method, body string, header ...string) (int, http.Header, string) {
	w.t.Helper()
	return post(w.t, w.http(false), "http://"+routerAddr, method, body, header...)
}

func post(t testing.TB, c *http.Client, base, method, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/warmroute.v1.RoutingService/"+method, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// RPC-02: the same call gets the same answer over every protocol on one port.
func TestRPC02EveryProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := w.route(ask(chat("m", "a"))) // so that there is something to match
		w.report(answered(held.GetDecisionId()))
		request := &v1.RouteRequest{Prompt: chat("m", "a"), Alternatives: new(uint32(1))}
		grpc := func(options ...connect.ClientOption) warmroutev1connect.RoutingServiceClient {
			return warmroutev1connect.NewRoutingServiceClient(w.http(true), "http://"+routerAddr, options...)
		}
		answers := make(map[string]*v1.RouteResponse)
		ask := func(name string, c warmroutev1connect.RoutingServiceClient) {
			out, err := c.Route(t.Context(), request)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			answers[name] = out
			if got, err := c.Report(t.Context(), &v1.ReportRequest{DecisionId: out.GetDecisionId(), Outcome: v1.Outcome_OUTCOME_CANCELED}); err != nil || !got.GetAccepted() {
				t.Errorf("%s: report: %v, %v", name, got, err)
			}
			_, err = c.Route(t.Context(), &v1.RouteRequest{Prompt: chat("nobody's", "a")})
			if codeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), `"nobody's"`) {
				t.Errorf("%s: an unknown model: %v", name, err)
			}
		}
		ask("connect proto", w.client())
		ask("connect json", w.client(connect.WithProtoJSON()))
		ask("connect gzip", w.client(connect.WithSendGzip()))
		ask("connect h2c", grpc())
		ask("grpc", grpc(connect.WithGRPC()))
		ask("grpc-web", w.client(connect.WithGRPCWeb()))

		// Plain JSON, with a field that nobody knows and a number as text.
		body := fmt.Sprintf(`{"prompt":{"original":{"path":"/v1/chat/completions","body":%q}},"alternatives":"1","newer":{"field":[1]}}`,
			base64.StdEncoding.EncodeToString(chatBody("m", "a")))
		status, _, text := w.post("Route", body)
		var plain v1.RouteResponse
		if err := protojson.Unmarshal([]byte(text), &plain); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s: %v", status, text, err)
		}
		answers["curl"] = &plain
		want := answers["connect proto"]
		if want.GetReason() != "longest_match" || len(want.GetAlternatives()) != 1 {
			t.Errorf("got %v", want)
		}
		for name, got := range answers {
			if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(want, "decision_id")); diff != "" {
				t.Errorf("%s (-connect proto +%s):\n%s", name, name, diff)
			}
		}
	})
}

// Errors have their codes and name what is at fault, over plain HTTP too.
func TestRPC02Codes(t *testing.T) {
	saturated := func(on router.OnSaturation) func(*setup) {
		return func(s *setup) {
			s.config.ConcurrencyThreshold, s.config.OnSaturation, s.options.QueueWait = 1, on, time.Second
		}
	}
	for _, tc := range []struct {
		name   string
		method string
		body   string
		change func(*setup)
		before func(*world)
		status int
		code   string
		text   string
		again  string
	}{
		{name: "not JSON", method: "Route", body: `{"prompt":`, status: 400, code: "invalid_argument"},
		{name: "not base64", method: "Route", body: `{"prompt":{"original":{"body":"` + strings.Repeat("secret! ", 500) + `"}}}`, status: 400, code: "invalid_argument", text: "warmroute.v1.RouteRequest: "},
		{name: "no prompt", method: "Route", body: `{}`, status: 400, code: "invalid_argument", text: "prompt: is missing"},
		{name: "no model", method: "Route", body: `{"prompt":{"text":"x"}}`, status: 400, code: "invalid_argument", text: "prompt.model: is missing"},
		{name: "path", method: "Route", body: `{"prompt":{"original":{"path":"/v1/nothing"}}}`, status: 400, code: "invalid_argument", text: `prompt.original.path: \"/v1/nothing\"`},
		{name: "body", method: "Route", body: `{"prompt":{"original":{"path":"/v1/chat/completions","body":"eA=="}}}`, status: 400, code: "invalid_argument", text: "prompt.original.body: "},
		{name: "body's field", method: "Route", body: `{"prompt":{"original":{"path":"/v1/chat/completions","body":"eyJtb2RlbCI6MX0="}}}`, status: 400, code: "invalid_argument", text: "prompt.original.body: model: must be a string"},
		{name: "n", method: "Route", body: `{"prompt":{"text":"x","model":"m","n":99999}}`, status: 400, code: "invalid_argument", text: "prompt.n: 99999"},
		{name: "tenant", method: "Explain", body: `{"prompt":{"text":"x","model":"m"},"tenantId":"\n"}`, status: 400, code: "invalid_argument", text: "tenant_id: "},
		{name: "lease", method: "Route", body: `{"prompt":{"text":"x","model":"m"},"lease":"0.5s"}`, status: 400, code: "invalid_argument", text: "lease: 500ms"},
		{name: "alternatives", method: "Route", body: `{"prompt":{"text":"x","model":"m"},"alternatives":9}`, status: 400, code: "invalid_argument", text: "alternatives: 9"},
		{name: "pin", method: "Route", body: `{"prompt":{"text":"x","model":"m"},"backend":"b1:8000"}`, status: 403, code: "permission_denied", text: "allow_backend_pin"},
		{name: "model", method: "Explain", body: `{"prompt":{"text":"x","model":"other"}}`, status: 404, code: "not_found", text: "other"},
		{
			name: "saturated", method: "Route", body: `{"prompt":{"text":"x","model":"m"}}`, change: saturated(router.Reject),
			before: func(w *world) { w.fill(3) }, status: 429, code: "resource_exhausted", text: "concurrency_threshold", again: "1",
		},
		{
			name: "queue", method: "Route", body: `{"prompt":{"text":"x","model":"m"}}`, change: saturated(router.Queue),
			before: func(w *world) { w.fill(3) }, status: 429, code: "resource_exhausted", text: "timeouts.queue", again: "1",
		},
		{
			name: "nobody", method: "Route", body: `{"prompt":{"text":"x","model":"m"}}`, before: func(w *world) {
				for _, b := range w.pool.Backends() {
					b.Drain(true)
				}
			}, status: 503, code: "unavailable", text: "3 draining", again: "2",
		},
		{
			name: "leases", method: "Route", body: `{"prompt":{"text":"x","model":"m"}}`, change: func(s *setup) { s.options.MaxLeases = 3 },
			before: func(w *world) { w.fill(3) }, status: 429, code: "resource_exhausted", text: "3 decisions are open", again: "1",
		},
		{
			name: "body's size", method: "Route", body: `{"prompt":{"original":{"path":"/v1/completions","body":"` + strings.Repeat("eHh4", 500) + `"}}}`,
			change: func(s *setup) { s.options.BodyBytes = 499 }, status: 429, code: "resource_exhausted", text: "limits.body_bytes",
		},
		{
			name: "all bodies", method: "Route", body: `{"prompt":{"text":"` + strings.Repeat("x", 2000) + `","model":"m"}}`,
			change: func(s *setup) { s.budget = 1000 }, status: 429, code: "resource_exhausted", text: "limits.bodies_in_flight_bytes", again: "1",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				change := tc.change
				if change == nil {
					change = func(*setup) {}
				}
				w := newWorld(t, change)
				if tc.before != nil {
					tc.before(w)
				}
				inFlight, records := w.inFlight(), len(w.recorded())
				status, header, text := w.post(tc.method, tc.body)
				var got struct{ Code, Message string }
				if err := json.Unmarshal([]byte(text), &got); err != nil || status != tc.status || got.Code != tc.code || !strings.Contains(text, tc.text) {
					t.Errorf("%d %s, want %d %s about %s", status, text, tc.status, tc.code, tc.text)
				}
				if len(text) > 1000 {
					t.Errorf("the error takes %d bytes", len(text))
				}
				if again := header.Get("Retry-After"); again != tc.again {
					t.Errorf("Retry-After %q, want %q", again, tc.again)
				}
				if w.inFlight() != inFlight || w.bodies.Held() != 0 {
					t.Errorf("%d in flight of %d, %d bytes are held", w.inFlight(), inFlight, w.bodies.Held())
				}
				for _, r := range w.recorded()[records:] {
					if r.Status != tc.status || r.Err == "" || r.DecisionID != "" {
						t.Errorf("record: %+v", r)
					}
				}
			})
		})
	}
}

// fill takes n slots.
func (w *world) fill(n int) {
	w.t.Helper()
	for i := range n {
		w.route(ask(short(fmt.Sprint("fill", i))))
	}
}

// RPC-01: a caller's deadline ends the wait for a slot, with the right code, and nothing
// goes on after it.
func TestRPC01Deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(s *setup) { s.config.ConcurrencyThreshold, s.config.OnSaturation = 1, router.Queue })
		w.fill(3)
		start := time.Now()
		status, _, text := w.post("Route", `{"prompt":{"text":"x","model":"m"}}`, "Connect-Timeout-Ms", "50")
		if took := time.Since(start); took != 50*time.Millisecond || status != http.StatusGatewayTimeout || !strings.Contains(text, "deadline_exceeded") {
			t.Errorf("%d %s after %v", status, text, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := w.client(connect.WithGRPCWeb()).Route(ctx, ask(short("y"))); codeOf(err) != connect.CodeDeadlineExceeded {
			t.Errorf("gRPC-Web: %v", err)
		}
		synctest.Wait()
		if w.inFlight() != 3 || w.pool.Waiting() != 0 || w.bodies.Held() != 0 {
			t.Errorf("%d in flight, %d wait, %d bytes are held", w.inFlight(), w.pool.Waiting(), w.bodies.Held())
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := w.service.Route(gone, ask(short("z"))); codeOf(err) != connect.CodeCanceled {
			t.Errorf("a caller that left: %v", err)
		}
	})
}

// A caller that has left before its decision keeps no slot.
func TestCallersThatLeftKeepNoSlot(t *testing.T) {
	w := newWorld(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := w.service.Route(gone, ask(short("a"))); codeOf(err) != connect.CodeCanceled {
		t.Errorf("got %v", err)
	}
	if w.inFlight() != 0 || w.blocks() != 0 || w.service.OpenDecisions() != 0 {
		t.Errorf("%d in flight, %d blocks, %d open", w.inFlight(), w.blocks(), w.service.OpenDecisions())
	}
}

// A message that comes too slowly is not waited for.
func TestSlowMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pause, more := io.Pipe()
		defer more.Close()
		body := io.MultiReader(strings.NewReader(`{"prompt":`), pause)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+routerAddr+"/warmroute.v1.RoutingService/Route", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		start := time.Now()
		resp, err := w.http(false).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if took := time.Since(start); took != time.Minute || !strings.Contains(string(text), "deadline_exceeded") {
			t.Errorf("%d %s after %v", resp.StatusCode, text, took)
		}
		if w.bodies.Held() != 0 {
			t.Errorf("%d bytes are held", w.bodies.Held())
		}
	})
}

// Health and reflection answer on the same port, and everything does over TLS.
func TestHealthReflectionAndTLS(t *testing.T) {
	w := newWorld(t)
	mux := http.NewServeMux()
	w.service.Register(mux)
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	c := warmroutev1connect.NewRoutingServiceClient(server.Client(), server.URL, connect.WithGRPC())
	out, err := c.Route(t.Context(), ask(chat("m", "a")))
	if err != nil || out.GetTarget().GetBackend() == "" {
		t.Errorf("gRPC over TLS: %v, %v", out, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/grpc.health.v1.Health/Check", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); !strings.Contains(string(text), "SERVING") {
		t.Errorf("health: %s", text)
	}
	stream := grpcreflect.NewClient(server.Client(), server.URL, connect.WithGRPC()).NewStream(t.Context())
	names, err := stream.ListServices()
	if err != nil || len(names) != 1 || names[0] != warmroutev1connect.RoutingServiceName {
		t.Errorf("reflection: %v, %v", names, err)
	}
	if _, err := stream.Close(); err != nil {
		t.Error(err)
	}
}

// Ranks need their header, aliases their body rewritten.
func TestTargets(t *testing.T) {
	w := newWorld(t, func(s *setup) { s.options.AllowPin = true })
	out := w.route(&v1.RouteRequest{Prompt: chat("alias", "a"), Backend: "b2:8000#1"})
	want := &v1.Target{Backend: "b2:8000#1", Url: "http://b2:8000", Headers: map[string]string{"X-Data-Parallel-Rank": "1"}}
	if diff := cmp.Diff(want, out.GetTarget(), protocmp.Transform()); diff != "" {
		t.Errorf("target (-want +got):\n%s", diff)
	}
	if !out.GetRewriteModel() || out.GetModel() != "served" || out.GetReason() != "pinned" {
		t.Errorf("got %v", out)
	}
	out = w.route(&v1.RouteRequest{Prompt: chat("m", "a"), Backend: "b3:8000/base"})
	if out.GetTarget().GetUrl() != "http://b3:8000/base" || len(out.GetTarget().GetHeaders()) != 0 || out.GetRewriteModel() {
		t.Errorf("got %v", out)
	}
	out = w.route(&v1.RouteRequest{Prompt: chat("m", "b"), TriedBackends: []string{"b1:8000", "b3:8000/base", "left:1"}, Alternatives: new(uint32(8))})
	if out.GetTarget().GetBackend() != "b2:8000#1" || len(out.GetAlternatives()) != 0 {
		t.Errorf("after two failures: %v", out)
	}
}

// A prompt in another form is the prompt of the request that it stands for.
func TestForms(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("to be or not to be ", 100)
	ids := make([]uint32, 600)
	for i := range ids {
		ids[i] = uint32(i * 7) //nolint:gosec // small
	}
	text, err := json.Marshal(ids)
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]*v1.Prompt{
		"text": {
			{Model: "m", Content: &v1.Prompt_Text{Text: long + "<&>\u2028"}},
			original("/v1/completions", fmt.Appendf(nil, `{"prompt":"%s<&>\u2028","model":"m"}`, long)),
		},
		"token ids": {
			{Model: "m", Content: &v1.Prompt_TokenIds{TokenIds: &v1.TokenIds{Ids: ids}}},
			original("/v1/completions", fmt.Appendf(nil, `{"prompt":%s,"model":"m"}`, text)),
		},
		"conversation": {
			{Model: "m", CacheSalt: "s", Content: &v1.Prompt_Conversation{Conversation: &v1.Conversation{Messages: []*v1.Message{
				{Role: "system", Content: long}, {Role: "user", Content: "hello"},
			}}}},
			original("/v1/chat/completions?x=y", fmt.Appendf(nil, `{"model":"m","cache_salt":"s","messages":[{"role":"system","content":%q},{"role":"user","content":[{"type":"text","text":"hello"}]}]}`, long)),
		},
	} {
		made := w.route(ask(pair[0]))
		w.report(answered(made.GetDecisionId()))
		as := w.route(ask(pair[1]))
		if as.GetReason() != "longest_match" || as.GetMatchedTokens() == 0 || as.GetTarget().GetBackend() != made.GetTarget().GetBackend() {
			t.Errorf("%s: the request does not match its prompt: %v", name, as)
		}
		w.report(answered(as.GetDecisionId()))
		r := w.recorded()
		if a, b := r[len(r)-2], r[len(r)-1]; !cmp.Equal(a.Keys, b.Keys) || a.Route != b.Route {
			t.Errorf("%s: %d keys on %s, and %d on %s", name, len(a.Keys), a.Route, len(b.Keys), b.Route)
		}
	}
}
