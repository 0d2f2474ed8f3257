package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// codeClientLeft marks the end of a request that nobody waits for any more.
const codeClientLeft Code = "client_closed"

// maxStoredID bounds the ids of stored answers, in characters.
const maxStoredID = 512

// exchange is one request of a client and the answer to it.
type exchange struct {
	p      *Proxy
	call   *Call
	w      reply
	r      *http.Request
	record *feedback.Record
	stall  stall

	visitor Visitor
	charged bool // the visitor's tokens, of which taken is what was thought
	taken   int
	payload payload
	decoded bool // the body came compressed
	prompt  *prompt.Request
	pool    *router.Pool // that the path and the headers chose; nil where the model does
	target  router.Target
	request router.Request // what the router is asked, over and over
	session router.PinKey  // 0: none
	adapter string         // that a header asks for; empty: none

	body     []byte      // what is sent to engines
	injected []byte      // the same, asking for usage; nil where that is not done
	header   http.Header // what is sent to engines

	tries    []string // what became of the attempts so far, for the client
	kept     *keptAnswer
	stale    []*backends.Backend // whose kept connection turned out to be closed
	forgiven int                 // 1 + the place in request.Tried of a backend that may be tried again
	queued   time.Time
	aborted  bool // the connection must end abnormally
}

func (p *Proxy) newExchange(call *Call, w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{p: p, call: call, w: newReply(w), r: r, stall: newStall(w, r)}
	id := r.Header.Get(headerRequestID)
	if !intake.Printable(id, intake.MaxRequestID) {
		id = fmt.Sprintf("%016x%016x", p.options.Random(), p.options.Random())
	}
	x.record = &feedback.Record{
		Start:     p.options.Now(),
		RequestID: id,
		TraceID:   traceID(r.Header.Get(headerTraceparent)),
		Method:    r.Method,
		Route:     call.Route,
		Dialect:   call.Dialect.Name(),
	}
	x.w.Header()[headerRequestID] = []string{id}
	return x
}

// serve answers the request by way of a backend.
func (x *exchange) serve() {
	err := x.prepare()
	if err == nil {
		err = x.charge()
	}
	if err != nil {
		x.refuse(err)
		return
	}
	x.walk()
}

// prepare does everything that comes before the first decision.
func (x *exchange) prepare() *Error {
	if err := x.admit(); err != nil {
		return err
	}
	tenant, err := x.enter()
	if err != nil {
		x.drain(&countingReader{from: x.r.Body})
		return err
	}
	if err := x.readBody(); err != nil {
		return err
	}
	if err := x.checkVisitor(); err != nil {
		return err
	}
	x.body = x.payload.bytes
	if x.call.StoredID != nil {
		if err := x.findStored(); err != nil {
			return err
		}
		return x.checkPool()
	}
	model, err := x.parse()
	if err != nil {
		return err
	}
	if err := x.resolve(cmp.Or(x.adapter, model)); err != nil {
		return err
	}
	if err := x.checkPool(); err != nil {
		return err
	}
	if x.call.Kind == prompt.Raw {
		if err := x.look(); err != nil {
			return err
		}
	}
	x.hash(tenant)
	x.request.Session = x.session
	if err := x.followPrevious(); err != nil {
		return err
	}
	return x.edit()
}

// enter looks at the headers, and returns the tenant id.
func (x *exchange) enter() (tenant string, err *Error) {
	if tenant, err = x.tenant(); err != nil {
		return "", err
	}
	if err := x.readPin(); err != nil {
		return "", err
	}
	if err := x.readSession(); err != nil {
		return "", err
	}
	if err := x.readAdapter(); err != nil {
		return "", err
	}
	if x.call.Enter != nil {
		x.pool, err = x.call.Enter(x.r, &x.visitor, x.w.Header())
	}
	return tenant, err
}

// tenant reads the tenant id that the client gives.
func (x *exchange) tenant() (string, *Error) {
	if x.visitor.Tenant != "" {
		return x.visitor.Tenant, nil
	}
	ids := x.r.Header[headerTenant]
	if len(ids) == 0 {
		return "", nil
	}
	if len(ids) > 1 || !intake.Printable(ids[0], intake.MaxTenant) {
		return "", invalid(fmt.Sprintf("X-Amzn-SageMaker-Prefix-Aware-Id must be 1 to %d printable ASCII characters, the first not a space", intake.MaxTenant))
	}
	return ids[0], nil
}

func (x *exchange) readPin() *Error {
	pin := x.r.Header.Get(headerBackend)
	if pin == "" {
		return nil
	}
	if !x.p.options.AllowPin {
		return invalid("x-warmroute-backend is not allowed here (allow_backend_pin)")
	}
	x.request.Pin, x.request.PinRequired = pin, true
	return nil
}

