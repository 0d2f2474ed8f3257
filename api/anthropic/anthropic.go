package anthropic

import (
	"encoding/json"
	"net/http"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/feedback/usage"
)

// Calls are the endpoints that are forwarded, all of them POST.
func Calls() []proxy.Call {
	return []proxy.Call{
		{Route: "/v1/messages", Dialect: dialect{}, Kind: prompt.Messages, Format: usage.Anthropic},
		// Counting leaves no prefix behind: it goes by load.
		{Route: "/v1/messages/count_tokens", Dialect: dialect{}, Kind: prompt.Embeddings},
	}
}

// Register adds the endpoints of this dialect to mux.
func Register(mux *http.ServeMux, p *proxy.Proxy) {
	for _, call := range Calls() {
		mux.Handle("POST "+call.Route, p.Handler(call))
		mux.Handle(call.Route, p.Answer(call.Route, dialect{}, otherMethod))
	}
	mux.Handle("/v1/messages/", p.Answer("other", dialect{}, unknownPath))
}

func otherMethod(w http.ResponseWriter, r *http.Request) *proxy.Error {
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", "OPTIONS, POST")
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return &proxy.Error{
		Status: http.StatusMethodNotAllowed, Code: proxy.CodeMethodNotAllowed,
		Allow:   []string{http.MethodOptions, http.MethodPost},
		Message: "this path does not have that method: it has OPTIONS, POST",
	}
}

func unknownPath(http.ResponseWriter, *http.Request) *proxy.Error {
	return &proxy.Error{Status: http.StatusNotFound, Code: proxy.CodeNotFound, Message: "there is nothing at this path"}
}

// errorBody is the error of Anthropic's API.
type errorBody struct {
	Type  string      `json:"type"`
	Error errorObject `json:"error"`
}

type errorObject struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func newErrorBody(e *proxy.Error) errorBody {
	return errorBody{Type: "error", Error: errorObject{Type: errorType(e.Status), Message: e.Message}}
}

func errorType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusNotFound:
		return "not_found_error"
	case status == http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status == http.StatusServiceUnavailable, status == 529:
		return "overloaded_error"
	case status == http.StatusGatewayTimeout:
		return "timeout_error"
	case status < http.StatusInternalServerError:
		return "invalid_request_error"
	}
	return "api_error"
}

// dialect is how clients of Anthropic's API are told of errors.
type dialect struct{}

// Name implements [proxy.Dialect].
func (dialect) Name() string { return "anthropic" }

// WriteError implements [proxy.Dialect].
func (dialect) WriteError(w http.ResponseWriter, e *proxy.Error) { e.WriteJSON(w, newErrorBody(e)) }

// StreamError implements [proxy.Dialect]: the event that ends a stream early.
func (dialect) StreamError(e *proxy.Error) []byte {
	text, err := json.Marshal(newErrorBody(e))
	if err != nil {
		return nil // these values always have a JSON form
	}
	return append(append([]byte("event: error\ndata: "), text...), "\n\n"...)
}
