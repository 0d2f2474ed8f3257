package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
	"github.com/warmroute/warmroute/router"
)

// Dialect is what records name as the dialect of requests that were routed here.
const Dialect = "rpc"

// The bounds of leases.
const (
	DefaultLease = 120 * time.Second
	MinLease     = time.Second
	MaxLease     = time.Hour
	// MaxKeyedLease is the longest for a caller with a key: one that vanishes, or never reports,
	// keeps its slots from other tenants no longer. What takes longer is renewed by reports.
	MaxKeyedLease = 10 * time.Minute
	// DefaultMaxLeases is how many decisions may be open at once.
	DefaultMaxLeases = 1 << 17
)

// Options are what a routing service works with. Router and Bodies are needed.
type Options struct {
	// Router decides.
	Router *router.Router
	// Bodies is the budget of request bodies, which the proxy shares.
	Bodies *intake.Budget
	// Calls are the endpoints whose requests can be routed: the proxy's.
	Calls []proxy.Call
	// BodyBytes is the largest body. Default [proxy.DefaultBodyBytes].
	BodyBytes int64
	// MaxQueued is how many requests of one pool may wait for a slot where it is routed
	// with on_saturation queue, and QueueWait for how long. Default as the proxy's.
	MaxQueued int
	QueueWait time.Duration
	// QueueShare is the part of MaxQueued that one key's tenant may have, of MaxLeases, and of
	// each pool's slots by decisions that are open. Default as the proxy's.
	QueueShare float64
	// MaxLeases is how many decisions may be open at once. Default [DefaultMaxLeases].
	MaxLeases int
	// Others, if set, reports whether a pool is for anybody beside an owner
	// ([proxy.Visitor.Owner]): whoever has it alone may have all its slots. Default: it is.
	Others func(owner, pool string) bool
	// AllowPin lets a request name its backend.
	AllowPin bool
	// InjectUsage tells callers to ask engines for usage on streams whose request does not
	// say.
	InjectUsage bool
	// KeySeed is the fleet-wide secret of the block keys, empty for none.
	KeySeed string
	// Stopping, if set, reports whether the process is shutting down: it still serves, and its
	// health says that it does not.
	Stopping func() bool
	// Admit, if set, says who a call is from, by its headers, or why it is not let in. The
	// visitor's Check is asked for decisions and explanations, not for reports. Default:
	// everybody is let in.
	Admit func(*http.Request) (proxy.Visitor, *proxy.Error)
	// Observe is given the record of every routed request once, after its end. May be
	// nil.
	Observe func(*feedback.Record)
	// Logger is told of faults. Default: nothing is logged.
	Logger *slog.Logger
	// Random returns uniformly random values. Default math/rand/v2.
	Random func() uint64
}

// Service answers the calls of RoutingService. Its methods may be called at the same
// time. It must be closed.
type Service struct {
	options Options
	line    intake.Line
	calls   map[string]*proxy.Call
	open    *leases[*decision]
	held    *holdings // by the owners of open's
	closed  atomic.Bool
}

// The generated interface.
var _ warmroutev1connect.RoutingServiceHandler = (*Service)(nil)

// New returns a routing service.
func New(o Options) (*Service, error) {
	switch {
	case o.Router == nil:
		return nil, errors.New("a routing service needs a router")
	case o.Bodies == nil:
		return nil, errors.New("a routing service needs a budget of bodies")
	case o.BodyBytes < 0 || o.MaxQueued < 0 || o.MaxLeases < 0 || o.QueueWait < 0:
		return nil, fmt.Errorf("a limit is negative: %d bytes, %d queued, %d leases, %v of waiting", o.BodyBytes, o.MaxQueued, o.MaxLeases, o.QueueWait)
	}
	o.BodyBytes = orDefault(o.BodyBytes, proxy.DefaultBodyBytes)
	o.MaxQueued = orDefault(o.MaxQueued, proxy.DefaultMaxQueued)
	o.QueueWait = orDefault(o.QueueWait, proxy.DefaultQueueWait)
	o.QueueShare = cmp.Or(o.QueueShare, proxy.DefaultQueueShare)
	o.MaxLeases = orDefault(o.MaxLeases, DefaultMaxLeases)
	if o.Others == nil {
		o.Others = func(string, string) bool { return true }
	}
	if o.Stopping == nil {
		o.Stopping = func() bool { return false }
	}
	if o.Observe == nil {
		o.Observe = func(*feedback.Record) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	s := &Service{
		options: o, line: intake.NewLine(o.MaxQueued, o.QueueShare, o.QueueWait), calls: make(map[string]*proxy.Call),
		held: newHoldings(o.MaxLeases, o.QueueShare, o.Others),
	}
	for i := range o.Calls {
		s.calls[o.Calls[i].Route] = &o.Calls[i]
	}
	s.open = newLeases(o.MaxLeases, s.expire)
	return s, nil
}

func orDefault[T int | int64 | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

// compressFrom is the smallest answer that is compressed where its caller can take that, in
// bytes: an explanation of a large pool may be as long.
const compressFrom = 16 << 10

// Register adds the service to mux, with health and reflection.
func (s *Service) Register(mux *http.ServeMux) {
	s.mount(mux, s)
	small := connect.WithReadMaxBytes(1 << 20)
	handle := func(path string, h http.Handler) { mux.Handle(path, s.bounded(h)) }
	handle(grpchealth.NewHandler(s, small))
	reflector := grpcreflect.NewStaticReflector(warmroutev1connect.RoutingServiceName)
	keyed := func(path string, h http.Handler) { handle(path, s.admitted(h)) }
	keyed(grpcreflect.NewHandlerV1(reflector, small))
	keyed(grpcreflect.NewHandlerV1Alpha(reflector, small))
}

// Check implements [grpchealth.Checker].
func (s *Service) Check(ctx context.Context, in *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	known, err := grpchealth.NewStaticChecker(warmroutev1connect.RoutingServiceName).Check(ctx, in)
	if err == nil && s.options.Stopping() {
		known.Status = grpchealth.StatusNotServing
	}
	return known, err
}

// mount adds to mux what answers the calls of RoutingService, within the service's bounds.
func (s *Service) mount(mux *http.ServeMux, answers warmroutev1connect.RoutingServiceHandler) {
	path, h := warmroutev1connect.NewRoutingServiceHandler(answers,
		// A body in JSON is in base64, which takes four bytes for three.
		connect.WithReadMaxBytes(int(s.options.BodyBytes/3*4)+1<<20),
		// To compress an answer takes longer than to decide it.
		connect.WithCompressMinBytes(compressFrom),
		jsonCodecs(),
	)
	mux.Handle(path, s.bounded(s.admitted(h)))
}

// OpenDecisions is how many decisions wait for their report.
func (s *Service) OpenDecisions() int { return s.open.len() }

// Close ends all decisions that are open, as if their leases were over. Requests that
// come later are refused.
func (s *Service) Close() {
	s.closed.Store(true)
	s.open.close()
}
