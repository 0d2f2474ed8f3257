package server

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// apiError is an error on its way to a client.
type apiError struct {
	status  int
	kind    string // vLLM's error type
	message string
	param   string
}

func (e *apiError) Error() string { return e.message }

func badRequest(message, param string) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: "BadRequestError", message: message, param: param}
}

// invalidBody is what a request that fails validation gets.
func invalidBody(message string) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: "Bad Request", message: message}
}

func unknownModel(name string) *apiError {
	return &apiError{
		status:  http.StatusNotFound,
		kind:    "NotFoundError",
		message: fmt.Sprintf("The model `%s` does not exist.", name),
		param:   "model",
	}
}

// contextOverflow is what a request longer than the context gets.
func contextOverflow(limit, prompt, output int) *apiError {
	return badRequest(fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d output "+
		"tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. "+
		"Please reduce the length of the input prompt or the number of requested output tokens.",
		limit, output, prompt, prompt+output), "input_tokens")
}

// errorBody is the error object of the OpenAI dialects.
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

func (e *apiError) body() errorBody {
	detail := errorDetail{Message: e.message, Type: e.kind, Code: e.status}
	if e.param != "" {
		detail.Param = &e.param
	}
	return errorBody{Error: detail}
}

// writeError answers in the shape of the OpenAI dialects.
func writeError(w http.ResponseWriter, e *apiError) {
	writeJSON(w, e.status, e.body())
}

// anthropicErrorBody is the error object of /v1/messages.
type anthropicErrorBody struct {
	Type  string               `json:"type"`
	Error anthropicErrorDetail `json:"error"`
}

type anthropicErrorDetail struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// writeAnthropicError answers in the shape of /v1/messages.
func writeAnthropicError(w http.ResponseWriter, e *apiError) {
	kind := "api_error"
	switch {
	case e.status == http.StatusNotFound:
		kind = "not_found_error"
	case e.status == http.StatusServiceUnavailable:
		kind = "overloaded_error"
	case e.status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case e.status < http.StatusInternalServerError:
		kind = "invalid_request_error"
	}
	writeJSON(w, e.status, anthropicErrorBody{
		Type:  "error",
		Error: anthropicErrorDetail{Type: kind, Message: e.message},
	})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that has gone is noticed by its context
}
