package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/router"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
)

// keyed names keys after their tokens.
func keyed(c *config.Config, all ...config.Key) {
	for _, k := range all {
		k.TokenSHA256 = hashOf(k.Name)
		c.Keys = append(c.Keys, k)
	}
}

// routingClient is the routing service as somebody with a token sees it; empty for none.
func (s *stack) routingClient(token string, options ...connect.ClientOption) warmroutev1connect.RoutingServiceClient {
	client := *s.network.Client()
	if token != "" {
		client.Transport = bearing{client.Transport, token}
	}
	return warmroutev1connect.NewRoutingServiceClient(&client, "http://"+dataAddr, options...)
}

// asked is a prompt as callers of the routing service send it.
func asked(path, body string) *v1.Prompt {
	return &v1.Prompt{Content: &v1.Prompt_Original{Original: &v1.OriginalRequest{Path: path, Body: []byte(body)}}}
}

func chatBody(text string) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, text)
}

// The routing service is for those who have a key: it says what pools, whose prompts and how often,
// and nobody is told of, or may report, what is another's. MT-05.
func TestRoutingServiceWithKeys(t *testing.T) {
	for name, options := range map[string][]connect.ClientOption{"Connect": nil, "JSON": {connect.WithProtoJSON()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(c *config.Config) {
				c.Pools[0].Models = []config.Model{{Name: "m"}}
				other := c.Pools[0]
				other.Name, other.Models = "other", []config.Model{{Name: "o"}}
				c.Pools = append(c.Pools, other)
				keyed(c,
					config.Key{Name: "a", Tenant: "ta"}, config.Key{Name: "a2", Tenant: "ta"}, config.Key{Name: "b", Tenant: "tb"}, config.Key{Name: "none"},
					config.Key{Name: "elsewhere", Pools: []string{"other"}}, config.Key{Name: "slow", Tenant: "ts", RequestsPerSecond: 1},
				)
			}, map[string]http.Handler{"b1:8000": new(engine)})
			synctest.Wait()
			route := func(key, tenant string) (*v1.RouteResponse, error) {
				return s.routingClient(key, options...).Route(t.Context(), &v1.RouteRequest{TenantId: tenant, Prompt: asked("/v1/chat/completions", chatBody(longPrompt("P")))})
			}
			code := func(what string, err error, want connect.Code, words string) {
				t.Helper()
				if connect.CodeOf(err) != want || !strings.Contains(fmt.Sprint(err), words) {
					t.Errorf("%s, %s: %v, want %v %s", name, what, err, want, words)
				}
			}
			_, err := route("", "")
			code("without a key", err, connect.CodeUnauthenticated, "API key")
			_, err = route("nobody's", "")
			code("with an unknown key", err, connect.CodeUnauthenticated, "not known")
			_, err = route("elsewhere", "")
			code("of another pool", err, connect.CodePermissionDenied, `the key "elsewhere" is not good for pool "default" (keys[].pools)`)

			report := func(key, id string) (*v1.ReportResponse, error) {
				return s.routingClient(key, options...).Report(t.Context(), &v1.ReportRequest{
					DecisionId: id, Outcome: v1.Outcome_OUTCOME_ANSWERED, Status: 200,
					Usage: &v1.Usage{PromptTokens: new(uint32(2000)), CachedTokens: new(uint32(1900)), OutputTokens: new(uint32(1))},
				})
			}
			// Each asks for the same prompt, answered; then who asks again is told of its own.
			for _, key := range []string{"a", "none"} {
				out, err := route(key, "")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := report("b", out.GetDecisionId()); key == "a" || key == "none" {
					code("another's decision", err, connect.CodePermissionDenied, "decision_id")
				}
				for _, outcome := range []v1.Outcome{v1.Outcome_OUTCOME_IN_PROGRESS, v1.Outcome_OUTCOME_CANCELED} {
					_, err := s.routingClient("b", options...).Report(t.Context(), &v1.ReportRequest{DecisionId: out.GetDecisionId(), Outcome: outcome})
					code("another's decision", err, connect.CodePermissionDenied, "decision_id")
				}
				if done, err := report(map[string]string{"a": "a2", "none": "none"}[key], out.GetDecisionId()); err != nil || !done.GetAccepted() {
					t.Errorf("%s, %s: the decision cannot be reported: %v, %v", name, key, done, err)
				}
			}
			for _, test := range []struct {
				key, tenant string
				told        bool // of a hit
				reason      bool
			}{{"a", "", true, true}, {"a2", "tb", true, true}, {"b", "", false, true}, {"b", "ta", false, true}, {"none", "", false, false}, {"none", "ta", false, false}} {
				out, err := route(test.key, test.tenant)
				if err != nil {
					t.Fatal(err)
				}
				if hit := out.GetPredictedCachedTokens() > 0 || out.GetMatchedTokens() > 0; hit != test.told || (out.GetReason() != "") != test.reason || (out.GetExplanation() != "") != test.reason {
					t.Errorf("%s, %s as %q is told %v", name, test.key, test.tenant, out)
				}
				if _, err := s.routingClient(test.key, options...).Report(t.Context(), &v1.ReportRequest{DecisionId: out.GetDecisionId(), Outcome: v1.Outcome_OUTCOME_UNREACHABLE}); err != nil {
					t.Error(err)
				}
			}
			explain := func(key, tenant string) (*v1.ExplainResponse, error) {
				return s.routingClient(key, options...).Explain(t.Context(), &v1.ExplainRequest{TenantId: tenant, Prompt: asked("/v1/chat/completions", chatBody(longPrompt("P")))})
			}
			for key, hit := range map[string]bool{"a": true, "b": false} {
				if out, err := explain(key, "ta"); err != nil || out.GetCandidates()[0].GetMatchedBlocks() > 0 != hit {
					t.Errorf("%s: an explanation for %s: %v, %v", name, key, out, err)
				}
			}
			_, err = explain("none", "ta")
			code("an explanation without a tenant", err, connect.CodePermissionDenied, "keys[].tenant")
			_, err = explain("", "")
			code("an explanation without a key", err, connect.CodeUnauthenticated, "API key")

			time.Sleep(10 * time.Second)
			first, err := route("slow", "")
			if err != nil {
				t.Fatal(err)
			}
			for range 20 { // what is reported is not counted
				if _, err := s.routingClient("slow", options...).Report(t.Context(), &v1.ReportRequest{DecisionId: first.GetDecisionId(), Outcome: v1.Outcome_OUTCOME_IN_PROGRESS}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := route("slow", ""); err != nil {
				t.Fatal(err)
			}
			_, err = route("slow", "")
			code("too often", err, connect.CodeResourceExhausted, "keys[].requests_per_second")
			if failed := new(connect.Error); !asError(err, &failed) || failed.Meta().Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After: %v", name, err)
			}
			s.stop()
		})
	}
}

