package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/usage"
	"github.com/warmroute/warmroute/router"
)

// Limits bound what requests may take of this process. Zero fields mean their
// defaults.
type Limits struct {
	// BodyBytes is the largest request body, after decompression. Default 64 MiB.
	BodyBytes int64
	// BodiesInFlightBytes bounds the bodies of all requests under way together; what
	// exceeds it is answered 503. Default 1 GiB.
	BodiesInFlightBytes int64
	// MaxQueued is how many requests of one pool may wait for a slot where it is
	// routed with on_saturation queue. Default 1,024.
	MaxQueued int
	// QueueShare is the part of those that one key's tenant may have. Default 0.5.
	QueueShare float64
}

// unverifiedPart is the part of all bodies, one in so many, that those may have whose senders
// are not known before their end: others are not to wait for whoever can send and sign nothing.
const (
	unverifiedPart  = 4
	leastUnverified = 64 << 20 // so that none is too large
)

// The defaults of Limits and Options.
const (
	DefaultBodyBytes           = 64 << 20
	DefaultBodiesInFlightBytes = 1 << 30
	DefaultMaxQueued           = 1024
	DefaultQueueShare          = 0.5
	DefaultQueueWait           = 30 * time.Second
)

// Options are what a proxy works with. Router and Transport are needed; the zero
// values of the others are their defaults.
type Options struct {
	// Router decides.
	Router *router.Router
	// Transport carries.
	Transport *transport.Transport
	// Limits bound what requests may take.
	Limits Limits
	// QueueWait is how long a request waits for a slot where its pool is routed with
	// on_saturation queue, in all its attempts together. Default 30 s.
	QueueWait time.Duration
	// InjectUsage asks engines for usage on streams whose client did not say, and
	// takes the extra chunk out again.
	InjectUsage bool
	// DecisionHeaders adds the x-warmroute-… headers to answers.
	DecisionHeaders bool
	// AllowPin lets a request name its backend in x-warmroute-backend; otherwise
	// such a request is refused.
	AllowPin bool
	// ForwardCredentials sends the client's Authorization, x-api-key and cookies on
	// to the engines. Without it they stay here. Signatures of AWS never go on.
	ForwardCredentials bool
	// UpstreamKey, if set, returns the API key that the engines of a pool want; empty for
	// none. It takes the place of whatever the client sent.
	UpstreamKey func(pool string) string
	// ForwardRank, if set, reports whether the engines of a pool get a client's
	// X-Data-Parallel-Rank. Default: it stays here, where the router chooses among ranks or
	// there are none.
	ForwardRank func(pool string) bool
	// Admit, if set, says who a request is from, before its body is read, or why it is
	// not let in. It may put another body into the place of the request's. Without it
	// everybody is let in.
	Admit func(*http.Request) (Visitor, *Error)
	// KeySeed is the fleet-wide secret of the block keys, empty for none.
	KeySeed string
	// Stopping, if set, reports whether the process is shutting down: it still serves, and
	// asks whoever looks (/health, /ping) to look elsewhere.
	Stopping func() bool
	// Observe is given the record of every request once, after its end. It is called
	// on the request's goroutine and may keep the record. May be nil.
	Observe func(*feedback.Record)
	// Logger is told of faults of the router itself; requests are not logged here.
	// Default: nothing is logged.
	Logger *slog.Logger
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Random returns uniformly random values. Default math/rand/v2.
	Random func() uint64
}

// ErrStopping is the cause with which a server ends the contexts of requests that it
// cuts because it stops. Those end with an error of the router, not as if their
// clients had left.
var ErrStopping = errors.New("cut by the shutdown (timeouts.shutdown_grace)")

// Proxy carries requests. Its methods may be called at the same time.
type Proxy struct {
	options Options
	bodies  *intake.Budget
	// unverified is the part of it that bodies may take whose senders are not known before
	// their end.
	unverified *intake.Budget
	line       intake.Line
	retries    retryBudget
	asked      usage.Stances[*backends.Backend] // which refuse to report usage on streams
}

