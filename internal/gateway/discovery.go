package gateway

import (
	"context"
	"log/slog"
	"slices"

	"golang.org/x/sync/errgroup"

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
}

// newFinders makes one for each pool that has more than a list.
func (g *Gateway) newFinders(o Options) error {
	if o.sources == nil {
		o.sources = (*config.Pool).Sources
	}
	for i, pool := range g.router.Pools() { // in the order of the configuration
		sources, err := o.sources(&o.Config.Pools[i])
		if err != nil {
			return err
		}
		if len(sources) > 1 {
			g.finders = append(g.finders, finder{pool, discovery.New(discovery.Options{
				Sources: sources,
				Apply:   func(specs []backends.Spec) error { return g.apply(pool, specs) },
				Hooks:   g.discoveryHooks(pool),
			})})
		}
	}
	if len(g.finders) == 0 {
		return nil
	}
	return g.telemetry.ReadDiscovery(g.sources)
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

// sources tells how asking the sources of all pools goes.
func (g *Gateway) sources() []telemetry.PoolSources {
	var all []telemetry.PoolSources
	for _, f := range g.finders {
		all = append(all, telemetry.PoolSources{Pool: f.pool.Name(), Sources: f.discovery.Status()})
	}
	return all
}