func asError(err error, target **connect.Error) bool {
	e, ok := err.(*connect.Error)
	if ok {
		*target = e
	}
	return ok
}

// A key's tokens of a minute are those of prompts and answers, as engines report them, over the
// proxy and over RPC, and whoever has used them up is told in its dialect when there are more.
func TestTokensOfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(c *config.Config) {
			c.Pools[0].Models = []config.Model{{Name: "m"}}
			c.Pools[0].SageMakerEndpoints = []string{"ep"}
			keyed(c, config.Key{Name: "a", TokensPerMinute: 300}, config.Key{Name: "b", TokensPerMinute: 300})
		}, map[string]http.Handler{"b1:8000": new(engine)})
		synctest.Wait()
		ask := func(path, body string) (int, http.Header, string) {
			return s.request(http.MethodPost, "http://"+dataAddr+path, body, "Content-Type", "application/json", "Authorization", "Bearer a")
		}
		for i := range 3 { // of 101 tokens, as the engine says, and few as the prompt looks
			if status, _, body := ask("/v1/chat/completions", chatBody("hi")); status != http.StatusOK {
				t.Errorf("request %d: %d %s", i, status, body)
			}
		}
		for path, test := range map[string]struct{ body, words string }{
			"/v1/chat/completions":                     {chatBody("hi"), `"rate_limit_exceeded"`},
			"/v1/messages":                             {`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, `"rate_limit_error"`},
			"/endpoints/ep/invocations":                {chatBody("hi"), `ModelNotReadyException`},
			"/endpoints/ep/openai/v1/chat/completions": {chatBody("hi"), `"rate_limit_exceeded"`},
		} {
			status, header, body := ask(path, test.body)
			if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" || !strings.Contains(body+header.Get("X-Amzn-Errortype"), test.words) || !strings.Contains(body, "keys[].tokens_per_minute") {
				t.Errorf("%s: %d %v %s, want 429 with %s", path, status, header, body, test.words)
			}
		}
		_, err := s.routingClient("a").Route(t.Context(), &v1.RouteRequest{Prompt: asked("/v1/chat/completions", chatBody("hi"))})
		if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "tokens_per_minute") {
			t.Errorf("RPC: %v", err)
		}
		time.Sleep(21 * time.Second) // 105 more, of which 3 were owed
		if status, _, body := ask("/v1/chat/completions", chatBody("hi")); status != http.StatusOK {
			t.Errorf("a third of a minute later: %d %s", status, body)
		}
		if status, _, _ := ask("/v1/chat/completions", chatBody(strings.Repeat("tokens ", 100))); status != http.StatusTooManyRequests {
			t.Errorf("and once more: %d", status)
		}

		// Over RPC: a decision takes what its prompt is thought to have, and its report corrects that.
		for _, test := range []struct {
			outcome v1.Outcome
			ttft    time.Duration // 0: no first token
			used    uint32
			again   bool
		}{
			{v1.Outcome_OUTCOME_UNREACHABLE, 0, 0, true},
			{v1.Outcome_OUTCOME_ANSWERED, 0, 280, false},
			{v1.Outcome_OUTCOME_CANCELED, time.Millisecond, 0, false}, // an engine worked on it, whatever is said of tokens
		} {
			out, err := s.routingClient("b").Route(t.Context(), &v1.RouteRequest{Prompt: asked("/v1/chat/completions", chatBody(strings.Repeat("tokens ", 100)))})
			if err != nil {
				t.Fatal(err)
			}
			in := &v1.ReportRequest{DecisionId: out.GetDecisionId(), Outcome: test.outcome}
			if test.ttft > 0 {
				in.Ttft, in.Usage = durationpb.New(test.ttft), &v1.Usage{PromptTokens: proto.Uint32(0), OutputTokens: proto.Uint32(0)}
				time.Sleep(2 * test.ttft)
			}
			if test.used > 0 {
				in.Status, in.Usage = 200, &v1.Usage{PromptTokens: new(test.used), OutputTokens: proto.Uint32(10)}
			}
			if _, err := s.routingClient("b").Report(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			_, err = s.routingClient("b").Route(t.Context(), &v1.RouteRequest{Prompt: asked("/v1/chat/completions", chatBody(strings.Repeat("tokens ", 100)))})
			if (err == nil) != test.again {
				t.Errorf("after %v: %v", test.outcome, err)
			}
			time.Sleep(2 * time.Minute) // the decision that was not reported stays paid for
		}
		s.stop()
	})
}

// storing is an engine that stores answers and gives out those that it has.
type storing struct {
	engine

	mu       sync.Mutex
	seen     []string
	previous []string // that answers went on with
}

// wentOn are the answers that others went on with.
func (e *storing) wentOn() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.previous)
}

func (e *storing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/v1/responses") {
		e.engine.ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var keys map[string]any // by their exact letters, unlike the fields of a struct
	_ = json.Unmarshal(body, &keys)
	e.mu.Lock()
	e.seen = append(e.seen, r.Method+" "+r.URL.Path+" "+string(body))
	if id, ok := keys["previous_response_id"].(string); ok {
		e.previous = append(e.previous, id)
	}
	e.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"id":"resp_1","object":"response","output":[],"usage":{"input_tokens":10,"output_tokens":1}}`)
}

