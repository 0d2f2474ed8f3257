package gateway

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/api/rpc"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/telemetry"
	"github.com/warmroute/warmroute/router"
)

// finder finds the backends of a pool.
type finder struct {
	pool      *router.Pool
	discovery *discovery.Discovery

	mu         sync.Mutex // not to be taken after a lock of the discovery
	registered []backends.Spec
}

// The sources that every pool has: the list of the configuration, and those who registered.
const (
	static     = "static"
	registered = "registered"
)

// newFinders makes one for each pool.
func (g *Gateway) newFinders(o Options) error {
	if o.sources == nil {
		o.sources = (*config.Pool).Sources
	}
	for i, pool := range g.router.Pools() { // in the order of the configuration
		sources, err := o.sources(&o.Config.Pools[i])
		if err != nil {
			return err
		}
		g.finders = append(g.finders, &finder{pool: pool, discovery: discovery.New(discovery.Options{
			Sources: append(sources, discovery.Named{Name: registered, Source: discovery.Static(nil)}),
			Apply:   func(specs []backends.Spec) error { return g.apply(pool, specs) },
			Hooks:   g.discoveryHooks(pool),
		})})
	}
	return g.telemetry.ReadDiscovery(g.sources)
}

// finder returns who finds the backends of a pool.
func (g *Gateway) finder(p *router.Pool) *finder {
	i := slices.IndexFunc(g.finders, func(f *finder) bool { return f.pool == p })
	return g.finders[i]
}

// change changes which backends are registered.
func (f *finder) change(how func(before []backends.Spec) []backends.Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := how(slices.Clone(f.registered))
	if err := f.discovery.Set(registered, next); err != nil {
		return err
	}
	f.registered = next
	return nil
}

// registrar takes registered backends into the pools of a gateway, as one source among the
// others.
type registrar struct{ gateway *Gateway }

var _ rpc.Registrar = registrar{}

// Register implements [rpc.Registrar].
func (r registrar) Register(p *router.Pool, spec backends.Spec) error {
	_, identity, err := backends.ParseURL(spec.URL)
	if err != nil {
		return err
	}
	return r.gateway.finder(p).change(func(before []backends.Spec) []backends.Spec {
		return append(without(before, spec.ID(identity)), spec)
	})
}

// Deregister implements [rpc.Registrar].
func (r registrar) Deregister(p *router.Pool, id string) error {
	return r.gateway.finder(p).change(func(before []backends.Spec) []backends.Spec { return without(before, id) })
}

// without returns the specs that are not of a backend.
func without(specs []backends.Spec, id string) []backends.Spec {
	return slices.DeleteFunc(specs, func(s backends.Spec) bool {
		_, identity, err := backends.ParseURL(s.URL)
		return err == nil && s.ID(identity) == id
	})
}

// discover keeps the pools like what their sources say until ctx ends.
func (g *Gateway) discover(ctx context.Context) error {
	var group errgroup.Group
	for _, f := range g.finders {
		group.Go(func() error { return f.discovery.Run(ctx) })
	}
	return group.Wait()
}

// apply makes a list the backends of a pool. Requests in flight on those that leave go on.
func (g *Gateway) apply(p *router.Pool, specs []backends.Spec) error {
	served := takesRequests(p.Backends())
	if _, err := p.SetBackends(specs); err != nil {
		return err
	}
	if served && !takesRequests(p.Backends()) {
		g.logger.Warn("no backend of the pool is left", slog.String("pool", p.Name()))
	}
	return nil
}

// takesRequests reports whether discovery lets any backend have requests.
func takesRequests(list []*backends.Backend) bool {
	return slices.ContainsFunc(list, func(b *backends.Backend) bool { return !b.Unready() })
}

// discoveryHooks write a line for everything that happens.
func (g *Gateway) discoveryHooks(p *router.Pool) discovery.Hooks {
	pool := slog.String("pool", p.Name())
	return discovery.Hooks{
		Changed: func(source string, c discovery.Change) {
			if c.Event == discovery.Replaced {
				g.replaced(p, c.Backend.ID)
			}
			g.logger.Info("backend "+c.Event.String(), pool, slog.String("source", source), slog.String("backend", c.Backend.ID),
				slog.Bool("ready", !c.Backend.Unready))
		},
		Failed: func(source string, err error) {
			g.logger.Warn("discovery fails: what it last found out holds on", pool, slog.String("source", source), slog.String("error", err.Error()))
		},
		Recovered: func(source string) {
			g.logger.Info("discovery works again", pool, slog.String("source", source))
		},
		Refused: func(err error) {
			g.logger.Error("the backends found cannot be taken over", pool, slog.String("error", err.Error()))
		},
	}
}

// replaced takes in that another engine is a backend now.
func (g *Gateway) replaced(p *router.Pool, id string) {
	for _, b := range p.Backends() {
		if b.ID == id {
			g.router.Replaced(p, b, time.Now())
		}
	}
}

// firstAnswers is how long readiness waits for sources that find nothing out: backends of
// other sources may serve meanwhile.
const firstAnswers = 15 * time.Second

// discovering reports whether some source of a pool's backends has yet to give its first
// good answer, until it has had its time.
func (g *Gateway) discovering(p *router.Pool) bool {
	return time.Since(g.began) < firstAnswers && !g.finder(p).discovery.Answered()
}

// sources tells how asking the sources of all pools goes.
func (g *Gateway) sources() []telemetry.PoolSources {
	var all []telemetry.PoolSources
	for _, f := range g.finders {
		all = append(all, telemetry.PoolSources{Pool: f.pool.Name(), Sources: f.discovery.Status()})
	}
	return all
}
