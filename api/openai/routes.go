package openai

import (
	"net/http"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/feedback/usage"
)

// Calls are the endpoints that are forwarded, all of them POST, those about stored answers
// aside.
func Calls() []proxy.Call {
	var (
		plain     dialect
		responses responsesDialect
	)
	all := []proxy.Call{
		{Route: "/v1/chat/completions", Dialect: plain, Kind: prompt.Chat, Format: usage.OpenAI, InjectUsage: true},
		{Route: "/v1/chat/completions/batch", Dialect: plain, Kind: prompt.Chat, Format: usage.OpenAI},
		{Route: "/v1/completions", Dialect: plain, Kind: prompt.Completions, Format: usage.OpenAI, InjectUsage: true},
		{Route: "/v1/responses", Dialect: responses, Kind: prompt.Responses, Format: usage.Responses, Stores: true},
		{Route: "/v1/embeddings", Dialect: plain, Kind: prompt.Embeddings, Format: usage.OpenAI},
		{Route: "/v1/audio/transcriptions", Dialect: plain, Kind: prompt.Opaque, Format: usage.OpenAI},
		{Route: "/v1/audio/translations", Dialect: plain, Kind: prompt.Opaque, Format: usage.OpenAI},
	}
	// What vLLM has beside OpenAI's API. It leaves no prefix behind and goes by load.
	for _, route := range []string{
		"/tokenize", "/detokenize", "/pooling", "/classify",
		"/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score",
	} {
		all = append(all, proxy.Call{Route: route, Dialect: plain, Kind: prompt.Embeddings, Format: usage.OpenAI, ModelOptional: true})
	}
	return all
}

// Register adds the endpoints of this dialect to mux, and what answers paths that
// nobody has.
func Register(mux *http.ServeMux, p *proxy.Proxy) {
	methods := make(map[string][]string) // by path
	add := func(method, path string, h http.Handler) {
		mux.Handle(method+" "+path, h)
		methods[path] = append(methods[path], method)
	}
	for _, call := range Calls() {
		add(http.MethodPost, call.Route, p.Handler(call))
	}
	stored := proxy.Call{
		Route: "/v1/responses/{id}", Dialect: responsesDialect{}, Format: usage.Responses,
		StoredID: func(r *http.Request) string { return r.PathValue("id") },
	}
	add(http.MethodGet, stored.Route, p.Handler(stored))
	add(http.MethodDelete, stored.Route, p.Handler(stored))
	stored.Route += "/cancel"
	add(http.MethodPost, stored.Route, p.Handler(stored))

	add(http.MethodGet, "/v1/models", p.AnswerTo("/v1/models", dialect{}, listModels(p.Router())))
	add(http.MethodGet, "/v1/models/{id...}", p.AnswerTo("/v1/models/{id}", dialect{}, getModel(p.Router())))
	add(http.MethodGet, "/v1/realtime", p.Answer("/v1/realtime", dialect{}, noRealtime))
	for _, path := range []string{"/health", "/ping"} {
		add(http.MethodGet, path, p.Open(path, dialect{}, alive(p)))
	}
	for path, allowed := range methods {
		mux.Handle(path, p.Answer(route(path), dialect{}, otherMethod(allowed)))
	}
	mux.Handle("/", NotFound(p))
}

// NotFound returns what answers paths that nobody has.
func NotFound(p *proxy.Proxy) http.Handler { return p.Answer("other", dialect{}, unknownPath) }

// route is how records name a path.
func route(path string) string { return strings.ReplaceAll(path, "...}", "}") }

// otherMethod answers a path asked with a method that it does not have.
func otherMethod(allowed []string) func(http.ResponseWriter, *http.Request) *proxy.Error {
	allowed = slices.Clone(allowed)
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	allowed = append(allowed, http.MethodOptions)
	slices.Sort(allowed)
	return func(w http.ResponseWriter, r *http.Request) *proxy.Error {
		if r.Method == http.MethodOptions {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return &proxy.Error{
			Status: http.StatusMethodNotAllowed, Code: proxy.CodeMethodNotAllowed, Allow: allowed,
			Message: "this path does not have that method: it has " + strings.Join(allowed, ", "),
		}
	}
}

func unknownPath(_ http.ResponseWriter, _ *http.Request) *proxy.Error {
	return &proxy.Error{Status: http.StatusNotFound, Code: proxy.CodeNotFound, Message: "there is nothing at this path"}
}

func noRealtime(_ http.ResponseWriter, _ *http.Request) *proxy.Error {
	return &proxy.Error{
		Status: http.StatusNotImplemented, Code: proxy.CodeNotImplemented,
		Message: "realtime sessions are not routed: connect to an engine",
	}
}

// alive answers that the router is there, or will not be for long.
func alive(p *proxy.Proxy) func(http.ResponseWriter, *http.Request) *proxy.Error {
	return func(w http.ResponseWriter, _ *http.Request) *proxy.Error {
		if p.Stopping() {
			return &proxy.Error{Status: http.StatusServiceUnavailable, Code: proxy.CodeNotReady, Message: "the router is stopping: ask another one"}
		}
		w.WriteHeader(http.StatusOK)
		return nil
	}
}
