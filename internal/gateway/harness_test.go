package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/backends/discovery"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/memhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a small double: it serves the model m and streams a token each second
// for as long as max_tokens says.
type engine struct {
	mu        sync.Mutex
	requests  int
	cancelled int
}

func (e *engine) counts() (requests, cancelled int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requests, e.cancelled
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model","max_model_len":4096}]}`)
		return
	}
	var body struct {
		MaxTokens int  `json:"max_tokens"`
		Stream    bool `json:"stream"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	e.requests++
	e.mu.Unlock()
	if !body.Stream {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"x","object":"chat.completion","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":1,"total_tokens":101,"prompt_tokens_details":{"cached_tokens":64}}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range body.MaxTokens {
		select {
		case <-r.Context().Done():
			e.mu.Lock()
			e.cancelled++
			e.mu.Unlock()
			return
		case <-time.After(time.Second):
		}
		io.WriteString(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")
		http.NewResponseController(w).Flush()
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// stack is a gateway that runs on a network in memory, with its engines.
type stack struct {
	*Gateway

	t       *testing.T
	network *memhttp.Network
	engines map[string]*memhttp.Server
	log     *syncBuffer
	cancel  context.CancelFunc
	ended   chan error
}

const (
	dataAddr  = "router:8080"
	adminAddr = "localhost:9090"
)

// start runs a gateway over engines at addresses. Everything is closed when the test
// ends, or by stop.
func start(t *testing.T, configure func(*config.Config), engines map[string]http.Handler) *stack {
	t.Helper()
	return startWith(t, configure, engines, nil)
}

// startWith is start with other backends than all engines, where sources says so.
func startWith(t *testing.T, configure func(*config.Config), engines map[string]http.Handler, sources func(*config.Pool) ([]discovery.Named, error)) *stack {
	t.Helper()
	s := &stack{t: t, network: memhttp.NewNetwork(), engines: make(map[string]*memhttp.Server), log: new(syncBuffer), ended: make(chan error, 1)}
	var urls []string
	for addr, h := range engines {
		server, err := s.network.Serve(addr, h)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		s.engines[addr] = server
		urls = append(urls, server.URL())
	}
	c, _, err := config.FromBackends(urls)
	if err != nil {
		t.Fatal(err)
	}
	if configure != nil {
		configure(c)
	}
	data, err := s.network.Listen(dataAddr)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := s.network.Listen(adminAddr)
	if err != nil {
		t.Fatal(err)
	}
	s.Gateway, err = New(Options{
		Config: c, Version: "v9", Seed: 1,
		Logger:   slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Listener: data, AdminListener: admin, DialContext: s.network.DialContext,
		sources: sources,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	go func() { s.ended <- s.Run(ctx) }()
	t.Cleanup(s.stop)
	return s
}

// stop ends the gateway and waits for it. It may be called again.
func (s *stack) stop() {
	s.cancel()
	if err, open := <-s.ended; open && err != nil {
		s.t.Errorf("Run: %v", err)
	}
	select {
	case <-s.ended:
	default:
		close(s.ended)
	}
}

// request sends a request and returns status, headers and body.
func (s *stack) request(method, url, body string, header ...string) (int, http.Header, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.network.Client().Do(req)
	if err != nil {
		s.t.Errorf("%s %s: %v", method, url, err)
		return 0, nil, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, resp.Header, string(text) + " BROKEN OFF"
	}
	return resp.StatusCode, resp.Header, string(text)
}

func (s *stack) admin(path string) (int, string) {
	s.t.Helper()
	status, _, body := s.request(http.MethodGet, "http://"+adminAddr+path, "")
	return status, body
}

// chat sends a chat request for model m.
func (s *stack) chat(prompt string, more string, header ...string) (int, http.Header, string) {
	s.t.Helper()
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]%s}`, prompt, more)
	return s.request(http.MethodPost, "http://"+dataAddr+"/v1/chat/completions", body, append(header, "Content-Type", "application/json")...)
}

// records returns the access records logged so far.
func (s *stack) records() []map[string]any {
	var all []map[string]any
	for line := range strings.Lines(s.log.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			s.t.Errorf("not a JSON line: %s", line)
		}
		if r["msg"] == "request" {
			all = append(all, r)
		}
	}
	return all
}

// longPrompt is a prompt of a few dozen blocks.
func longPrompt(name string) string { return name + strings.Repeat(" the quick brown fox", 500) }
