package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// handleInvocations serves SageMaker's POST /invocations: the body decides which
// route it is for, in vLLM's order.
func (s *Server) handleInvocations(w http.ResponseWriter, r *http.Request) *apiError {
	data, apiErr := readBody(w, r)
	if apiErr != nil {
		return apiErr
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return invalidBody("JSON decode error: " + err.Error())
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	switch {
	case given(fields["messages"]):
		return s.handleChat(w, r)
	case given(fields["prompt"]):
		return s.handleCompletions(w, r)
	case given(fields["input"]):
		return s.handleEmbeddings(w, r)
	default:
		return badRequest("Cannot find suitable handler for request. Expected one of: chat, completion, embedding.", "")
	}
}