// New returns a proxy. The error names the option that makes no sense.
func New(o Options) (*Proxy, error) {
	switch {
	case o.Router == nil:
		return nil, errors.New("a proxy needs a router")
	case o.Transport == nil:
		return nil, errors.New("a proxy needs a transport")
	case o.Limits.BodyBytes < 0:
		return nil, fmt.Errorf("limits.body_bytes: %d is negative", o.Limits.BodyBytes)
	case o.Limits.BodiesInFlightBytes < 0:
		return nil, fmt.Errorf("limits.bodies_in_flight_bytes: %d is negative", o.Limits.BodiesInFlightBytes)
	case o.Limits.MaxQueued < 0:
		return nil, fmt.Errorf("limits.max_queued: %d is negative", o.Limits.MaxQueued)
	case o.QueueWait < 0:
		return nil, fmt.Errorf("timeouts.queue: %v is negative", o.QueueWait)
	}
	fill(&o.Limits.BodyBytes, DefaultBodyBytes)
	fill(&o.Limits.BodiesInFlightBytes, DefaultBodiesInFlightBytes)
	fill(&o.Limits.MaxQueued, DefaultMaxQueued)
	if o.Limits.QueueShare == 0 {
		o.Limits.QueueShare = DefaultQueueShare
	}
	fill(&o.QueueWait, DefaultQueueWait)
	if o.Limits.BodiesInFlightBytes < o.Limits.BodyBytes {
		return nil, fmt.Errorf("limits.bodies_in_flight_bytes: %d is less than limits.body_bytes %d",
			o.Limits.BodiesInFlightBytes, o.Limits.BodyBytes)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Stopping == nil {
		o.Stopping = func() bool { return false }
	}
	if o.Observe == nil {
		o.Observe = func(*feedback.Record) {}
	}
	return &Proxy{options: o, line: intake.NewLine(o.Limits.MaxQueued, o.Limits.QueueShare, o.QueueWait), bodies: intake.NewBudget(o.Limits.BodiesInFlightBytes), unverified: intake.NewBudget(min(o.Limits.BodiesInFlightBytes, max(o.Limits.BodiesInFlightBytes/unverifiedPart, o.Limits.BodyBytes, leastUnverified)))}, nil
}

func fill[T int | int64 | time.Duration](value *T, fallback T) {
	if *value == 0 {
		*value = fallback
	}
}

// Router returns what decides, for endpoints that are answered without a backend.
func (p *Proxy) Router() *router.Router { return p.options.Router }

// Stopping reports whether the process is shutting down.
func (p *Proxy) Stopping() bool { return p.options.Stopping() }

// Bodies is the budget of all request bodies, for other surfaces to share.
func (p *Proxy) Bodies() *intake.Budget { return p.bodies }

// Call describes one endpoint that is forwarded.
type Call struct {
	// Route is the pattern of the endpoint's path, as records name it.
	Route string
	// Dialect is how its clients want to be told of errors.
	Dialect Dialect
	// Path is where engines have it; empty where they have it at the client's path. The
	// client's query stays here where it is given.
	Path string
	// Enter, if set, is asked before the body is read. It looks at what is the dialect's
	// own in path and headers, may set headers of the answer, and chooses the pool, among
	// several one that the visitor may use; nil leaves that to the model.
	Enter func(r *http.Request, v *Visitor, answer http.Header) (*router.Pool, *Error)
	// Body bounds its bodies. The zero value is limits.body_bytes.
	Body BodyLimit
	// Kind is the shape of its bodies. A body of kind Opaque is a multipart form. One of
	// kind Raw may be anything: where the pool's native_key says auto and its shape is
	// known, it is read as that.
	Kind prompt.Kind
	// Format is where its answers report usage.
	Format usage.Format
	// InjectUsage says that its requests know stream_options.include_usage.
	InjectUsage bool
	// ModelOptional lets a request without a model go to the only model there is.
	ModelOptional bool
	// KeyIsTenant makes prompt_cache_key a tenant id.
	KeyIsTenant bool
	// Streams asks engines to stream where a body of a known shape does not say.
	Streams bool
	// Outgoing, if set, changes the headers that engines get; in are the client's.
	Outgoing func(out, in http.Header)
	// WrapRefusals makes an [Error] with [CodeRefused] of every answer of an engine that
	// is no success.
	WrapRefusals bool
	// Framing, if set, wraps the bodies of successful answers.
	Framing Framing
	// Stores says that engines may keep its answers: their ids are remembered, and
	// previous_response_id leads back to the backend that has them.
	Stores bool
	// StoredID, if set, makes the endpoint one about a stored answer: it returns the
	// answer's id, and the request goes where that is. There is no model then.
	StoredID func(*http.Request) string
}

// BodyLimit bounds the bodies of an endpoint.
type BodyLimit struct {
	// Bytes is the largest body, after decompression.
	Bytes int64
	// Setting is what errors name as the setting that changes it.
	Setting string
}

// Framing wraps the body of an answer piece by piece. Where one is used,
// [Dialect.StreamError] is written in it, and is enough to tell the client that the
// answer broke off: its connection then ends in good order.
//
// The headers of a wrapped answer leave with its first frame. AWS's client for Go closes
// the body of its request when an answer begins, and cuts the connection if it has not
// looked for the end of that body by then; the first token takes longer than that.
type Framing interface {
	// Header changes the headers of an answer that is wrapped.
	Header(h http.Header)
	// Append appends a piece of the body, wrapped, to dst. It must not keep piece.
	Append(dst, piece []byte) []byte
}

// Handler returns the handler of an endpoint that is forwarded.
func (p *Proxy) Handler(call Call) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := p.newExchange(&call, w, r)
		defer x.end()
		x.serve()
	})
}

// Answer returns the handler of an endpoint that the router answers by itself. An
// error that answer returns is written in the dialect; then it must not have written
// anything.
func (p *Proxy) Answer(route string, d Dialect, answer func(http.ResponseWriter, *http.Request) *Error) http.Handler {
	return p.AnswerTo(route, d, func(w http.ResponseWriter, r *http.Request, _ Visitor) *Error { return answer(w, r) })
}

// AnswerTo is Answer for what depends on who asks. Without Options.Admit that is a visitor who
// may use everything.
func (p *Proxy) AnswerTo(route string, d Dialect, answer func(http.ResponseWriter, *http.Request, Visitor) *Error) http.Handler {
	return p.answer(route, d, func(x *exchange) *Error {
		if err := x.admitWhole(); err != nil {
			return err
		}
		return answer(&x.w, x.r, x.visitor)
	})
}

// Open is Answer for everybody, whoever Options.Admit lets in.
func (p *Proxy) Open(route string, d Dialect, answer func(http.ResponseWriter, *http.Request) *Error) http.Handler {
	return p.answer(route, d, func(x *exchange) *Error { return answer(&x.w, x.r) })
}

func (p *Proxy) answer(route string, d Dialect, answer func(*exchange) *Error) http.Handler {
	call := Call{Route: route, Dialect: d}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := p.newExchange(&call, w, r)
		defer x.end()
		if err := answer(x); err != nil {
			x.refuse(err)
		}
	})
}
