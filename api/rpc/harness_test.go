package rpc_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/api/anthropic"
	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/api/openai"
	"github.com/warmroute/warmroute/api/rpc"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/memhttp"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
	"github.com/warmroute/warmroute/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup is what a test may change before the service starts.
type setup struct {
	options rpc.Options
	config  router.Config
	budget  int64
	// requests is what advice rests on.
	requests *recent.Store
}

// world is a routing service over a pool of three backends, of which one is a
// data-parallel rank. The model "m" is known as "alias" too; "lora" is an adapter.
type world struct {
	t       testing.TB
	router  *router.Router
	pool    *router.Pool
	service *rpc.Service
	network *memhttp.Network
	bodies  *intake.Budget

	mu      sync.Mutex
	records []feedback.Record
}

const routerAddr = "router:8080"

func newWorld(t testing.TB, change ...func(*setup)) *world {
	t.Helper()
	s := setup{config: router.DefaultConfig(), budget: 1 << 30}
	for _, c := range change {
		c(&s)
	}
	w := &world{t: t, router: newRouter(t, s.config), network: memhttp.NewNetwork(), bodies: intake.NewBudget(s.budget)}
	w.pool = w.router.Find("pool")
	s.options.Router, s.options.Bodies = w.router, w.bodies
	s.options.Calls = slices.Concat(openai.Calls(), anthropic.Calls())
	if s.options.Observe == nil {
		s.options.Observe = w.observe
	}
	s.options.Random = func() uint64 { return 7 }
	var err error
	if w.service, err = rpc.New(s.options); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	w.service.Register(mux)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server, err := w.network.Start(routerAddr, &http.Server{Handler: mux, Protocols: protocols}) //nolint:gosec // a network in memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.service.Close()
		server.Close()
	})
	return w
}

func newRouter(t testing.TB, config router.Config) *router.Router {
	t.Helper()
	r := router.New(router.Options{Seed: 1, Epoch: time.Now()})
	_, err := r.AddPool(router.PoolSpec{
		Name: "pool", Config: config, Ejection: backends.DefaultEjection(),
		Models: []router.ModelSpec{{Name: "m"}, {Name: "alias", Served: "served"}, {Name: "lora"}},
		Backends: []backends.Spec{
			{URL: "http://b1:8000", Rank: backends.NoRank}, {URL: "http://b2:8000", Rank: 1}, {URL: "http://b3:8000/base", Rank: backends.NoRank},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) observe(r *feedback.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	copied := *r
	copied.Keys = slices.Clone(r.Keys)
	w.records = append(w.records, copied)
}

// recorded returns the records so far.
func (w *world) recorded() []feedback.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.records)
}

// client returns a client over HTTP/1.1, or HTTP/2 where the protocol is gRPC.
func (w *world) client(options ...connect.ClientOption) warmroutev1connect.RoutingServiceClient {
	return warmroutev1connect.NewRoutingServiceClient(w.http(false), "http://"+routerAddr, options...)
}

func (w *world) http(http2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	carrier := &http.Transport{DialContext: w.network.DialContext, Protocols: protocols}
	w.t.Cleanup(carrier.CloseIdleConnections)
	return &http.Client{Transport: carrier}
}

// inFlight is how many requests all backends have in flight.
func (w *world) inFlight() int {
	sum := 0
	for _, s := range w.pool.Status(time.Now()) {
		sum += s.InFlight
	}
	return sum
}

// blocks is how many blocks all backends are thought to hold.
func (w *world) blocks() int {
	sum := 0
	for _, s := range w.pool.Status(time.Now()) {
		sum += s.Index.Blocks
	}
	return sum
}

// route asks for a decision, which must come.
func (w *world) route(in *v1.RouteRequest) *v1.RouteResponse {
	w.t.Helper()
	out, err := w.service.Route(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// report reports, without an error.
func (w *world) report(in *v1.ReportRequest) *v1.ReportResponse {
	w.t.Helper()
	out, err := w.service.Report(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// chatBody is a chat request of about 12 KiB that begins with a name.
func chatBody(model, name string) []byte {
	return fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, name+strings.Repeat(" the quick brown fox", 600))
}

func chat(model, name string) *v1.Prompt {
	return original("/v1/chat/completions", chatBody(model, name))
}

// short is a prompt of a few blocks that begins with a name.
func short(name string) *v1.Prompt {
	return &v1.Prompt{Model: "m", Content: &v1.Prompt_Text{Text: name + strings.Repeat(" jumps over the lazy dog", 40)}}
}

func original(path string, body []byte) *v1.Prompt {
	return &v1.Prompt{Content: &v1.Prompt_Original{Original: &v1.OriginalRequest{Path: path, Body: body}}}
}

func ask(p *v1.Prompt) *v1.RouteRequest { return &v1.RouteRequest{Prompt: p} }

// codeOf is an error's code, 0 for none.
func codeOf(err error) connect.Code {
	if err == nil {
		return 0
	}
	return connect.CodeOf(err)
}
