package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/api/anthropic"
	"github.com/warmroute/warmroute/api/openai"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// TestMain fails where a goroutine is left. A connection that was still being dialled for a
// request that gave up closes by itself once it has been unused for a while, so there is
// time for that.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for deadline := time.Now().Add(2 * transport.DefaultConfig().IdleConn); err != nil && time.Now().Before(deadline); {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// model is what the engines of these tests serve.
const model = "m"

// patience is how long a test waits for what must happen at once. Nothing depends on
// how long it really takes.
const patience = 20 * time.Second

// setup is what a test may change before the router starts.
type setup struct {
	options   proxy.Options
	transport transport.Config
	config    router.Config
	ejection  backends.Ejection
	models    []router.ModelSpec
	hooks     router.Hooks
	wrap      func(http.Handler) http.Handler
}

// fleet is a router in front of some engines.
type fleet struct {
	t      testing.TB
	url    string
	client *http.Client
	router *router.Router
	pool   *router.Pool
	proxy  *proxy.Proxy
	log    *logBuffer

	mu      sync.Mutex
	records []*feedback.Record
	arrived chan struct{} // closed and replaced with every record
}

// engine starts a scripted engine on a real socket.
func engine(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// start starts a router over engines.
func start(t testing.TB, urls []string, change ...func(*setup)) *fleet {
	t.Helper()
	f := prepare(t, urls, change...)
	server := httptest.NewUnstartedServer(f.handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(f.log, nil), slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	f.url = server.URL
	f.client = server.Client()
	f.client.Transport.(*http.Transport).DisableCompression = true
	return f.fleet
}

type prepared struct {
	*fleet
	handler http.Handler
}

// prepare builds a router without a listener.
func prepare(t testing.TB, urls []string, change ...func(*setup)) prepared {
	t.Helper()
	f := &fleet{t: t, log: new(logBuffer), arrived: make(chan struct{})}
	s := setup{
		options: proxy.Options{
			InjectUsage: true, DecisionHeaders: true, ForwardCredentials: true,
			Observe: f.observe,
			Logger:  slog.New(slog.NewTextHandler(f.log, nil)),
		},
		config:   router.DefaultConfig(),
		ejection: backends.DefaultEjection(),
		models:   []router.ModelSpec{{Name: model}, {Name: "alias-of-m", Served: "served"}},
	}
	for _, c := range change {
		c(&s)
	}
	f.router = router.New(router.Options{Hooks: s.hooks})
	spec := router.PoolSpec{Name: "pool", Models: s.models, Config: s.config, Ejection: s.ejection}
	for _, u := range urls {
		spec.Backends = append(spec.Backends, backends.Spec{URL: u, Rank: backends.NoRank})
	}
	pool, err := f.router.AddPool(spec)
	if err != nil {
		t.Fatal(err)
	}
	f.pool = pool
	carrier := transport.New(s.transport)
	t.Cleanup(carrier.Close)
	s.options.Router, s.options.Transport = f.router, carrier
	if f.proxy, err = proxy.New(s.options); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	openai.Register(mux, f.proxy)
	anthropic.Register(mux, f.proxy)
	var h http.Handler = mux
	if s.wrap != nil {
		h = s.wrap(h)
	}
	return prepared{f, h}
}

func (f *fleet) observe(r *feedback.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = append(f.records, r)
	close(f.arrived)
	f.arrived = make(chan struct{})
}

// await waits until n requests have been recorded and returns all records.
func (f *fleet) await(n int) []*feedback.Record {
	f.t.Helper()
	timeout := time.After(patience)
	for {
		f.mu.Lock()
		records, arrived := f.records, f.arrived
		f.mu.Unlock()
		if len(records) >= n {
			return records
		}
		select {
		case <-arrived:
		case <-timeout:
			f.t.Fatalf("%d requests recorded, want %d", len(records), n)
		}
	}
}

// last waits for the nth record and returns it.
func (f *fleet) last(n int) *feedback.Record {
	f.t.Helper()
	return f.await(n)[n-1]
}

// settled checks that nothing is held once n requests have been recorded.
func (f *fleet) settled(n int) {
	f.t.Helper()
	if got := len(f.await(n)); got != n {
		f.t.Errorf("%d requests recorded, want %d", got, n)
	}
	for _, b := range f.pool.Backends() {
		if held := b.InFlight(); held != 0 {
			f.t.Errorf("backend %s has %d in flight at the end", b.ID, held)
		}
	}
	if held := f.proxy.Bodies().Held(); held != 0 {
		f.t.Errorf("%d bytes of bodies are held at the end", held)
	}
}

// answer is an answer that was read to its end.
type answer struct {
	*http.Response
	body string
	err  error // of reading the body
}

// send sends a request with a body.
func (f *fleet) send(method, path, body string, headers ...string) answer {
	f.t.Helper()
	req := f.request(f.t.Context(), method, path, strings.NewReader(body), headers...)
	return f.do(req)
}

func (f *fleet) request(ctx context.Context, method, path string, body io.Reader, headers ...string) *http.Request {
	f.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, f.url+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
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

const chatPath = "/v1/chat/completions"

// chat returns the body of a chat request.
func chat(text string, more ...string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, model, text, strings.Join(more, ""))
}

const streaming = `,"stream":true`

// whole is the answer of an engine that works.
const whole = `{"id":"chatcmpl-1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":2,"total_tokens":102,"prompt_tokens_details":{"cached_tokens":64}}}`

func writeWhole(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, whole)
}

// The events of a chat stream.
const (
	delta      = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}` + "\n\n"
	finish     = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usageChunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":2,"total_tokens":102,"prompt_tokens_details":{"cached_tokens":64}}}` + "\n\n"
	done       = "data: [DONE]\n\n"
)

func startEvents(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	flush(w)
}

func flush(w http.ResponseWriter) { http.NewResponseController(w).Flush() }

func events(w http.ResponseWriter, texts ...string) {
	for _, text := range texts {
		io.WriteString(w, text)
		flush(w)
	}
}

// reset ends a handler's connection with a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// logBuffer collects what is logged.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
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

func waitFor(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: nothing happened", what)
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

// gate is closed by a test to let an engine go on.
type gate chan struct{}

func newGate(t testing.TB) gate {
	g := make(gate)
	t.Cleanup(g.open) // before the engines are closed
	return g
}

func (g gate) open() {
	select {
	case <-g:
	default:
		close(g)
	}
}
