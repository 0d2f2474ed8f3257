package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/feedback/tuning"
	"github.com/warmroute/warmroute/kvindex/redisindex"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
	"github.com/warmroute/warmroute/router"
)

// AdminOptions are what the admin service works with. Only Router is needed.
type AdminOptions struct {
	// Router is whose pools are shown and changed.
	Router *router.Router
	// Hits says what became of the prompt tokens of a pool since the process started. What it
	// returns is not changed any more. Default: nothing is known.
	Hits func(pool string) *v1.PoolHits
	// Recent returns up to n of the latest access records, newest first. Default: none.
	Recent func(n int) []feedback.Record
	// Follow returns access records as they come, how many were left out since it was last
	// asked, and a function that ends it. Default: none ever come.
	Follow func() (records <-chan feedback.Record, missed func() uint64, stop func())
	// Requests remembers the requests that ended last, which advice rests on. Default: there is
	// no advice.
	Requests *recent.Store
	// Sharing tells how far the index is shared with other routers; ok is false where it is
	// not meant to be. Default: it is not.
	Sharing func() (status redisindex.Status, ok bool)
	// Settings keeps what operators change of how pools are routed, for other routers too;
	// whoever has news of it calls [Admin.Adopt]. Default: it is kept until the process ends.
	Settings Settings
	// SeekLead says whether this router is there to be the one that acts in automatic mode, and
	// Leads whether it is. Default: it is the only one.
	SeekLead func(wanted bool)
	Leads    func() bool
	// Stepped is told of every step that automatic mode makes here, and of what becomes of it.
	// Default: nobody is.
	Stepped func(pool string, s *tuning.Step)
	// Registrar takes in backends that are registered. Default: the pools themselves.
	Registrar Registrar
	// Logger gets a line for everything that an operator changes. Default: nothing is
	// logged.
	Logger *slog.Logger
}

// Admin answers the calls of AdminService. Its methods may be called at the same time. It
// must be closed.
type Admin struct {
	options    AdminOptions
	registered *leases[registration]
	history    *history
	advisor    *advisor
	steps      *steps
	tuners     tuners

	mu  sync.Mutex          // orders changes: each reads what is there, and writes it back
	own map[string]struct{} // keys of registered backends that are in their pools; guarded by mu
	// configured is how pools were routed before anybody changed that; guarded by mu.
	configured map[string]router.Config
	settings   Settings
	shared     bool // the settings are not only this router's
}

// The generated interface.
var _ warmroutev1connect.AdminServiceHandler = (*Admin)(nil)

