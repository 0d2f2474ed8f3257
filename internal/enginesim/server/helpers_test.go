package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/internal/enginesim/server"
	"github.com/warmroute/warmroute/internal/memhttp"
)

// manual is a long head for prompts, about 1,300 tokens.
var manual = strings.Repeat("Every question comes with all of the manual before it, and nothing in it ever changes. ", 80)

// sim is a server under test and a client of it.
type sim struct {
	t      *testing.T
	url    string
	client *http.Client
}

// fastConfig answers real-socket tests quickly.
func fastConfig() server.Config {
	cfg := server.DefaultConfig()
	cfg.Speed = 200
	return cfg
}

// listen starts a server on a real socket.
func listen(t *testing.T, cfg server.Config) *sim {
	t.Helper()
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	web := httptest.NewServer(srv)
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		web.Close()
	})
	return &sim{t: t, url: web.URL, client: web.Client()}
}

// inBubble starts a server in memory, for use inside a synctest bubble.
func inBubble(t *testing.T, cfg server.Config) *sim {
	t.Helper()
	return serveInMemory(t, running(t, cfg))
}

// running returns a server that follows the clock until the test ends.
func running(t *testing.T, cfg server.Config) *server.Server {
	t.Helper()
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return srv
}

// serveInMemory serves without a socket.
func serveInMemory(t *testing.T, srv *server.Server) *sim {
	t.Helper()
	network := memhttp.NewNetwork()
	web, err := network.Serve("sim:8000", srv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := web.Close(); err != nil {
			t.Error(err)
		}
	})
	return &sim{t: t, url: web.URL(), client: network.Client()}
}

// object is any JSON object.
type object = map[string]any

// at returns the value under keys and indices, or nil.
func at(v any, path ...any) any {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			m, _ := v.(object)
			v = m[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil
			}
			v = list[key]
		}
	}
	return v
}

// send posts a body and returns the response, which the caller closes.
func (s *sim) send(ctx context.Context, path string, body any, headers ...string) (*http.Response, error) {
	var reader io.Reader
	switch b := body.(type) {
	case string:
		reader = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			s.t.Fatal(err)
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, reader)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return s.client.Do(req)
}

// post posts a body and returns the status and the JSON that comes back.
func (s *sim) post(path string, body any, headers ...string) (int, object) {
	s.t.Helper()
	resp, err := s.send(s.t.Context(), path, body, headers...)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.read(resp)
}

// ok is post where the status must be 200.
func (s *sim) ok(path string, body any, headers ...string) object {
	s.t.Helper()
	status, out := s.post(path, body, headers...)
	if status != http.StatusOK {
		s.t.Fatalf("POST %s: status %d: %v", path, status, out)
	}
	return out
}

func (s *sim) get(path string) (int, object) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.read(resp)
}

func (s *sim) read(resp *http.Response) (int, object) {
	s.t.Helper()
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var out object
	if len(data) > 0 {
		if err := json.Unmarshal(data, &out); err != nil {
			s.t.Fatalf("body %.200q: %v", data, err)
		}
	}
	return resp.StatusCode, out
}

// state returns a number of GET /sim/state.
func (s *sim) state(path ...any) float64 {
	s.t.Helper()
	_, state := s.get("/sim/state")
	n, ok := at(state, path...).(float64)
	if !ok {
		s.t.Fatalf("state has no number at %v: %v", path, state)
	}
	return n
}

// event is one server-sent event.
type event struct {
	name string
	raw  string
	data object // nil for [DONE]
}

// readEvents reads a stream to its end. The error is that of the connection.
func readEvents(t *testing.T, body io.Reader) ([]event, error) {
	t.Helper()
	var events []event
	var ev event
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "event: "):
			ev.name = strings.TrimPrefix(line, "event: ")
		case strings.HasPrefix(line, "data: "):
			ev.raw = strings.TrimPrefix(line, "data: ")
		case line == "":
			if ev.raw != "[DONE]" {
				if err := json.Unmarshal([]byte(ev.raw), &ev.data); err != nil {
					t.Fatalf("event %q: %v", ev.raw, err)
				}
			}
			events = append(events, ev)
			ev = event{}
		default:
			t.Fatalf("line %q is neither event, data nor blank", line)
		}
	}
}

// stream posts a body and returns all events of the answer.
func (s *sim) stream(path string, body any, headers ...string) []event {
	s.t.Helper()
	resp, err := s.send(s.t.Context(), path, body, headers...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("POST %s: status %d", path, resp.StatusCode)
	}
	if got, want := resp.Header.Get("Content-Type"), "text/event-stream; charset=utf-8"; got != want {
		s.t.Errorf("content type %q, want %q", got, want)
	}
	events, err := readEvents(s.t, resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}

// chat returns a chat request with one user message.
func chat(text string, more object) object {
	req := object{"model": "sim", "messages": []object{{"role": "user", "content": text}}, "max_tokens": 4}
	maps.Copy(req, more)
	return req
}
