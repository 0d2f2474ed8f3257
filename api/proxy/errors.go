package proxy

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/feedback"
)

// Dialect is how one family of clients wants to be told of errors. The values are
// shared by all requests and hold nothing of any of them.
type Dialect interface {
	// Name names the dialect in records.
	Name() string
	// WriteError answers with an error: its status, its headers ([Error.SetHeaders])
	// and a body in the shape of the dialect.
	WriteError(w http.ResponseWriter, e *Error)
	// StreamError returns one whole event that tells the reader of an event stream
	// that it broke off. Nil leaves it to the connection, which ends abnormally in
	// any case.
	StreamError(e *Error) []byte
}

// Code says what kind of error it is, independent of dialect.
type Code string

// The codes.
const (
	// CodeInvalidRequest is a request that cannot be understood.
	CodeInvalidRequest Code = "invalid_request"
	// CodeNoCredentials is a request that does not say who it is from, where that is
	// asked.
	CodeNoCredentials Code = "missing_credentials"
	// CodeBadCredentials is a key that is not known.
	CodeBadCredentials Code = "invalid_api_key"
	// CodeBadSignature is a signature that is not of this request.
	CodeBadSignature Code = "invalid_signature"
	// CodeForbidden is a pool that the request's key is not good for.
	CodeForbidden Code = "forbidden"
	// CodeModelNotFound is a model that nobody serves.
	CodeModelNotFound Code = "model_not_found"
	// CodeNotFound is anything else that is not there.
	CodeNotFound Code = "not_found"
	// CodeMethodNotAllowed is a path asked with a method it does not have.
	CodeMethodNotAllowed Code = "method_not_allowed"
	// CodeBodyTooLarge is a body beyond limits.body_bytes.
	CodeBodyTooLarge Code = "request_too_large"
	// CodeRequestTimeout is a body that did not come to its end.
	CodeRequestTimeout Code = "request_timeout"
	// CodeUnsupportedEncoding is a Content-Encoding that is not understood.
	CodeUnsupportedEncoding Code = "unsupported_content_encoding"
	// CodeNotImplemented is something that engines may have and this router has not.
	CodeNotImplemented Code = "not_implemented"
	// CodeNotReady is a model that no backend has named yet.
	CodeNotReady Code = "not_ready"
	// CodeRateLimited is a key that has asked too often.
	CodeRateLimited Code = "rate_limited"
	// CodeSaturated is a pool without room.
	CodeSaturated Code = "saturated"
	// CodeBusy is a router without room for one more body.
	CodeBusy Code = "busy"
	// CodeNoBackend is a pool without a backend that could serve.
	CodeNoBackend Code = "no_backend"
	// CodeRefused is an engine's answer that is no success, where the dialect has a
	// shape of its own for those.
	CodeRefused Code = "upstream_refused"
	// CodeUnavailable is a backend that could not be reached or gave no answer.
	CodeUnavailable Code = "upstream_unavailable"
	// CodeTimeout is a backend that gave no answer in time.
	CodeTimeout Code = "upstream_timeout"
	// CodeBroken is an answer that broke off.
	CodeBroken Code = "upstream_aborted"
	// CodeStopping is a router that stops before the answer's end.
	CodeStopping Code = "stopping"
	// CodeStalled is an answer that paused for longer than timeouts.idle.
	CodeStalled Code = "upstream_stalled"
	// CodeInternal is a fault of the router.
	CodeInternal Code = "internal_error"
)

// Error is an error that the router makes, before a dialect gives it its shape.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code says what kind it is.
	Code Code
	// Message is for the caller: lower case, what was wrong with which value, and
	// which setting changes it. It holds nothing of a prompt, a key or a token.
	Message string
	// Param is the field of the body that is at fault, empty when none is.
	Param string
	// RetryAfter is when to ask again, 0 when that would not help.
	RetryAfter time.Duration
	// Allow are the methods that the path has, for a 405.
	Allow []string
	// Challenge is the WWW-Authenticate of a 401.
	Challenge string
	// Attempts is how many backends were tried.
	Attempts int
	// Begun says that an engine may have worked on the request: to send it again may do
	// the work twice.
	Begun bool
	// Refusal is the engine's answer, with [CodeRefused].
	Refusal *Refusal
	// ResponseID is the id of the answer that broke off, where it is known.
	ResponseID string

	detail string // for the record, where that may say more than the client is told
}

// Refusal is an engine's answer that is no success.
type Refusal struct {
	// Status is its status.
	Status int
	// Header are its headers.
	Header http.Header
	// Body is its body, or the beginning of one that is too long or too slow to keep.
	Body []byte
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// SetHeaders sets the headers that an error has in every dialect.
func (e *Error) SetHeaders(h http.Header) {
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(e.RetryAfter.Seconds())))))
	}
	if e.Status == http.StatusUnauthorized && e.Challenge != "" {
		h.Set("WWW-Authenticate", e.Challenge)
	}
	if len(e.Allow) > 0 {
		h.Set("Allow", strings.Join(e.Allow, ", "))
	}
}

// WriteJSON answers with an error whose body is a JSON value. It is what most
// dialects do.
func (e *Error) WriteJSON(w http.ResponseWriter, body any) {
	text, err := json.Marshal(body)
	if err != nil { // the values of dialects always have a JSON form
		text = []byte(`{}`)
	}
	h := w.Header()
	e.SetHeaders(h)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(e.Status)
	_, _ = w.Write(text) // a client that left needs no error
}

// result is what a request that ends with this error is recorded as.
func (e *Error) result() feedback.Result {
	switch e.Code {
	case CodeModelNotFound, CodeNotFound:
		return feedback.NotFound
	case CodeSaturated, CodeBusy, CodeRateLimited:
		return feedback.Saturated
	case CodeNotReady, CodeNoBackend:
		return feedback.NoBackend
	case CodeUnavailable:
		return feedback.Unavailable
	case CodeTimeout:
		return feedback.Timeout
	case CodeBroken, CodeStalled:
		return feedback.UpstreamAborted
	case CodeStopping, CodeInternal:
		return feedback.RouterError
	case codeClientLeft:
		return feedback.ClientClosed
	}
	return feedback.Rejected
}

// ended reports whether the error is that nobody waits for an answer, or none may be
// waited for.
func (e *Error) ended() bool { return e.Code == codeClientLeft || e.Code == CodeStopping }

func invalid(message string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: CodeInvalidRequest, Message: message}
}

func invalidParam(param, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: CodeInvalidRequest, Message: message, Param: param}
}