// NewAdmin returns an admin service.
func NewAdmin(o AdminOptions) (*Admin, error) {
	if o.Router == nil {
		return nil, errors.New("an admin service needs a router")
	}
	if o.Hits == nil {
		o.Hits = func(pool string) *v1.PoolHits { return &v1.PoolHits{Pool: pool, Total: &v1.Hits{}} }
	}
	if o.Recent == nil {
		o.Recent = func(int) []feedback.Record { return nil }
	}
	if o.Follow == nil {
		o.Follow = func() (<-chan feedback.Record, func() uint64, func()) {
			return nil, func() uint64 { return 0 }, func() {}
		}
	}
	if o.Sharing == nil {
		o.Sharing = func() (redisindex.Status, bool) { return redisindex.Status{}, false }
	}
	if o.SeekLead == nil {
		o.SeekLead = func(bool) {}
	}
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	if o.Stepped == nil {
		o.Stepped = func(string, *tuning.Step) {}
	}
	if o.Registrar == nil {
		o.Registrar = pools{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Admin{
		options: o, own: make(map[string]struct{}), configured: make(map[string]router.Config),
		settings: o.Settings, shared: o.Settings != nil,
	}
	if !a.shared {
		a.settings = new(ownSettings)
	}
	for _, p := range o.Router.Pools() {
		a.configured[p.Name()] = p.Config()
	}
	a.advisor = newAdvisor(o.Requests, o.Logger)
	a.registered = newLeases(0, a.expire)
	hits := func() (all []*v1.PoolHits) {
		for _, p := range o.Router.Pools() {
			all = append(all, o.Hits(p.Name()))
		}
		return all
	}
	a.history, a.steps = newHistory(hits), newSteps(hits)
	return a, nil
}

// Register adds the service to mux.
func (a *Admin) Register(mux *http.ServeMux) {
	path, h := warmroutev1connect.NewAdminServiceHandler(a, connect.WithReadMaxBytes(maxAdminMessage), jsonCodecs())
	mux.Handle(path, ownPages(h))
}

// maxAdminMessage bounds a request, in bytes.
const maxAdminMessage = 1 << 20

// Close removes the backends that were registered, lets no more expire, and ends the making of
// advice.
func (a *Admin) Close() {
	a.advisor.close()
	a.history.close()
	a.steps.close()
	a.registered.close()
}

// audit logs what an operator changed.
func (a *Admin) audit(ctx context.Context, what string, attrs ...slog.Attr) {
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok {
		attrs = append(attrs, slog.String("by", call.Peer().Addr))
	}
	if key := operator(ctx); key != "" {
		attrs = append(attrs, slog.String("key", key))
	}
	a.options.Logger.LogAttrs(ctx, slog.LevelInfo, what, attrs...)
}

// pools returns the pool with a name, or all of them.
func (a *Admin) pools(name string) ([]*router.Pool, error) {
	if name == "" {
		return a.options.Router.Pools(), nil
	}
	p, err := a.pool(name)
	return []*router.Pool{p}, err
}

// pool returns the pool with a name; without one, the only pool there is.
func (a *Admin) pool(name string) (*router.Pool, error) {
	if all := a.options.Router.Pools(); name == "" && len(all) == 1 {
		return all[0], nil
	}
	if name == "" {
		return nil, invalid("pool", "is missing, and there are several")
	}
	if p := a.options.Router.Find(name); p != nil {
		return p, nil
	}
	return nil, &missingError{"pool", name}
}

// backend finds a backend by id, in one pool or wherever it is.
func (a *Admin) backend(pool, id string) (*router.Pool, *backends.Backend, error) {
	if id == "" {
		return nil, nil, invalid("backend", "is missing")
	}
	pools, err := a.pools(pool)
	if err != nil {
		return nil, nil, err
	}
	var in *router.Pool
	var found *backends.Backend
	for _, p := range pools {
		for _, b := range p.Backends() {
			if b.ID != id {
				continue
			}
			if found != nil {
				return nil, nil, invalid("pool", "is missing, and both %q and %q have a backend %q", in.Name(), p.Name(), id)
			}
			in, found = p, b
		}
	}
	if found == nil {
		return nil, nil, &missingError{"backend", id}
	}
	return in, found, nil
}

// ListBackends implements the generated interface.
func (a *Admin) ListBackends(_ context.Context, in *v1.ListBackendsRequest) (*v1.ListBackendsResponse, error) {
	pools, err := a.pools(in.GetPool())
	if err != nil {
		return nil, failure(err)
	}
	out := new(v1.ListBackendsResponse)
	for _, p := range pools {
		for _, s := range p.Status(time.Now()) {
			b := status(p, &s)
			if _, deadline, ok := a.registered.get(registrationKey(p, b.GetId())); ok {
				b.Registered, b.LeaseDeadline = true, timestamppb.New(deadline)
			}
			out.Backends = append(out.Backends, b)
		}
	}
	return out, nil
}

// status describes a backend.
func status(p *router.Pool, s *router.BackendStatus) *v1.Backend {
	out := &v1.Backend{
		Pool: p.Name(), Id: s.Backend.ID, Url: s.Backend.Address(), State: s.State.String(), Weight: s.Backend.Weight(),
		InFlight: count(s.InFlight), Limit: count(s.Limit), QueuedTokens: count(s.Queued), PrefillRate: s.PrefillRate,
		Silent: s.Silent, NeverConfirmed: s.Hopeless,
	}
	if s.Backend.Rank != backends.NoRank {
		out.Rank = new(count(s.Backend.Rank))
	}
	models, _ := s.Backend.Models()
	for _, m := range models {
		out.Models = append(out.Models, m.ID)
	}
	if s.Engine.HasRunning {
		out.EngineRunning = new(count(s.Engine.Running))
	}
	if s.Engine.HasWaiting {
		out.EngineWaiting = new(count(s.Engine.Waiting))
	}
	if s.Engine.HasKVUsage {
		out.KvUsage = new(s.Engine.KVUsage)
	}
	return out
}

// DrainBackend implements the generated interface.
func (a *Admin) DrainBackend(ctx context.Context, in *v1.DrainBackendRequest) (*v1.DrainBackendResponse, error) {
	p, b, err := a.backend(in.GetPool(), in.GetBackend())
	if err != nil {
		return nil, failure(err)
	}
	b.Drain(true)
	a.audit(ctx, "backend drained", slog.String("pool", p.Name()), slog.String("backend", b.ID))
	return &v1.DrainBackendResponse{InFlight: count(b.InFlight())}, nil
}

// UndrainBackend implements the generated interface.
func (a *Admin) UndrainBackend(ctx context.Context, in *v1.UndrainBackendRequest) (*v1.UndrainBackendResponse, error) {
	p, b, err := a.backend(in.GetPool(), in.GetBackend())
	if err != nil {
		return nil, failure(err)
	}
	b.Drain(false)
	a.audit(ctx, "backend undrained", slog.String("pool", p.Name()), slog.String("backend", b.ID))
	return &v1.UndrainBackendResponse{}, nil
}

// GetHitReport implements the generated interface.
func (a *Admin) GetHitReport(_ context.Context, in *v1.GetHitReportRequest) (*v1.GetHitReportResponse, error) {
	pools, err := a.pools(in.GetPool())
	if err != nil {
		return nil, failure(err)
	}
	then := counts{at: a.history.began}
	if in.GetSince() != nil {
		since, err := validSince(in.GetSince())
		if err != nil {
			return nil, failure(err)
		}
		then = a.history.before(since)
	}
	out := &v1.GetHitReportResponse{From: timestamppb.New(then.at)}
	for _, p := range pools {
		out.Pools = append(out.Pools, then.sinceThen(a.options.Hits(p.Name())))
	}
	return out, nil
}

// validSince checks how far back somebody asks.
func validSince(since *durationpb.Duration) (time.Duration, error) {
	d := since.AsDuration()
	if since.CheckValid() != nil || d < minSince || d > maxSince {
		return 0, invalid("since", "%v is not in %v..%v", d, minSince, maxSince)
	}
	return d, nil
}

// GetIndexStats implements the generated interface.
func (a *Admin) GetIndexStats(_ context.Context, in *v1.GetIndexStatsRequest) (*v1.GetIndexStatsResponse, error) {
	pools, err := a.pools(in.GetPool())
	if err != nil {
		return nil, failure(err)
	}
	out := &v1.GetIndexStatsResponse{Sharing: a.sharing()}
	for _, p := range pools {
		for _, s := range p.Status(time.Now()) {
			one := &v1.IndexStats{
				Pool: p.Name(), Backend: s.Backend.ID, Blocks: uint64(max(s.Index.Blocks, 0)), Capacity: uint64(max(s.Index.Capacity, 0)), //nolint:gosec // never negative
				Evicted: s.Index.Evicted, BlockBytes: count(p.Config().BlockBytes),
			}
			if !s.Horizon.IsZero() {
				one.Horizon = timestamppb.New(s.Horizon)
			}
			out.Backends = append(out.Backends, one)
		}
	}
	return out, nil
}
