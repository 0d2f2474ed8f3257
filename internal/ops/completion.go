package ops

import (
	"context"
	"time"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// completeTime bounds how long a shell waits for names that a router is asked for.
const completeTime = time.Second

// poolFlag gives the command the flag --pool.
func (c *call) poolFlag(pool *string, usage string) {
	c.cmd.Flags().StringVar(pool, "pool", "", usage)
	cli.CompleteFlag(c.cmd, "pool", c.pools)
}

// strategies are the names of strategies.
func strategies(context.Context) []string { return router.Strategies() }

// pools are the names of the router's pools; none where it does not answer.
func (c *call) pools(ctx context.Context) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	if c.check() != nil {
		return nil
	}
	out, err := c.admin().GetRoutingConfig(ctx, &v1.GetRoutingConfigRequest{})
	if err != nil {
		return nil
	}
	for _, p := range out.GetPools() {
		names = append(names, p.GetPool())
	}
	return names
}

// backends returns the ids of the router's backends that are wanted; none where it does not
// answer.
func (c *call) backends(wanted func(*v1.Backend) bool) func(ctx context.Context) []string {
	return func(ctx context.Context) (ids []string) {
		ctx, cancel := context.WithTimeout(ctx, completeTime)
		defer cancel()
		if c.check() != nil {
			return nil
		}
		out, err := c.admin().ListBackends(ctx, &v1.ListBackendsRequest{})
		if err != nil {
			return nil
		}
		for _, b := range out.GetBackends() {
			if wanted(b) {
				ids = append(ids, b.GetId())
			}
		}
		return ids
	}
}
