package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
)

// maxBodyBytes bounds a request body.
const maxBodyBytes = 256 << 20

// Server is a vLLM-like HTTP server over engine models. It is an
// [http.Handler]; [Server.Run] must run for generation requests to be answered.
type Server struct {
	cfg       Config
	fleet     *fleet
	faults    *faults
	mux       *http.ServeMux
	era       era
	maxTokens int
	blockSize int
	ids       atomic.Uint64
}

// New returns a server with empty caches. Model time begins now.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("enginesim: %w", err)
	}
	cfg = cfg.withDefaults()
	model, err := cfg.engine()
	if err != nil {
		return nil, fmt.Errorf("enginesim: %w", err)
	}
	shown, err := parseEra(cfg.MetricsGeneration)
	if err != nil {
		return nil, fmt.Errorf("enginesim: %w", err)
	}
	fleet, err := newFleet(model, cfg.Engines, cfg.Speed)
	if err != nil {
		return nil, fmt.Errorf("enginesim: %w", err)
	}
	s := &Server{
		cfg:       cfg,
		fleet:     fleet,
		faults:    newFaults(),
		mux:       http.NewServeMux(),
		era:       shown,
		maxTokens: fleet.engines[0].MaxTokens(),
		blockSize: fleet.engines[0].BlockSize(),
	}
	s.routes()
	return s, nil
}

// Run lets model time follow the clock until ctx ends. Requests that are under
// way then are answered 503 or cut off, as are all later ones. It returns an
// error only when it has run before.
func (s *Server) Run(ctx context.Context) error { return s.fleet.run(ctx) }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) routes() {
	for path, handler := range map[string]http.HandlerFunc{
		"POST /v1/chat/completions":      s.generation(s.handleChat, writeError),
		"POST /v1/completions":           s.generation(s.handleCompletions, writeError),
		"POST /v1/responses":             s.generation(s.handleResponses, writeError),
		"POST /v1/messages":              s.generation(s.handleMessages, writeAnthropicError),
		"POST /v1/embeddings":            s.generation(s.handleEmbeddings, writeError),
		"POST /invocations":              s.generation(s.handleInvocations, writeError),
		"POST /v1/messages/count_tokens": s.handleCountTokens,
		"POST /tokenize":                 s.handleTokenize,
		"GET /v1/models":                 s.handleModels,
		"GET /health":                    s.handleHealth,
		"GET /ping":                      s.handleHealth,
		"POST /ping":                     s.handleHealth,
		"GET /load":                      s.handleLoad,
		"GET /version":                   s.handleVersion,
		"GET /metrics":                   s.handleMetrics,
		"POST /reset_prefix_cache":       s.handleReset,
		"POST /sleep":                    s.handleSleep,
		"POST /wake_up":                  s.handleWake,
		"GET /is_sleeping":               s.handleIsSleeping,
		"POST /sim/fault":                s.handleFault,
		"GET /sim/state":                 s.handleState,
	} {
		s.mux.HandleFunc(path, handler)
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
	})
}

// generation wraps the handler of a route that generates: faults come first,
// and the errors it returns are written in its dialect.
func (s *Server) generation(
	handle func(http.ResponseWriter, *http.Request) *apiError, writeErr func(http.ResponseWriter, *apiError),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, retryAfter, release := s.faults.next()
		if status != 0 {
			refuse(w, status, retryAfter, writeErr)
			return
		}
		life := s.fleet.current()
		r, cancel := during(life, r)
		defer cancel()
		if release != nil && !hang(w, r, release) {
			life.breakOff(w)
			return
		}
		err := handle(w, r)
		if life.breakOff(w) {
			return
		}
		if s.cfg.Logger.Enabled(r.Context(), slog.LevelDebug) {
			status := http.StatusOK
			if err != nil {
				status = err.status
			}
			s.cfg.Logger.LogAttrs(r.Context(), slog.LevelDebug, "request",
				slog.String("path", r.URL.Path), slog.Int("status", status))
		}
		if err != nil {
			writeErr(w, err)
		}
	}
}

// during returns a request that is cancelled when a life ends, too. The function
// must be called when it was answered.
func during(life *life, r *http.Request) (*http.Request, func()) {
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), lifeKey{}, life))
	go func() {
		select {
		case <-life.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	return r.WithContext(ctx), cancel
}

// breakOff resets the connection of a request if its life is over, as the end of a
// process does, and reports whether it is.
func (l *life) breakOff(w http.ResponseWriter) bool {
	select {
	case <-l.over:
		reset(http.NewResponseController(w))
		return true
	default:
		return false
	}
}

// hang holds a request up until it is released, and reports false if its client
// left before. The body is read first: only then does net/http notice that.
func hang(w http.ResponseWriter, r *http.Request, release <-chan struct{}) bool {
	data, err := readBody(w, r)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	select {
	case <-release:
		return true
	case <-r.Context().Done():
		return false
	}
}

// readBody reads a whole request body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *apiError) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &apiError{
			status: http.StatusRequestEntityTooLarge, kind: "BadRequestError",
			message: fmt.Sprintf("request body is larger than %d bytes", maxBodyBytes),
		}
	}
	if err != nil {
		return nil, invalidBody("reading request body: " + err.Error())
	}
	return data, nil
}

// decode reads a JSON request.
func decode(w http.ResponseWriter, r *http.Request, into any) *apiError {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return invalidBody("Unsupported Media Type: Only 'application/json' is allowed")
	}
	data, apiErr := readBody(w, r)
	if apiErr != nil {
		return apiErr
	}
	if err := json.Unmarshal(data, into); err != nil {
		return invalidBody("JSON decode error: " + err.Error())
	}
	return nil
}

// checkModel returns the served name that a request means; empty means the
// first.
func (s *Server) checkModel(name string) (string, *apiError) {
	if name == "" {
		return s.cfg.Model[0], nil
	}
	if !slices.Contains(s.cfg.Model, name) {
		return "", unknownModel(name)
	}
	return name, nil
}

// nextID returns an id that no earlier request had.
func (s *Server) nextID() string {
	n := s.ids.Add(1)
	return fmt.Sprintf("%016x%016x", s.cfg.Seed*0x9e3779b97f4a7c15, n)
}

// requestID returns the id of a request: the client's, or a new one.
func (s *Server) requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" {
		return id
	}
	return s.nextID()
}

// ended turns the error that a generation ended with into the answer of a
// request. A client that has gone gets none.
func ended(err error) *apiError {
	switch {
	case errors.Is(err, errStopped):
		return &apiError{status: http.StatusServiceUnavailable, kind: "ServiceUnavailableError", message: err.Error()}
	case errors.Is(err, errInjected):
		return &apiError{status: http.StatusInternalServerError, kind: "InternalServerError", message: err.Error()}
	}
	return &apiError{status: statusClientGone, kind: "ClientDisconnected", message: err.Error()}
}

// statusClientGone is written to nobody; it shows in logs.
const statusClientGone = 499

// positive checks a token limit.
func positive(name string, value *int) (int, *apiError) {
	if value == nil {
		return 0, nil
	}
	if *value < 1 {
		return 0, badRequest(name+" must be at least 1, got "+strconv.Itoa(*value)+".", name)
	}
	return *value, nil
}
