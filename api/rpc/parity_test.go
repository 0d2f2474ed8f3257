//go:build !race

package rpc_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/api/anthropic"
	"github.com/warmroute/warmroute/api/openai"
	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/usage"
	"github.com/warmroute/warmroute/internal/memhttp"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// mixedRequest is one request of the traffic that both surfaces get.
type mixedRequest struct {
	path, body, contentType string
	tenant                  string
	format                  usage.Format
}

// mixedTraffic is requests of all kinds: conversations that go on, token ids, images,
// forms, aliases, adapters, tenants, several answers, bodies that are refused.
func mixedTraffic(n int) []mixedRequest {
	rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // repeatable on purpose
	words := func(topic, count int) string {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, "topic%d word%d ", topic, (i*topic+i)%97)
		}
		return b.String()
	}
	models := []string{"m", "m", "m", "alias", "lora"}
	all := make([]mixedRequest, 0, n)
	for len(all) < n {
		topic := rng.IntN(6)
		head := words(topic, 200+100*rng.IntN(4))
		tail := words(100+rng.IntN(1000), 20)
		model := models[rng.IntN(len(models))]
		r := mixedRequest{contentType: "application/json", format: usage.OpenAI}
		if rng.IntN(5) == 0 {
			r.tenant = fmt.Sprint("tenant-", rng.IntN(2))
		}
		switch rng.IntN(9) {
		case 0, 1:
			r.path, r.body = "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":%q}]}`, model, head, tail)
		case 2:
			r.path, r.body = "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"n":%d,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":%q}]}`, model, 1+rng.IntN(3), head+tail)
		case 3:
			r.format, r.path, r.body = usage.Responses, "/v1/responses", fmt.Sprintf(`{"model":%q,"instructions":%q,"input":%q}`, model, head, tail)
		case 4:
			r.format, r.path, r.body = usage.Anthropic, "/v1/messages", fmt.Sprintf(`{"model":%q,"max_tokens":5,"system":%q,"messages":[{"role":"user","content":%q}]}`, model, head, tail)
		case 5:
			ids := make([]string, 300+100*rng.IntN(4))
			for i := range ids {
				ids[i] = fmt.Sprint(topic*1000 + i)
			}
			r.path, r.body = "/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":[%s]}`, model, strings.Join(ids, ","))
		case 6:
			image := base64.StdEncoding.EncodeToString([]byte(words(topic, 50)))
			r.path, r.body = "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":[{"type":"text","text":%q},{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}]}`, model, head, image)
		case 7:
			r.path, r.contentType = "/v1/audio/transcriptions", "multipart/form-data; boundary=x"
			r.body = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + tail + "\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n--x--\r\n"
		case 8:
			r.path, r.body = "/v1/embeddings", fmt.Sprintf(`{"model":%q,"input":%q}`, []string{model, "unknown"}[rng.IntN(2)], tail)
		}
		all = append(all, r)
	}
	return all
}