func (e *storing) requests() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.seen)
}

// What engines store for a tenant no other tenant reads, removes or goes on with, whether it knows
// the id or guesses it.
func TestStoredResponsesAreTheirTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := new(storing)
		s := start(t, func(c *config.Config) {
			c.Pools[0].Models = []config.Model{{Name: "m"}}
			keyed(c, config.Key{Name: "a", Tenant: "t"}, config.Key{Name: "a2", Tenant: "t"}, config.Key{Name: "b", Tenant: "u"}, config.Key{Name: "c"}, config.Key{Name: "d"})
		}, map[string]http.Handler{"b1:8000": stores})
		synctest.Wait()
		do := func(key, method, path, body string) int {
			status, _, _ := s.request(method, "http://"+dataAddr+path, body, "Content-Type", "application/json", "Authorization", "Bearer "+key)
			return status
		}
		goOn := `{"model":"m","input":"and?","previous_response_id":"resp_1"}`
		for _, owner := range []struct {
			key    string
			theirs []string
		}{{"a", []string{"a", "a2"}}, {"c", []string{"a", "a2", "c"}}} {
			if status := do(owner.key, http.MethodPost, "/v1/responses", `{"model":"m","input":"hi"}`); status != http.StatusOK {
				t.Fatalf("%s: %d", owner.key, status)
			}
			for _, key := range []string{"a", "a2", "b", "c", "d"} {
				want := http.StatusNotFound
				if strings.Contains(strings.Join(owner.theirs, " ")+" ", key+" ") {
					want = http.StatusOK
				}
				before := stores.requests()
				for _, got := range []int{
					do(key, http.MethodGet, "/v1/responses/resp_1", ""), do(key, http.MethodPost, "/v1/responses", goOn), do(key, http.MethodDelete, "/v1/responses/resp_1", ""),
				} {
					if got != want {
						t.Errorf("stored for %s, asked by %s: %d, want %d", owner.key, key, got, want)
					}
				}
				if reached := stores.requests() > before; reached != (want == http.StatusOK) {
					t.Errorf("stored for %s, asked by %s: the engine was asked: %v", owner.key, key, reached)
				}
				_, err := s.routingClient(key).Route(t.Context(), &v1.RouteRequest{Prompt: asked("/v1/responses", goOn)})
				if (err == nil) != (want == http.StatusOK) || err != nil && connect.CodeOf(err) != connect.CodeNotFound {
					t.Errorf("stored for %s, gone on with by %s over RPC: %v", owner.key, key, err)
				}
			}
		}
		s.stop()
	})
}

