package sagemaker

import (
	"net/http"

	"github.com/warmroute/warmroute/api/proxy"
)

// The headers of SageMaker's runtime API, in the form in which net/http keeps them. The
// proxy reads the tenant id, and holds back what engines do not get.
const (
	headerAccept      = "X-Amzn-Sagemaker-Accept"
	headerContentType = "X-Amzn-Sagemaker-Content-Type"
	headerAttributes  = "X-Amzn-Sagemaker-Custom-Attributes"
	headerInferenceID = "X-Amzn-Sagemaker-Inference-Id"
	headerVariant     = "X-Amzn-Sagemaker-Target-Variant"
	headerComponent   = "X-Amzn-Sagemaker-Inference-Component"
	headerModel       = "X-Amzn-Sagemaker-Target-Model"
	headerContainer   = "X-Amzn-Sagemaker-Target-Container-Hostname"
	headerExplain     = "X-Amzn-Sagemaker-Enable-Explanations"
	headerInvoked     = "X-Amzn-Invoked-Production-Variant"
	headerErrorType   = "X-Amzn-Errortype"

	// headerRequestID is where AWS's clients look for the id of a request.
	headerRequestID  = "X-Amzn-Requestid"
	headerOwnRequest = "X-Request-Id"
)

// limits are the longest values of headers that engines get, in characters of printable
// ASCII.
var limits = []struct {
	name string
	most int
}{
	{"Content-Type", 1024},
	{"Accept", 1024},
	{headerAccept, 1024},
	{headerAttributes, 1024},
	{headerInferenceID, 64},
}

// unsupported are the headers that ask for what is not there. An answer that ignored them
// would be one of another model, or without what was asked for.
var unsupported = []struct{ name, instead string }{
	{headerModel, "multi-model endpoints are not supported: name the model in the body"},
	{headerContainer, "multi-container endpoints are not supported: give each container an endpoint"},
	{headerExplain, "explanations are not supported"},
}

// checkHeaders says what is wrong with the headers of a request.
func checkHeaders(h http.Header) *proxy.Error {
	for _, limit := range limits {
		for _, value := range h[limit.name] {
			if len(value) > limit.most || !printable(value) {
				return invalid("%s must be at most %d characters of printable ASCII", limit.name, limit.most)
			}
		}
	}
	if id, given := h[headerInferenceID]; given && (id[0] == "" || id[0][0] == ' ') {
		return invalid("%s must be 1 to 64 characters, the first not a space", headerInferenceID)
	}
	for _, header := range unsupported {
		if len(h[header.name]) > 0 {
			return invalid("%s: %s", header.name, header.instead)
		}
	}
	return nil
}

// printable reports whether s is printable ASCII.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// name gives an answer its id under the name that AWS's clients know.
func name(answer http.Header) {
	if id := answer.Get(headerOwnRequest); id != "" {
		answer.Set(headerRequestID, id)
	}
}

// acceptOfStream gives engines the Accept that a client of a response stream has put into
// a header of its own: the one of the request is about the frames.
func acceptOfStream(out, in http.Header) {
	delete(out, "Accept")
	if accept := in[headerAccept]; len(accept) > 0 {
		out["Accept"] = accept
	}
}