// cachingEngine answers with the usage of an engine that keeps the prompts it has seen.
type cachingEngine struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (e *cachingEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	total, cached := len(body)/4, 0
	for end := 200; end <= len(body); end += 200 {
		if key := string(body[:end]); e.seen[key] {
			cached = end / 4 / 16 * 16
		} else {
			e.seen[key] = true
		}
	}
	e.mu.Unlock()
	chat := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":3,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, total, total+3, cached)
	input := fmt.Sprintf(`{"input_tokens":%d,"output_tokens":3,"total_tokens":%d,"input_tokens_details":{"cached_tokens":%d}}`, total, total+3, cached)
	switch {
	case bytes.Contains(body, []byte(`"stream":true`)):
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")
		io.WriteString(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":"+chat+"}\n\ndata: [DONE]\n\n")
	case strings.HasSuffix(r.URL.Path, "/v1/responses"):
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"r","object":"response","output":[],"usage":`+input+`}`)
	case strings.HasSuffix(r.URL.Path, "/v1/messages"):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"type":"message","content":[],"usage":{"input_tokens":%d,"output_tokens":3,"cache_read_input_tokens":%d}}`, total-cached, cached)
	default:
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"object":"chat.completion","choices":[],"usage":`+chat+`}`)
	}
}

// serveEngines starts the engines of a fleet.
func serveEngines(t *testing.T, n *memhttp.Network) {
	t.Helper()
	for _, addr := range []string{"b1:8000", "b2:8000", "b3:8000"} {
		e := &cachingEngine{seen: make(map[string]bool)}
		server, err := n.Serve(addr, e)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
	}
}

// The proxy and the service send the same traffic to the same backends for the same
// reasons, and learn the same from it: their records differ in nothing but whose they are.
func TestParityWithTheProxy(t *testing.T) {
	for _, strategy := range router.Strategies() {
		t.Run(strategy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := router.DefaultConfig()
				config.Strategy = strategy
				traffic := mixedTraffic(200)
				proxied, routed := playProxy(t, config, traffic), playService(t, config, traffic)
				reasons := make(map[string]int)
				hits := 0
				for i := range traffic {
					proxied[i].Events = 0 // the service sees no streams go by
					if diff := cmp.Diff(proxied[i], routed[i]); diff != "" {
						t.Fatalf("request %d, %s (-proxy +service):\n%s", i, traffic[i].path, diff)
					}
					reasons[routed[i].Reason]++
					if routed[i].Usage.Cached > 0 {
						hits++
					}
				}
				if strategy == router.PrefixAware && (reasons["longest_match"] < 20 || reasons["no_match"] < 20 || reasons["no_prefix"] < 10 || hits < 20) {
					t.Errorf("the traffic shows little: %v, %d hits", reasons, hits)
				}
			})
		})
	}
}

// common drops from a record what only tells the surfaces apart.
func common(r feedback.Record) feedback.Record {
	r.RequestID, r.Dialect, r.Err, r.ResponseBytes = "", "", "", 0
	if r.Result != feedback.Success {
		r.Status = 0 // a refusal has another shape
		r.Route = ""
	}
	return r
}

func playProxy(t *testing.T, config router.Config, traffic []mixedRequest) []feedback.Record {
	t.Helper()
	network := memhttp.NewNetwork()
	serveEngines(t, network)
	carrier := transport.New(transport.Config{DialContext: network.DialContext})
	defer carrier.Close()
	var records []feedback.Record
	p, err := proxy.New(proxy.Options{
		Router: newRouter(t, config), Transport: carrier, Random: func() uint64 { return 7 },
		Observe: func(r *feedback.Record) {
			copied := *r
			copied.Keys = slices.Clone(r.Keys)
			records = append(records, common(copied))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	openai.Register(mux, p)
	anthropic.Register(mux, p)
	server, err := network.Serve(routerAddr, mux)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for i, r := range traffic {
		send(t, network, "http://"+routerAddr+r.path, []byte(r.body), r, nil)
		synctest.Wait()
		if len(records) != i+1 {
			t.Fatalf("%d records of %d requests", len(records), i+1)
		}
	}
	return records
}

func playService(t *testing.T, config router.Config, traffic []mixedRequest) []feedback.Record {
	t.Helper()
	w := newWorld(t, func(s *setup) { s.config = config })
	serveEngines(t, w.network)
	for _, r := range traffic {
		p := original(r.path, []byte(r.body))
		p.GetOriginal().ContentType = r.contentType
		d, err := w.client().Route(t.Context(), &v1.RouteRequest{Prompt: p, TenantId: r.tenant})
		if err != nil {
			continue // recorded all the same
		}
		body := []byte(r.body)
		if d.GetRewriteModel() {
			if body, err = prompt.SetModel(body, d.GetModel()); err != nil {
				t.Fatal(err)
			}
		}
		tap := send(t, w.network, d.GetTarget().GetUrl()+r.path, body, r, d.GetTarget().GetHeaders())
		u := tap.Usage()
		report := &v1.ReportRequest{DecisionId: d.GetDecisionId(), Outcome: v1.Outcome_OUTCOME_ANSWERED, Status: 200, Usage: &v1.Usage{
			PromptTokens: new(uint32(u.Prompt)), CachedTokens: new(uint32(u.Cached)), OutputTokens: new(uint32(u.Completion)), //nolint:gosec // small
		}}
		if tap.Started() {
			report.Ttft = durationpb.New(time.Nanosecond)
		}
		w.report(report)
	}
	records := w.recorded()
	for i := range records {
		if records[i].TTFT == 1 { // nothing takes time here, and 0 would be no first token
			records[i].TTFT = 0
		}
		records[i] = common(records[i])
	}
	return records
}

// send sends a request and reads what its answer reports.
func send(t *testing.T, n *memhttp.Network, url string, body []byte, r mixedRequest, headers map[string]string) *usage.Tap {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", r.contentType)
	if r.tenant != "" {
		req.Header.Set("X-Amzn-SageMaker-Prefix-Aware-Id", r.tenant)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := n.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	tap := usage.NewTap(r.format, resp.Header.Get("Content-Type"))
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	tap.Write(text)
	tap.Close()
	return tap
}
