package gateway

import (
	"slices"

	"github.com/warmroute/warmroute/api/anthropic"
	"github.com/warmroute/warmroute/api/openai"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/api/rpc"
)

// newRouting makes the routing service. It has the proxy's limits and its endpoints.
func newRouting(o Options, g *Gateway, forward *proxy.Proxy, random func() uint64) (*rpc.Service, error) {
	return rpc.New(rpc.Options{
		Router:    g.router,
		Bodies:    forward.Bodies(),
		Calls:     slices.Concat(openai.Calls(), anthropic.Calls()),
		BodyBytes: int64(o.Config.Limits.BodyBytes),
		MaxQueued: o.Config.Limits.MaxQueued,
		QueueWait: o.Config.Timeouts.Queue,
		AllowPin:  o.Config.AllowBackendPin,
		KeySeed:   o.Config.KeySeed.Reveal(),
		Observe:   g.telemetry.Observe,
		Random:    random,
	})
}