// parse reads what the body says and returns the model it asks for.
func (x *exchange) parse() (string, *Error) {
	x.request.N = 1
	if x.call.Kind == prompt.Opaque {
		model, streamed, err := prompt.MultipartModel(x.r.Header.Get("Content-Type"), x.body)
		x.record.Streamed, x.request.Streamed = streamed, streamed
		return model, promptError(err)
	}
	if err := x.parseAs(x.call.Kind); err != nil {
		return "", err
	}
	return x.prompt.Model(), nil
}

// parseAs reads the body as one of a kind.
func (x *exchange) parseAs(kind prompt.Kind) *Error {
	parsed, err := prompt.ParseWithin(kind, x.body, &x.payload)
	if errors.Is(err, prompt.ErrNoRoom) {
		return x.busy()
	}
	if err != nil {
		return promptError(err)
	}
	x.prompt = parsed
	streaming := parsed.Streaming() || x.makesStream()
	x.record.Streamed, x.request.Streamed = streaming, streaming
	x.request.N = parsed.N()
	return nil
}

// look reads a native body again, as what its shape says it is, where its pool wants
// that.
func (x *exchange) look() *Error {
	shape := x.prompt.Shape()
	if shape == prompt.Raw || x.target.Pool.Config().NativeKey == router.NativeRaw {
		return nil
	}
	x.prompt.Release()
	x.prompt = nil
	return x.parseAs(shape)
}

// makesStream reports whether the engine is asked to stream although the body does not
// say so.
func (x *exchange) makesStream() bool {
	return x.call.Streams && x.prompt.StreamUnset() && intake.Generates(x.prompt)
}

func promptError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*prompt.Error](err); ok {
		return invalidParam(e.Param, e.Error()) // not every dialect has a place for the name
	}
	return invalid("request body cannot be read")
}

// resolve finds the pool of a model.
func (x *exchange) resolve(model string) *Error {
	var (
		target router.Target
		err    error
	)
	if x.pool != nil {
		target, err = intake.ResolveIn(x.pool, model)
	} else {
		target, err = intake.Resolve(x.p.options.Router, model, x.call.ModelOptional)
	}
	switch {
	case errors.Is(err, intake.ErrNoModel):
		return invalidParam("model", err.Error())
	case err != nil && x.loadsAdapter(err):
		target = router.Target{Pool: x.pool, Model: x.adapter}
	case err != nil:
		return resolveError(model, err)
	}
	target.Adapter = target.Adapter || x.adapter != ""
	x.target = target
	x.request.Pool, x.request.Model = x.target.Pool, x.target.Model
	x.record.Pool, x.record.Model = x.target.Pool.Name(), x.target.Model
	return nil
}

func resolveError(model string, err error) *Error {
	if e, ok := errors.AsType[*router.NotReadyError](err); ok {
		return &Error{
			Status: http.StatusServiceUnavailable, Code: CodeNotReady, Param: "model", RetryAfter: e.RetryAfter,
			Message: fmt.Sprintf("no backend of pool %q has said yet which models it serves, so it is not known whether the model %q exists", e.Pool, printed(model)),
		}
	}
	return UnknownModel(model)
}

// UnknownModel says that nobody serves a model.
func UnknownModel(model string) *Error {
	return &Error{
		Status: http.StatusNotFound, Code: CodeModelNotFound, Param: "model",
		Message: fmt.Sprintf("the model %q does not exist: /v1/models lists those that do", printed(model)),
	}
}

// hash computes the prompt's block keys in its scope, and lets go of everything of the
// prompt that only they needed.
func (x *exchange) hash(tenant string) {
	if x.prompt == nil {
		return
	}
	intake.Ask(x.prompt, intake.Source{
		Target:      x.target,
		Route:       x.call.Route,
		TenantID:    tenant,
		KeyIsTenant: x.call.KeyIsTenant,
		KeySeed:     x.p.options.KeySeed,
		AnyRank:     x.call.Stores, // vLLM heeds X-data-parallel-rank on all routes but /v1/responses
	}, &x.request, x.record)
	x.payload.Trim()
}

