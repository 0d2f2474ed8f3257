package gateway

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/telemetry"
	"github.com/warmroute/warmroute/router"
)

// reloading is what is known of the configuration that was last taken over.
type reloading struct {
	mu      sync.Mutex
	running *config.Config // what is in force, as a file would say it
}

// Reload takes over what another configuration says differently, as far as a running router
// can, and logs every difference, or why it is refused. The configuration must be valid. What was set at run time
// of a pool's routing stays until it is reset. Requests in flight are not touched. On an
// error nothing has changed.
func (g *Gateway) Reload(c *config.Config) error {
	g.reloading.mu.Lock()
	defer g.reloading.mu.Unlock()
	before := g.reloading.running
	next := *before // what is not taken over stays as it is, and differs again next time
	next.Pools = slices.Clone(before.Pools)
	steps, changes, err := g.plan(before, c, &next)
	if err == nil {
		err = take(steps)
	}
	if err != nil {
		g.ReloadFailed(err)
		return err
	}
	g.telemetry.Reloaded(true)
	g.reloading.running = &next
	g.report(changes)
	return nil
}

// step is a part of a reload.
type step struct {
	// prepare does what may refuse, and changes nothing that anybody sees; nil where nothing can.
	prepare func() error
	// drop gives up what was prepared, where a later step refuses; nil where there is nothing.
	drop func()
	// commit does what was prepared, which nothing refuses any more; nil where there is nothing.
	commit func()
}

// take takes all steps, or none and returns why: all are prepared before the first is committed.
func take(steps []step) error {
	for i, s := range steps {
		if s.prepare == nil {
			continue
		}
		if err := s.prepare(); err != nil {
			for _, done := range slices.Backward(steps[:i]) {
				if done.drop != nil {
					done.drop()
				}
			}
			return err
		}
	}
	for _, s := range steps {
		if s.commit != nil {
			s.commit()
		}
	}
	return nil
}

// plan returns what to do to take over what has changed, and notes in next what that is. The
// error says that something cannot be done, in which case nothing is.
func (g *Gateway) plan(before, c, next *config.Config) (steps []step, changes []config.Change, err error) {
	changes = config.Diff(before, c)
	if c.Log.Level != before.Log.Level && g.level != nil {
		level, err := telemetry.ParseLevel(c.Log.Level)
		if err != nil {
			return nil, nil, err
		}
		steps = append(steps, step{commit: func() { g.level.Set(level) }})
		next.Log.Level = c.Log.Level
	}
	for i, k := range c.Keys {
		for _, name := range k.Pools {
			if g.router.Find(name) == nil {
				return nil, nil, fmt.Errorf("keys[%d].pools: the pool %q is there only after a restart", i, name)
			}
		}
	}
	if len(before.Keys) > 0 && len(c.Keys) > 0 {
		next.Keys = c.Keys
		steps = append(steps, step{commit: func() { g.ring.Replace(keysOf(c.Keys)) }})
	} else {
		for i := range changes { // whether there are keys decides more than who has one
			changes[i].Live = changes[i].Live && !strings.HasPrefix(changes[i].Key, "keys[")
		}
	}
	next.AdminKeys, next.MetricsWithoutKey = c.AdminKeys, c.MetricsWithoutKey
	if next.AdminOpen() { // where it listens does not change, nor which certificates it wants
		return nil, nil, fmt.Errorf("admin_keys: %q, where the admin port listens until a restart, must not be without", next.AdminListen)
	}
	steps = append(steps, step{commit: func() { g.adminGate.configure(c) }})
	specs := c.PoolSpecs()
	lists := make(map[*router.Pool][]backends.Spec)
	var listing []step
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
			steps = append(steps, g.configure(pool, routing))
		}
		if to.Tuning != from.Tuning {
			rules := to.Tuning.Rules()
			steps = append(steps, step{commit: func() { g.operators.Automatic(pool.Name(), rules) }})
			from.Tuning = to.Tuning
		}
		blockBytes := from.Routing.BlockBytes
		from.Routing = to.Routing
		from.Routing.BlockBytes = blockBytes
		if !reflect.DeepEqual(from.Backends, to.Backends) {
			listing = append(listing, g.list(pool, specs[j].Backends, lists))
			from.Backends = to.Backends
		}
	}
	// Room is the last that may be refused: what is reserved for some is taken from all others. And
	// lists are committed first: whoever registers a backend waits for them, and is waited for by
	// those who change how its pool is routed.
	listing = append(listing, step{prepare: func() error { return g.router.Reserve(lists) }})
	return append(listing, steps...), changes, nil
}

// configure has a pool routed by a valid configuration, which cannot fail.
func (g *Gateway) configure(pool *router.Pool, c router.Config) step {
	return step{commit: func() {
		if err := g.operators.Configure(pool, c); err != nil {
			g.logger.Error("a valid configuration is not taken over", slog.String("pool", pool.Name()), slog.String("error", err.Error()))
		}
	}}
}

// list replaces what the configuration lists of a pool, and notes in lists the backends that the
// pool will have then.
func (g *Gateway) list(pool *router.Pool, specs []backends.Spec, lists map[*router.Pool][]backends.Spec) step {
	var draft *discovery.Draft
	return step{
		prepare: func() (err error) {
			if draft, err = g.finder(pool).discovery.Draft(static, specs); err != nil {
				return fmt.Errorf("pool %q: %w", pool.Name(), err)
			}
			lists[pool] = draft.Specs()
			return nil
		},
		drop: func() { draft.Discard() },
		commit: func() {
			if err := draft.Commit(); err != nil {
				g.logger.Error("backends that there is room for are not taken over", slog.String("pool", pool.Name()), slog.String("error", err.Error()))
			}
		},
	}
}

// report logs what has changed, and what has not because a restart is needed for it.
func (g *Gateway) report(changes []config.Change) {
	var waiting []string
	for _, c := range changes {
		switch {
		case !c.Live || g.waits(c):
			waiting = append(waiting, c.String())
		case c.Added:
			g.logger.Info("configuration changed", slog.String("key", c.Key), slog.String("change", "added"))
		case c.Removed:
			g.logger.Info("configuration changed", slog.String("key", c.Key), slog.String("change", "removed"))
		default:
			g.logger.Info("configuration changed", slog.String("key", c.Key), slog.String("from", c.From), slog.String("to", c.To))
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

// ReloadFailed notes that a configuration cannot be read, or taken over; the one before holds on.
func (g *Gateway) ReloadFailed(err error) {
	g.telemetry.Reloaded(false)
	for _, one := range config.Each(err) {
		g.logger.Error("the configuration is not taken over: the one before holds on", slog.String("error", one.Error()))
	}
}
