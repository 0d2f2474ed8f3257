package openai

import (
	"encoding/json"
	"net/http"

	"github.com/warmroute/warmroute/api/proxy"
)

// errorObject is the error of OpenAI's API.
type errorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func newErrorObject(e *proxy.Error) errorObject {
	o := errorObject{Message: e.Message, Type: errorType(e.Status)}
	if e.Param != "" {
		o.Param = &e.Param
	}
	if code := errorCode(e.Code); code != "" {
		o.Code = &code
	}
	return o
}

func errorType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status < http.StatusInternalServerError:
		return "invalid_request_error"
	case status == http.StatusServiceUnavailable:
		return "service_unavailable_error"
	}
	return "server_error"
}

// errorCode returns the code that clients compare with, which OpenAI has for some
// errors only.
func errorCode(c proxy.Code) string {
	switch c {
	case proxy.CodeInvalidRequest:
		return ""
	case proxy.CodeSaturated, proxy.CodeRateLimited:
		return "rate_limit_exceeded"
	case proxy.CodeNotFound:
		return "not_found"
	}
	return string(c)
}

// ErrorObject returns the error object of OpenAI's API for e, for dialects whose bodies
// have more beside it.
func ErrorObject(e *proxy.Error) any { return newErrorObject(e) }

// StreamError returns the event that tells the reader of a stream of chunks that it broke
// off.
func StreamError(e *proxy.Error) []byte { return dialect{}.StreamError(e) }

type errorBody struct {
	Error errorObject `json:"error"`
}

// dialect is how clients of OpenAI's API are told of errors.
type dialect struct{}

// Name implements [proxy.Dialect].
func (dialect) Name() string { return "openai" }

// WriteError implements [proxy.Dialect].
func (dialect) WriteError(w http.ResponseWriter, e *proxy.Error) {
	e.WriteJSON(w, errorBody{newErrorObject(e)})
}

// StreamError implements [proxy.Dialect]: a chunk that is an error. The stream must
// not look finished, so no [DONE] follows.
func (dialect) StreamError(e *proxy.Error) []byte { return event("", errorBody{newErrorObject(e)}) }

// responsesDialect is the dialect of /v1/responses, whose streams end with an event
// that says how.
type responsesDialect struct{ dialect }

// failedResponse is the event response.failed.
type failedResponse struct {
	Type     string `json:"type"`
	Response struct {
		ID     string `json:"id"`
		Object string `json:"object"`
		Status string `json:"status"`
		Error  struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		Output []struct{} `json:"output"`
	} `json:"response"`
}

// StreamError implements [proxy.Dialect].
func (responsesDialect) StreamError(e *proxy.Error) []byte {
	failed := failedResponse{Type: "response.failed"}
	failed.Response.ID, failed.Response.Object, failed.Response.Status = e.ResponseID, "response", "failed"
	failed.Response.Error.Code, failed.Response.Error.Message = "server_error", e.Message
	failed.Response.Output = []struct{}{}
	return event(failed.Type, failed)
}

// event writes one server-sent event.
func event(name string, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		return nil // these values always have a JSON form
	}
	var b []byte
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	b = append(append(b, "data: "...), text...)
	return append(b, "\n\n"...)
}
