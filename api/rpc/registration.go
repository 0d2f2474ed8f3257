package rpc

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/warmroute/warmroute/backends"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// maxRank is the highest data-parallel rank.
const maxRank = 65535

// registration is a backend that stays as long as it is registered again.
type registration struct {
	pool *router.Pool
	id   string
}

// Registrar takes backends that are registered into pools, and out of them.
type Registrar interface {
	// Register adds a backend, or changes the one that was registered with its id.
	Register(p *router.Pool, spec backends.Spec) error
	// Deregister removes a registered backend.
	Deregister(p *router.Pool, id string) error
}

// pools is the registrar that adds to pools and removes from them at once.
type pools struct{}

// Register implements [Registrar].
func (pools) Register(p *router.Pool, spec backends.Spec) error { return p.AddBackend(spec) }

// Deregister implements [Registrar].
func (pools) Deregister(p *router.Pool, id string) error { return p.RemoveBackend(id) }

func registrationKey(p *router.Pool, id string) string { return p.Name() + "\x00" + id }

// RegisterBackend implements the generated interface.
func (a *Admin) RegisterBackend(ctx context.Context, in *v1.RegisterBackendRequest) (*v1.RegisterBackendResponse, error) {
	p, err := a.pool(in.GetPool())
	if err != nil {
		return nil, failure(err)
	}
	lease, err := leaseOf(in.GetLease(), DefaultLease, MaxLease)
	if err != nil {
		return nil, failure(err)
	}
	spec, id, err := specOf(in)
	if err != nil {
		return nil, failure(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := registrationKey(p, id)
	_, again := a.own[key]
	if !again && has(p, id) {
		return nil, failure(&takenError{id})
	}
	if err := a.options.Registrar.Register(p, spec); err != nil {
		return nil, failure(err)
	}
	deadline := time.Now().Add(lease)
	a.own[key] = struct{}{}
	a.registered.put(key, registration{p, id}, deadline)
	if !again {
		a.audit(ctx, "backend registered", slog.String("pool", p.Name()), slog.String("backend", id), slog.Duration("lease", lease))
	}
	return &v1.RegisterBackendResponse{Backend: id, LeaseDeadline: timestamppb.New(deadline)}, nil
}

// specOf checks what is registered and returns it with its id.
func specOf(in *v1.RegisterBackendRequest) (backends.Spec, string, error) {
	url, id, err := backends.ParseURL(in.GetUrl())
	if err != nil {
		return backends.Spec{}, "", invalid("url", "%v", err)
	}
	spec := backends.Spec{URL: url.String(), Rank: backends.NoRank, Weight: in.GetWeight(), ConcurrencyThreshold: int(in.GetConcurrencyThreshold())}
	switch {
	case in.GetRank() > maxRank:
		return spec, "", invalid("rank", "%d is not in 0..%d", in.GetRank(), maxRank)
	case !(spec.Weight >= 0 && spec.Weight <= maxWeight):
		return spec, "", invalid("weight", "%v is not in 0..%v", spec.Weight, maxWeight)
	case spec.ConcurrencyThreshold > router.MaxConcurrencyThreshold:
		return spec, "", invalid("concurrency_threshold", "%d is not in 0..%d", spec.ConcurrencyThreshold, router.MaxConcurrencyThreshold)
	}
	if in.Rank != nil {
		spec.Rank = int(in.GetRank())
	}
	return spec, spec.ID(id), nil
}

// maxWeight is the largest weight of a backend.
const maxWeight = 1000.0

// has reports whether a pool has a backend, one that has just left apart.
func has(p *router.Pool, id string) bool {
	return slices.ContainsFunc(p.Backends(), func(b *backends.Backend) bool { return b.ID == id && !b.Unready() })
}

// DeregisterBackend implements the generated interface.
func (a *Admin) DeregisterBackend(ctx context.Context, in *v1.DeregisterBackendRequest) (*v1.DeregisterBackendResponse, error) {
	p, b, err := a.backend(in.GetPool(), in.GetBackend())
	if err != nil {
		return nil, failure(err)
	}
	if _, ok := a.registered.take(registrationKey(p, b.ID)); !ok {
		return nil, failure(invalid("backend", "%q was not registered: it is in the configuration", b.ID))
	}
	a.leave(p, b.ID)
	a.audit(ctx, "backend deregistered", slog.String("pool", p.Name()), slog.String("backend", b.ID))
	return &v1.DeregisterBackendResponse{}, nil
}

// expire removes a backend that was not registered again.
func (a *Admin) expire(_ string, r registration) {
	a.leave(r.pool, r.id)
	a.audit(context.Background(), "backend left: it was not registered again", slog.String("pool", r.pool.Name()), slog.String("backend", r.id))
}

// leave takes a backend out of its pool, unless it has been registered again.
func (a *Admin) leave(p *router.Pool, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := registrationKey(p, id)
	if _, _, again := a.registered.get(key); again {
		return
	}
	delete(a.own, key)
	if err := a.options.Registrar.Deregister(p, id); err != nil { // the others were all valid before
		a.options.Logger.Error("backend cannot be removed", slog.String("pool", p.Name()), slog.String("backend", id), slog.String("error", err.Error()))
	}
}
