package demo

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/gateway"
	"github.com/warmroute/warmroute/router"
)

// grace is how long requests may go on when the demo ends. By then there are none,
// unless somebody pressed Ctrl-C.
const grace = time.Second

// front is the router of a fleet: the same object that `warmroute serve` runs.
type front struct {
	url, admin string
	router     *router.Router
	requests   *recent.Store // that ended last
}

// startFront starts a router over the engines that runs until ctx ends.
func startFront(ctx context.Context, group *errgroup.Group, urls []string, strategy, admin string, seed uint64) (*front, error) {
	c, _, err := config.FromBackends(urls)
	if err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	c.Listen, c.AdminListen = anyPort, admin
	c.Timeouts.ShutdownGrace = grace
	c.Pools[0].Models = []config.Model{{Name: model}}
	c.Pools[0].Routing.Strategy = strategy
	g, err := gateway.New(gateway.Options{Config: c, Version: "demo", Seed: seed})
	if err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	group.Go(func() error { return g.Run(ctx) })
	return &front{
		url: "http://" + g.Addr().String(), admin: "http://" + g.AdminAddr().String(), router: g.Router(), requests: g.Requests(),
	}, nil
}