// Engines that store answers know a key by its exact letters (the models of vLLM and SGLang are
// pydantic's): what only looks like previous_response_id goes on with nothing there, and is let
// through as the unknown key that it is. However that key itself is spelled, it is found.
func TestWhatLooksLikeAPreviousResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := new(storing)
		s := start(t, func(c *config.Config) {
			c.Pools[0].Models = []config.Model{{Name: "m"}}
			keyed(c, config.Key{Name: "a", Tenant: "t"}, config.Key{Name: "b", Tenant: "u"})
		}, map[string]http.Handler{"b1:8000": stores})
		synctest.Wait()
		respond := func(key, more string) int {
			status, _, _ := s.request(http.MethodPost, "http://"+dataAddr+"/v1/responses", `{"model":"m","input":"hi"`+more+`}`,
				"Content-Type", "application/json", "Authorization", "Bearer "+key)
			return status
		}
		if status := respond("a", ""); status != http.StatusOK {
			t.Fatalf("stored: %d", status)
		}
		for _, test := range []struct {
			more string
			want int
		}{
			{`,"previous_response_id":"resp_1"`, http.StatusNotFound},
			{`,"\u0070revious\u005fresponse_id":"resp\u005f1"`, http.StatusNotFound},
			{`,"previous_response_id":null,"previous_response_id":"resp_1"`, http.StatusNotFound}, // the last counts
			{`,"previous_response_id":"resp_1","Previous_Response_ID":"mine"`, http.StatusNotFound},
			{`,"Previous_Response_ID":"resp_1"`, http.StatusOK}, // from here on it has an answer of that id itself
			{`,"PREVIOUS_RESPONSE_ID":"resp_1"`, http.StatusOK},
			{`,"previous_reſponse_id":"resp_1"`, http.StatusOK}, // which folds to s
			{`,"previousResponseId":"resp_1"`, http.StatusOK},
		} {
			before := stores.requests()
			if status := respond("b", test.more); status != test.want || stores.requests() > before != (test.want == http.StatusOK) {
				t.Errorf("%s: %d, want %d; the engine was asked %d times", test.more, status, test.want, stores.requests()-before)
			}
		}
		if on := stores.wentOn(); len(on) > 0 {
			t.Errorf("the engine went on with %q", on)
		}
		if status := respond("a", `,"previous_response_id":"resp_1"`); status != http.StatusOK || len(stores.wentOn()) != 1 {
			t.Errorf("its own: %d, the engine went on with %q", status, stores.wentOn())
		}
		s.stop()
	})
}

