package sagemaker

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/warmroute/warmroute/api/openai"
	"github.com/warmroute/warmroute/api/proxy"
)

// The types of errors that clients tell apart.
const (
	validationError    = "ValidationError"
	modelError         = "ModelError"
	modelNotReady      = "ModelNotReadyException"
	internalFailure    = "InternalFailure"
	serviceUnavailable = "ServiceUnavailable"
	unknownOperation   = "UnknownOperationException"
	missingToken       = "MissingAuthenticationTokenException"
	unrecognizedClient = "UnrecognizedClientException"
	invalidSignature   = "InvalidSignatureException"
	accessDenied       = "AccessDeniedException"
)

// shape is the status and the type that an error has here.
func shape(e *proxy.Error) (status int, kind string) {
	switch e.Code {
	case proxy.CodeRefused, proxy.CodeTimeout:
		return http.StatusFailedDependency, modelError
	case proxy.CodeUnavailable:
		if e.Begun {
			return http.StatusFailedDependency, modelError
		}
		return http.StatusServiceUnavailable, serviceUnavailable
	case proxy.CodeNoBackend, proxy.CodeStopping:
		return http.StatusServiceUnavailable, serviceUnavailable
	case proxy.CodeSaturated, proxy.CodeRateLimited, proxy.CodeBusy, proxy.CodeNotReady:
		return http.StatusTooManyRequests, modelNotReady
	case proxy.CodeModelNotFound:
		return http.StatusBadRequest, validationError
	case proxy.CodeNotFound, proxy.CodeMethodNotAllowed:
		return e.Status, unknownOperation
	case proxy.CodeNoCredentials:
		return http.StatusForbidden, missingToken
	case proxy.CodeBadCredentials:
		return http.StatusForbidden, unrecognizedClient
	case proxy.CodeBadSignature:
		return http.StatusForbidden, invalidSignature
	case proxy.CodeForbidden:
		return http.StatusForbidden, accessDenied
	case proxy.CodeInternal:
		return http.StatusInternalServerError, internalFailure
	}
	return e.Status, validationError
}

// errorBody is the body of an error. The second pair belongs to ModelError.
type errorBody struct {
	Type               string `json:"__type"`
	Message            string `json:"Message"`
	OriginalStatusCode int    `json:"OriginalStatusCode,omitempty"`
	OriginalMessage    string `json:"OriginalMessage,omitempty"`
}

// quoted is how much of an engine's refusal stands in the message too, in bytes: it is
// what clients print.
const quoted = 1024

func newErrorBody(e *proxy.Error, kind string) errorBody {
	body := errorBody{Type: kind, Message: e.Message}
	switch {
	case e.Refusal != nil:
		said := bytes.ToValidUTF8(e.Refusal.Body, []byte("\uFFFD"))
		body.OriginalStatusCode, body.OriginalMessage = e.Refusal.Status, string(said)
		if len(said) > 0 {
			body.Message = fmt.Sprintf("%s: %s", e.Message, bytes.ToValidUTF8(said[:min(len(said), quoted)], nil))
		}
	case kind == modelError:
		body.OriginalStatusCode, body.OriginalMessage = e.Status, e.Message
	}
	return body
}

// runtime is the dialect of SageMaker's runtime API.
type runtime struct{}

// Name implements [proxy.Dialect].
func (runtime) Name() string { return "sagemaker" }

// WriteError implements [proxy.Dialect].
func (runtime) WriteError(w http.ResponseWriter, e *proxy.Error) {
	status, kind := shape(e)
	write(w, e, status, kind, newErrorBody(e, kind))
}

// StreamError implements [proxy.Dialect]: an engine may answer an invocation with a
// stream of chunks, whose readers know this event.
func (runtime) StreamError(e *proxy.Error) []byte { return openai.StreamError(e) }

// write answers with an error of a type.
func write(w http.ResponseWriter, e *proxy.Error, status int, kind string, body any) {
	h := w.Header()
	name(h)
	h.Set(headerErrorType, kind)
	if e.Refusal != nil {
		for _, header := range []string{"Retry-After", headerAttributes} {
			if values := e.Refusal.Header[header]; len(values) > 0 {
				h[header] = values
			}
		}
	}
	shaped := *e
	shaped.Status = status
	shaped.WriteJSON(w, body)
}

// eventStream is the dialect of response streams: what ends one early is a frame.
type eventStream struct{ runtime }

// StreamError implements [proxy.Dialect].
func (eventStream) StreamError(e *proxy.Error) []byte {
	switch e.Code {
	case proxy.CodeBroken:
		return exception(modelStreamError, streamException{Message: e.Message, ErrorCode: streamBroken})
	case proxy.CodeStalled:
		return exception(modelStreamError, streamException{Message: e.Message, ErrorCode: timeExceeded})
	}
	return exception(internalStreamFailure, streamException{Message: e.Message})
}

// compatible is the dialect of the OpenAI-compatible paths, which clients of both APIs
// read: bodies have OpenAI's error beside AWS's.
type compatible struct{ runtime }

// compatibleBody is the body of an error there.
type compatibleBody struct {
	Error any `json:"error"`
	errorBody
}

// WriteError implements [proxy.Dialect]. The status is OpenAI's.
func (compatible) WriteError(w http.ResponseWriter, e *proxy.Error) {
	_, kind := shape(e)
	write(w, e, e.Status, kind, compatibleBody{openai.ErrorObject(e), newErrorBody(e, kind)})
}
