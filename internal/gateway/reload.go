package gateway

import (
	"log/slog"
	"reflect"
	"slices"
	"sync"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/telemetry"
)

// reloading is what is known of the configuration that was last taken over.
type reloading struct {
	mu      sync.Mutex
	running *config.Config // what is in force, as a file would say it
}

// Reload takes over what another configuration says differently, as far as a running router
// can, and logs every difference. The configuration must be valid. What was set at run time
// of a pool's routing stays until it is reset. Requests in flight are not touched.
func (g *Gateway) Reload(c *config.Config) error {
	g.reloading.mu.Lock()
	defer g.reloading.mu.Unlock()
	before := g.reloading.running
	next := *before // what is not taken over stays as it is, and differs again next time
	next.Pools = slices.Clone(before.Pools)
	plans, changes, err := g.plan(before, c, &next)
	if err == nil {
		for _, one := range plans {
			if err = one(); err != nil {
				break
			}
		}
	}
	g.telemetry.Reloaded(err == nil)
	if err != nil {
		return err
	}
	g.reloading.running = &next
	g.report(changes)
	return nil
}

// plan returns what to do to take over what has changed, and notes in next what that is. The
// error says that something cannot be done, in which case nothing is.
func (g *Gateway) plan(before, c, next *config.Config) (plans []func() error, changes []config.Change, err error) {
	changes = config.Diff(before, c)
	if c.Log.Level != before.Log.Level && g.level != nil {
		level, err := telemetry.ParseLevel(c.Log.Level)
		if err != nil {
			return nil, nil, err
		}
		plans = append(plans, func() error { g.level.Set(level); return nil })
		next.Log.Level = c.Log.Level
	}
	specs := c.PoolSpecs()
	for i := range before.Pools {
		j := slices.IndexFunc(c.Pools, func(p config.Pool) bool { return p.Name == before.Pools[i].Name })
		pool := g.router.Find(before.Pools[i].Name)
		if j < 0 || pool == nil {
			continue // the whole pool is a change
		}
		from, to := &next.Pools[i], &c.Pools[j]
		routing := to.Routing.Router()
		routing.BlockBytes = from.Routing.BlockBytes // which cannot change
		if routing != from.Routing.Router() {
			if err := routing.Validate(); err != nil {
				return nil, nil, err
			}
			plans = append(plans, func() error { return g.operators.Configure(pool, routing) })
		}
		blockBytes := from.Routing.BlockBytes
		from.Routing = to.Routing
		from.Routing.BlockBytes = blockBytes
		if !reflect.DeepEqual(from.Backends, to.Backends) {
			plans = append(plans, func() error { return g.finder(pool).list(specs[j].Backends) })
			from.Backends = to.Backends
		}
	}
	return plans, changes, nil
}

// report logs what has changed, and what has not because a restart is needed for it.
func (g *Gateway) report(changes []config.Change) {
	var waiting []string
	for _, c := range changes {
		if c.Live && !g.waits(c) {
			g.logger.Info("configuration changed", slog.String("key", c.Key), slog.String("from", c.From), slog.String("to", c.To))
		} else {
			waiting = append(waiting, c.String())
		}
	}
	if len(waiting) > 0 {
		g.logger.Warn("configuration changes that need a restart", slog.Any("changes", waiting))
	}
	if len(changes) == 0 {
		g.logger.Info("the configuration is read again and says the same")
	}
}

// waits reports whether a change that a router may take over alive waits for a restart here.
func (g *Gateway) waits(c config.Change) bool { return c.Key == "log.level" && g.level == nil }

// ReloadFailed notes that a configuration could not be read; the one before holds on.
func (g *Gateway) ReloadFailed(err error) {
	g.telemetry.Reloaded(false)
	for _, one := range config.Each(err) {
		g.logger.Error("the configuration is not taken over: the one before holds on", slog.String("error", one.Error()))
	}
}
