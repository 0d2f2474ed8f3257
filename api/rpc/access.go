package rpc

import (
	"context"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/warmroute/warmroute/api/proxy"
)

// Refuse answers a call, in its protocol, that is not let in.
func Refuse(w http.ResponseWriter, r *http.Request, e *proxy.Error) {
	if r.ProtoMajor == 1 { // whose clients send before they read
		letGo(w, r.Body)
	}
	if e.Challenge != "" {
		w.Header().Set("WWW-Authenticate", e.Challenge)
	}
	_ = refusals.Write(w, r, refusal(e)) // a caller that left needs no error
}

// How much is read of the body of a call that is refused, and for how long.
const (
	letGoBytes = 64 << 10
	letGoTime  = time.Second
)

// letGo reads a body that nobody wants.
func letGo(w http.ResponseWriter, body io.Reader) {
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(letGoTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, body, letGoBytes) // whatever comes of it
	_ = control.SetReadDeadline(time.Time{})
}

// refusals writes them.
var refusals = connect.NewErrorWriter()

// refusal is an error of access as the protocol has it.
func refusal(e *proxy.Error) error {
	code := connect.CodeUnauthenticated
	switch e.Status {
	case http.StatusForbidden, http.StatusMisdirectedRequest:
		code = connect.CodePermissionDenied
	case http.StatusTooManyRequests:
		code = connect.CodeResourceExhausted
	}
	return fault{code: code, message: e.Message, after: e.RetryAfter}.connect()
}

// operatorKey is where a context has the name of an operator's key.
type operatorKey struct{}

// WithOperator notes in a context by whose key it was let in, for the log.
func WithOperator(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, operatorKey{}, key)
}

// operator is the name of the key, empty for none.
func operator(ctx context.Context) string {
	name, _ := ctx.Value(operatorKey{}).(string)
	return name
}
