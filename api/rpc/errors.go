package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// fieldError says which field of a request makes no sense, and why.
type fieldError struct{ field, message string }

func (e *fieldError) Error() string { return e.field + ": " + e.message }

func invalid(field, format string, args ...any) error {
	return &fieldError{field, fmt.Sprintf(format, args...)}
}

// limitError says that this router has no room, and which setting makes some.
type limitError struct {
	message string
	again   time.Duration // 0 when asking again does not help
}

func (e *limitError) Error() string { return e.message }

// missingError says that something that was named is not there.
type missingError struct{ what, name string }

func (e *missingError) Error() string {
	return fmt.Sprintf("there is no %s %q", e.what, printed(e.name))
}

// stateError says that the router, or a pool, is not such that it could answer.
type stateError struct{ message string }

func (e *stateError) Error() string { return e.message }

// takenError says that a backend is in the configuration already.
type takenError struct{ backend string }

func (e *takenError) Error() string {
	return fmt.Sprintf("backend %q is in the configuration already", e.backend)
}

// fault is an error as the caller and the record of its request see it.
type fault struct {
	code    connect.Code
	message string
	after   time.Duration // when to ask again, 0 when that would not help
	result  feedback.Result
	status  int // the HTTP status that means the same
}

// diagnose says what an error means.
func diagnose(err error) fault {
	f := fault{code: connect.CodeInternal, message: "the router failed to answer", result: feedback.RouterError, status: http.StatusInternalServerError}
	set := func(code connect.Code, result feedback.Result, status int, after time.Duration) {
		f = fault{code: code, message: err.Error(), after: after, result: result, status: status}
	}
	var (
		field     *fieldError
		limit     *limitError
		missing   *missingError
		taken     *takenError
		state     *stateError
		unknown   *router.UnknownModelError
		early     *router.NotReadyError
		nobody    *router.NoBackendError
		saturated *router.SaturatedError
		body      *prompt.Error
		access    *accessError
	)
	switch {
	case errors.As(err, &field), errors.As(err, &body):
		set(connect.CodeInvalidArgument, feedback.Rejected, http.StatusBadRequest, 0)
	case errors.As(err, &access):
		result := feedback.Rejected
		if access.refused.Status == http.StatusTooManyRequests {
			result = feedback.Saturated
		}
		set(codeOf(access.refused), result, access.refused.Status, access.refused.RetryAfter)
	case errors.Is(err, intake.ErrNoPrevious):
		set(connect.CodeNotFound, feedback.NotFound, http.StatusNotFound, 0)
	case errors.Is(err, errPin):
		set(connect.CodePermissionDenied, feedback.Rejected, http.StatusForbidden, 0)
	case errors.As(err, &taken):
		set(connect.CodeAlreadyExists, feedback.Rejected, http.StatusConflict, 0)
	case errors.As(err, &state):
		set(connect.CodeFailedPrecondition, feedback.Rejected, http.StatusConflict, 0)
	case errors.As(err, &missing):
		set(connect.CodeNotFound, feedback.NotFound, http.StatusNotFound, 0)
	case errors.As(err, &unknown):
		set(connect.CodeNotFound, feedback.NotFound, http.StatusNotFound, 0)
		f.message = fmt.Sprintf("the model %q does not exist: /v1/models lists those that do", printed(unknown.Model))
	case errors.As(err, &limit):
		set(connect.CodeResourceExhausted, feedback.Saturated, http.StatusTooManyRequests, limit.again)
	case errors.As(err, &saturated):
		set(connect.CodeResourceExhausted, feedback.Saturated, http.StatusTooManyRequests, saturated.RetryAfter)
	case errors.Is(err, context.DeadlineExceeded):
		set(connect.CodeDeadlineExceeded, feedback.ClientClosed, intake.StatusClientClosed, 0)
	case errors.Is(err, context.Canceled):
		set(connect.CodeCanceled, feedback.ClientClosed, intake.StatusClientClosed, 0)
	case errors.As(err, &early):
		set(connect.CodeUnavailable, feedback.NoBackend, http.StatusServiceUnavailable, early.RetryAfter)
	case errors.As(err, &nobody):
		set(connect.CodeUnavailable, feedback.NoBackend, http.StatusServiceUnavailable, nobody.RetryAfter)
	}
	return f
}

// connect gives the error to the protocol.
func (f fault) connect() error {
	e := connect.NewError(f.code, errors.New(f.message))
	if f.after > 0 {
		e.Meta().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(f.after.Seconds())))))
	}
	return e
}

// failure is an error as a handler returns it, nil for none.
func failure(err error) error {
	if err == nil {
		return nil
	}
	return diagnose(err).connect()
}

// printed bounds what is repeated of a caller's words.
func printed(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
