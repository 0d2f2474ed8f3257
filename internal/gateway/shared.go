package gateway

import (
	"context"
	"time"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/redisindex"
	"github.com/warmroute/warmroute/router"
)

// newIndex returns the index that decides: this router's own, or one that it shares with
// others where the configuration names Redis.
func (g *Gateway) newIndex() (kvindex.Index, error) {
	memory := kvindex.NewMemory(kvindex.MemoryConfig{MaxBlocks: g.config.Limits.IndexBlocks})
	c, ok, err := g.config.RedisConfig()
	if err != nil || !ok {
		return memory, err
	}
	c.Logger = g.logger
	if g.shared, err = redisindex.New(c, memory); err != nil {
		return nil, err
	}
	return g.shared, g.telemetry.ReadRedis(g.shared.Status)
}

// hooks are told what the router does.
func (g *Gateway) hooks() router.Hooks {
	hooks := g.telemetry.Hooks()
	if g.shared != nil {
		hooks.Pinned = func(p *router.Pool, key router.PinKey, backend string, at time.Time) {
			g.shared.Pin(p.Name(), key, backend, at)
		}
	}
	return hooks
}

// share keeps the index like that of the other routers until ctx ends.
func (g *Gateway) share(ctx context.Context) error {
	if g.shared == nil {
		return nil
	}
	return g.shared.Run(ctx)
}

// sharing tells how far the index is shared; ok is false where it is not meant to be.
func (g *Gateway) sharing() (status redisindex.Status, ok bool) {
	if g.shared == nil {
		return redisindex.Status{}, false
	}
	return g.shared.Status(), true
}

// unshare gives up the connections of an index that is not run.
func (g *Gateway) unshare() {
	if g.shared != nil {
		g.shared.Close()
	}
}
