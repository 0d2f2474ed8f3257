package rpc

import (
	"context"
	"fmt"
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
	return fault{code: codeOf(e), message: e.Message, after: e.RetryAfter}.connect()
}

func codeOf(e *proxy.Error) connect.Code {
	switch e.Status {
	case http.StatusForbidden, http.StatusMisdirectedRequest:
		return connect.CodePermissionDenied
	case http.StatusTooManyRequests:
		return connect.CodeResourceExhausted
	}
	return connect.CodeUnauthenticated
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

// visitorKey is where a context has who a call is from.
type visitorKey struct{}

// admitted is next for those who are let in.
func (s *Service) admitted(next http.Handler) http.Handler {
	if s.options.Admit == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visitor, err := s.options.Admit(r)
		if err != nil {
			Refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitorKey{}, &visitor)))
	})
}

// nobody is who calls where nobody is asked.
var nobody = new(proxy.Visitor)

// visitor is who a call is from.
func visitor(ctx context.Context) *proxy.Visitor {
	if v, ok := ctx.Value(visitorKey{}).(*proxy.Visitor); ok {
		return v
	}
	return nobody
}

// forbidden says that a key is not good for something.
func forbidden(format string, args ...any) error {
	return &accessError{&proxy.Error{Status: http.StatusForbidden, Code: proxy.CodeForbidden, Message: fmt.Sprintf(format, args...)}}
}

// accessError is a refusal on the way to a caller.
type accessError struct{ refused *proxy.Error }

func (e *accessError) Error() string { return e.refused.Message }

// checked says whether a visitor may ask for one more decision.
func checked(v *proxy.Visitor) error {
	if v.Check != nil {
		if err := v.Check(); err != nil {
			return &accessError{err}
		}
	}
	return nil
}
