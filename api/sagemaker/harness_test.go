package sagemaker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/api/sagemaker"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is what the engines of these tests serve.
const model = "m"

// patience is how long a test waits for what must happen at once.
const patience = 20 * time.Second

// engine is a scripted engine that remembers what it was sent.
type engine struct {
	url string

	mu   sync.Mutex
	seen []seen
}

// seen is a request as an engine got it.
type seen struct {
	uri    string
	header http.Header
	body   string
}

func (e *engine) last(t testing.TB) seen {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.seen) == 0 {
		t.Fatal("the engine was not asked")
	}
	return e.seen[len(e.seen)-1]
}

func (e *engine) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.seen)
}

// newEngine starts an engine on a real socket; a nil handler answers with whole.
func newEngine(t testing.TB, h http.HandlerFunc) *engine {
	t.Helper()
	if h == nil {
		h = func(w http.ResponseWriter, _ *http.Request) { writeWhole(w) }
	}
	e := new(engine)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.mu.Lock()
		e.seen = append(e.seen, seen{r.RequestURI, r.Header.Clone(), string(body)})
		e.mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	e.url = s.URL
	return e
}

// setup is what a test may change before the router starts.
type setup struct {
	options   proxy.Options
	transport transport.Config
	pools     []router.PoolSpec
	variants  []sagemaker.Variant // Pool is filled in by its place
	bodyBytes int64
}

// fleet is a router in front of some engines.
type fleet struct {
	t       testing.TB
	url     string
	client  *http.Client
	handler http.Handler
	router  *router.Router

	mu      sync.Mutex
	records []*feedback.Record
	arrived chan struct{} // closed and replaced with every record
}

// pool is a pool of engines that serve model.
func pool(name string, urls ...string) router.PoolSpec {
	spec := router.PoolSpec{
		Name: name, Models: []router.ModelSpec{{Name: model}, {Name: "alias-of-m", Served: model}}, SharesModels: true,
		Config: router.DefaultConfig(), Ejection: backends.DefaultEjection(),
	}
	for _, u := range urls {
		spec.Backends = append(spec.Backends, backends.Spec{URL: u, Rank: backends.NoRank})
	}
	return spec
}

// prepare builds a router without a listener. Without other variants, its only pool is
// the only variant, "blue", of endpoint "ep".
func prepare(t testing.TB, urls []string, change ...func(*setup)) *fleet {
	t.Helper()
	f := &fleet{t: t, arrived: make(chan struct{})}
	s := setup{
		options:   proxy.Options{InjectUsage: true, DecisionHeaders: true, ForwardCredentials: true, Observe: f.observe},
		pools:     []router.PoolSpec{pool("pool", urls...)},
		variants:  []sagemaker.Variant{{Endpoint: "ep", Name: "blue", Weight: 1}},
		bodyBytes: 1 << 20,
	}
	for _, c := range change {
		c(&s)
	}
	f.router = router.New(router.Options{})
	for i, spec := range s.pools {
		added, err := f.router.AddPool(spec)
		if err != nil {
			t.Fatal(err)
		}
		s.variants[i].Pool = added
	}
	carrier := transport.New(s.transport)
	t.Cleanup(carrier.Close)
	s.options.Router, s.options.Transport = f.router, carrier
	p, err := proxy.New(s.options)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	sagemaker.Register(mux, sagemaker.Options{Proxy: p, Variants: s.variants, BodyBytes: s.bodyBytes, Random: rand.Uint64})
	f.handler = mux
	return f
}