// edit makes the edits of a forwarded body.
func (x *exchange) edit() *Error {
	if x.namesModel() {
		if x.prompt == nil {
			return invalidParam("model", fmt.Sprintf("a form cannot use an alias, nor a header for its adapter: name the model %q", x.target.Model))
		}
		set := prompt.SetModel
		if x.adapter != "" {
			set = prompt.PutModel
		}
		edited, err := set(x.body, x.target.Model)
		if err != nil {
			return promptError(err)
		}
		x.payload.Charge(len(edited))
		x.body = edited
	}
	if x.call.Streams && x.makesStream() {
		if edited, err := prompt.SetStream(x.body); err == nil {
			x.payload.Charge(len(edited))
			x.body = edited
		}
	}
	if x.injectsUsage() {
		if edited, err := prompt.SetIncludeUsage(x.body); err == nil {
			x.payload.Charge(len(edited))
			x.injected = edited
		}
	}
	return nil
}

// namesModel reports whether the body gets the name that the engines know: of an alias, or
// of the adapter that a header asks for, unless nothing is known of its shape.
func (x *exchange) namesModel() bool {
	return x.target.Alias || x.adapter != "" && (x.prompt == nil || x.prompt.Shape() != prompt.Raw)
}

// injectsUsage reports whether the engine is asked for usage on its client's behalf.
func (x *exchange) injectsUsage() bool {
	return x.call.InjectUsage && x.p.options.InjectUsage && intake.AsksUsage(x.prompt, x.request.Streamed)
}

// refuse answers with an error of the router's own.
func (x *exchange) refuse(err *Error) {
	x.record.Err = cmp.Or(err.detail, err.Message)
	if err.Code == codeClientLeft {
		x.leave()
		return
	}
	x.record.Result = err.result()
	err.Attempts = x.record.Attempts
	if x.p.options.DecisionHeaders && x.record.Attempts > 0 {
		x.w.Header()[headerAttempts] = []string{strconv.Itoa(x.record.Attempts)}
	}
	x.call.Dialect.WriteError(&x.w, err)
}

// gone is the error of a request that its client, or the server itself, has ended.
func (x *exchange) gone() *Error {
	if x.cut() {
		x.w.Header().Set("Connection", "close")
		return &Error{Status: http.StatusServiceUnavailable, Code: CodeStopping, Message: ErrStopping.Error()}
	}
	return &Error{Status: intake.StatusClientClosed, Code: codeClientLeft, Message: "the client left before the answer's end"}
}

// cut reports whether the server ended the request because it stops.
func (x *exchange) cut() bool { return errors.Is(context.Cause(x.r.Context()), ErrStopping) }

// leave ends a request that nobody waits for any more.
func (x *exchange) leave() {
	x.record.Result = feedback.ClientClosed
	x.aborted = true
}

// end comes after everything else, a panic included: it gives back what the request
// holds, and records it.
func (x *exchange) end() {
	cause := recover()
	if cause != nil {
		x.fault(cause)
	}
	x.payload.release()
	x.finish()
	if x.prompt != nil {
		x.prompt.Release() // and with it the keys, which the record names
	}
	if x.aborted {
		panic(http.ErrAbortHandler)
	}
}

// fault ends a request that panicked.
func (x *exchange) fault(cause any) {
	x.payload.buf = nil                // somebody may still read it
	if cause == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		x.leave()
		return
	}
	x.p.options.Logger.Error("panic while serving a request",
		slog.String("request_id", x.record.RequestID), slog.String("route", x.record.Route),
		slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
	x.record.Result, x.record.Err = feedback.RouterError, "panic"
	defer func() {
		if recover() != nil { // the dialect itself is at fault
			x.aborted = true
		}
	}()
	failed := &Error{
		Status: http.StatusInternalServerError, Code: CodeInternal, Message: "the router failed to serve the request",
	}
	if x.w.status != 0 {
		x.aborted = true
		if x.call.Framing != nil && succeeded(x.w.status) {
			_, err := x.w.Write(x.call.Dialect.StreamError(failed))
			x.aborted = err != nil
		}
		return
	}
	clear(x.w.Header())
	x.w.Header()[headerRequestID] = []string{x.record.RequestID}
	x.call.Dialect.WriteError(&x.w, failed)
}

// finish completes the record and gives it to the observer.
func (x *exchange) finish() {
	r := x.record
	r.Duration = x.p.options.Now().Sub(r.Start)
	r.Status = x.w.status
	switch {
	case r.Result == feedback.ClientClosed:
		r.Status = intake.StatusClientClosed
	case r.Status == 0 && !x.aborted:
		r.Status = http.StatusOK // net/http sends it for us
	}
	r.ResponseBytes = x.w.bytes
	x.settle()
	defer func() {
		if cause := recover(); cause != nil {
			x.p.options.Logger.Error("panic while observing a record",
				slog.String("request_id", r.RequestID), slog.Any("panic", cause))
		}
	}()
	x.p.options.Observe(r)
}