// One tenant has its share of the line, others still find a place, and who leaves makes room.
func TestQueueShareOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(c *config.Config) {
			c.Pools[0].Models = []config.Model{{Name: "m"}}
			c.Pools[0].Routing.ConcurrencyThreshold, c.Pools[0].Routing.OnSaturation = 1, router.Queue
			c.Limits.MaxQueued = 4
			keyed(c, config.Key{Name: "a", Tenant: "t"}, config.Key{Name: "a2", Tenant: "t"}, config.Key{Name: "b"})
		}, map[string]http.Handler{"b1:8000": new(engine)})
		synctest.Wait()
		type waiting struct {
			leave context.CancelFunc
			done  chan int
		}
		send := func(key string) waiting {
			ctx, leave := context.WithCancel(t.Context())
			w := waiting{leave, make(chan int, 1)}
			go func() {
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+dataAddr+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"max_tokens":3,"messages":[]}`))
				req.Header.Set("Authorization", "Bearer "+key)
				resp, err := s.network.Client().Do(req)
				if err != nil {
					w.done <- 0
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				w.done <- resp.StatusCode
			}()
			synctest.Wait()
			return w
		}
		refused := func(w waiting) bool {
			select {
			case status := <-w.done:
				return status == http.StatusTooManyRequests
			default:
				return false
			}
		}
		running := send("a")
		one, two := send("a"), send("a2")
		if !refused(send("a")) || !refused(send("a2")) {
			t.Error("a tenant has more than half of the line")
		}
		others := []waiting{send("b")}
		one.leave()
		synctest.Wait()
		others = append(others, send("a"))
		if !refused(send("a")) {
			t.Error("a tenant has more than half of the line, after one of its left")
		}
		others = append(others, send("b"))
		if _, metrics := s.admin("/metrics"); !strings.Contains(metrics, `warmroute_queue_refused_requests_total{full="share",pool="default"} 3`) ||
			!strings.Contains(metrics, `warmroute_waiting_requests{pool="default"} 4`) {
			t.Error("the metrics do not say so")
		}
		if !refused(send("b")) {
			t.Error("the line is longer than max_queued")
		}
		for _, w := range append(others, running, two) {
			if status := <-w.done; status != http.StatusOK {
				t.Errorf("one that waited got %d", status)
			}
		}
		s.stop()
	})
}

// A client's X-Data-Parallel-Rank stays here, unless its pool says otherwise.
func TestRankOfAClient(t *testing.T) {
	for _, forward := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			got := make(chan string, 1)
			s := start(t, func(c *config.Config) {
				c.Pools[0].Models, c.Pools[0].ForwardRank = []config.Model{{Name: "m"}}, forward
			}, map[string]http.Handler{"b1:8000": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					got <- r.Header.Get("X-Data-Parallel-Rank")
				}
				new(engine).ServeHTTP(w, r)
			})})
			synctest.Wait()
			s.chat("hi", "", "X-Data-Parallel-Rank", "3")
			if rank := <-got; (rank == "3") != forward || (rank == "") == forward {
				t.Errorf("forward_rank %v: the engine got %q", forward, rank)
			}
			s.stop()
		})
	}
}

// Keys are replaced by a reload, with what they have used; whether there are any is settled at the
// start.
func TestKeysAreReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began *config.Config
		s := start(t, func(c *config.Config) {
			c.Pools[0].Models = []config.Model{{Name: "m"}}
			keyed(c, config.Key{Name: "stays", TokensPerMinute: 100}, config.Key{Name: "goes"})
			began = c
		}, map[string]http.Handler{"b1:8000": new(engine)})
		synctest.Wait()
		status := func(key string) int {
			got, _, _ := s.chat("hi", "", "Authorization", "Bearer "+key)
			return got
		}
		expect := func(what string, want map[string]int) {
			t.Helper()
			for key, code := range want {
				if got := status(key); got != code {
					t.Errorf("%s, %s: %d, want %d", what, key, got, code)
				}
			}
		}
		expect("before", map[string]int{"stays": 200, "goes": 200, "comes": 401}) // 101 tokens
		next := *began
		next.Keys = nil
		keyed(&next, config.Key{Name: "stays", TokensPerMinute: 100}, config.Key{Name: "comes"})
		if err := s.Reload(&next); err != nil {
			t.Fatal(err)
		}
		expect("after", map[string]int{"stays": 429, "goes": 401, "comes": 200})
		if _, err := s.routingClient("goes").Explain(t.Context(), &v1.ExplainRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("RPC with a key that is gone: %v", err)
		}
		elsewhere := next // a pool of another name waits for a restart, and its keys must not be without any
		elsewhere.Pools = slices.Clone(next.Pools)
		elsewhere.Pools[0].Name = "renamed"
		elsewhere.Keys = slices.Clone(next.Keys)
		elsewhere.Keys[0].Pools = []string{"renamed"}
		if err := s.Reload(&elsewhere); err == nil || !strings.Contains(err.Error(), `keys[0].pools: the pool "renamed" is there only after a restart`) {
			t.Errorf("keys of a pool that is not there: %v", err)
		}
		expect("then still", map[string]int{"comes": 200})
		open := next
		open.Keys = nil
		if err := s.Reload(&open); err != nil {
			t.Fatal(err)
		}
		expect("without any, which waits for a restart", map[string]int{"comes": 200, "": 401})
		log := s.log.String()
		for _, line := range []string{
			`"msg":"configuration changed","key":"keys[goes]","change":"removed"}`, `"msg":"configuration changed","key":"keys[comes]","change":"added"}`,
			`"configuration changes that need a restart","changes":["keys[stays]: removed","keys[comes]: removed"]`,
		} {
			if !strings.Contains(log, line) {
				t.Errorf("the log does not say %s", line)
			}
		}
		for _, key := range []string{"stays", "goes", "comes"} {
			if strings.Contains(log, hashOf(key)) {
				t.Errorf("the log shows the hash of a token of %s", key)
			}
		}
		s.stop()
	})
}