// start starts a router over engines.
func start(t testing.TB, urls []string, change ...func(*setup)) *fleet {
	t.Helper()
	f := prepare(t, urls, change...)
	server := httptest.NewUnstartedServer(f.handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	f.url, f.client = server.URL, server.Client()
	return f
}

func (f *fleet) observe(r *feedback.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = append(f.records, r)
	close(f.arrived)
	f.arrived = make(chan struct{})
}

// record waits for the nth record.
func (f *fleet) record(n int) *feedback.Record {
	f.t.Helper()
	timeout := time.After(patience)
	for {
		f.mu.Lock()
		records, arrived := f.records, f.arrived
		f.mu.Unlock()
		if len(records) >= n {
			return records[n-1]
		}
		select {
		case <-arrived:
		case <-timeout:
			f.t.Fatalf("%d requests recorded, want %d", len(records), n)
		}
	}
}

// idle checks that no slot is held.
func (f *fleet) idle() {
	f.t.Helper()
	for _, p := range f.router.Pools() {
		for _, b := range p.Backends() {
			if n := b.InFlight(); n != 0 {
				f.t.Errorf("backend %s has %d in flight at the end", b.ID, n)
			}
		}
	}
}

// answer is an answer that was read to its end.
type answer struct {
	*http.Response
	body string
	err  error // of reading the body
}

// problem is the body of an error.
type problem struct {
	Type               string `json:"__type"`
	Message            string
	OriginalStatusCode int
	OriginalMessage    string
	Error              struct{ Message, Type, Code string }
}

// problem checks that the answer is an error of a type as AWS's clients read it.
func (a answer) problem(t testing.TB, status int, kind string) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Errorf("%s: not JSON: %q", a.Request.URL.Path, a.body)
	}
	if a.StatusCode != status || a.Header.Get("X-Amzn-ErrorType") != kind || p.Type != kind || p.Message == "" || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: got %d %s %q (%s), want %d %s", a.Request.URL.Path, a.StatusCode, a.Header.Get("X-Amzn-ErrorType"), a.body, a.Header.Get("Content-Type"), status, kind)
	}
	if id := a.Header.Get("X-Amzn-RequestId"); id == "" || id != a.Header.Get("X-Request-Id") {
		t.Errorf("%s: request ids %q and %q", a.Request.URL.Path, id, a.Header.Get("X-Request-Id"))
	}
	return p
}

func (f *fleet) request(ctx context.Context, method, path string, body io.Reader, headers ...string) *http.Request {
	f.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, f.url+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header[http.CanonicalHeaderKey(headers[i])] = []string{headers[i+1]}
	}
	return req
}

// send posts a body.
func (f *fleet) send(path, body string, headers ...string) answer {
	f.t.Helper()
	return f.do(f.request(f.t.Context(), http.MethodPost, path, strings.NewReader(body), headers...))
}

func (f *fleet) do(req *http.Request) answer {
	f.t.Helper()
	resp, err := f.client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp, string(body), err}
}

// The paths of endpoint ep.
const (
	invoke = "/endpoints/ep/invocations"
	stream = "/endpoints/ep/invocations-response-stream"
	compat = "/endpoints/ep/openai/v1/chat/completions"
)

// chat returns the body of a chat request without a model.
func chat(text string, more ...string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]%s}`, text, strings.Join(more, ""))
}

// long is a text of some blocks.
func long(name string) string { return name + strings.Repeat(" the quick brown fox", 400) }

// whole is the answer of an engine that works.
const whole = `{"id":"chatcmpl-1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":2,"total_tokens":102,"prompt_tokens_details":{"cached_tokens":64}}}`

func writeWhole(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, whole)
}

// The events of a chat stream.
const (
	delta      = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}` + "\n\n"
	usageChunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":2,"total_tokens":102,"prompt_tokens_details":{"cached_tokens":64}}}` + "\n\n"
	done       = "data: [DONE]\n\n"
)

func startEvents(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush()
}

func events(w http.ResponseWriter, texts ...string) {
	for _, text := range texts {
		io.WriteString(w, text)
		http.NewResponseController(w).Flush()
	}
}

// hangUp ends a handler's connection in the middle of its answer.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	conn.Close()
}

// deadURL is the URL of an engine that is not there.
func deadURL(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// newServer serves a fleet with the contexts of its requests made from requests, and
// begins a stream.
func newServer(t testing.TB, f *fleet, requests context.Context) *http.Response {
	t.Helper()
	server := httptest.NewUnstartedServer(f.handler)
	server.Config.BaseContext = func(net.Listener) context.Context { return requests }
	server.Start()
	t.Cleanup(server.Close)
	f.url, f.client = server.URL, server.Client()
	resp, err := f.client.Do(f.request(t.Context(), http.MethodPost, stream, strings.NewReader(chat("hello", `,"stream":true`))))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
