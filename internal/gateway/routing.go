package gateway

import (
	"net/http"
	"slices"

	"github.com/warmroute/warmroute/api/admin"
	"github.com/warmroute/warmroute/api/anthropic"
	"github.com/warmroute/warmroute/api/dashboard"
	"github.com/warmroute/warmroute/api/openai"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/api/rpc"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/telemetry"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// newRouting makes the routing service. It has the proxy's limits and its endpoints.
func newRouting(o Options, g *Gateway, forward *proxy.Proxy, random func() uint64) (*rpc.Service, error) {
	return rpc.New(rpc.Options{
		Router:      g.router,
		Bodies:      forward.Bodies(),
		Calls:       slices.Concat(openai.Calls(), anthropic.Calls()),
		BodyBytes:   int64(o.Config.Limits.BodyBytes),
		MaxQueued:   o.Config.Limits.MaxQueued,
		QueueWait:   o.Config.Timeouts.Queue,
		QueueShare:  o.Config.Limits.QueueShare,
		Admit:       g.admitCalls(),
		Others:      g.others(),
		AllowPin:    o.Config.AllowBackendPin,
		InjectUsage: o.Config.InjectUsage,
		KeySeed:     o.Config.KeySeed.Reveal(),
		Stopping:    g.stopping.Load,
		Observe:     g.observe,
		Random:      random,
	})
}

// newOperators makes the admin service. What operators set is shared like the index.
func newOperators(o Options, g *Gateway) (*rpc.Admin, error) {
	options := rpc.AdminOptions{
		Router: g.router,
		Hits:   func(pool string) *v1.PoolHits { return poolHits(pool, g.telemetry.Hits(pool)) },
		Recent: g.telemetry.Recent,
		Follow: g.telemetry.Follow,
		Logger: o.Logger,

		Requests: g.lately,

		Stepped: g.telemetry.Stepped,

		Registrar: registrar{g},
		Sharing:   g.sharing,
	}
	if g.shared != nil {
		options.Settings, options.SeekLead, options.Leads = g.shared, g.shared.SeekLead, g.shared.Leads
	}
	operators, err := rpc.NewAdmin(options)
	if err != nil {
		return nil, err
	}
	for i := range o.Config.Pools {
		operators.Automatic(o.Config.Pools[i].Name, o.Config.Pools[i].Tuning.Rules())
	}
	if g.shared == nil {
		return operators, nil
	}
	var pools []string
	for _, p := range g.router.Pools() {
		pools = append(pools, p.Name())
	}
	g.shared.ShareSettings(pools, operators.Adopt)
	return operators, nil
}

// adminSurfaces returns what the admin port serves.
func adminSurfaces(operators *rpc.Admin, page http.Handler, o admin.Options) http.Handler {
	mux := http.NewServeMux()
	operators.Register(mux)
	mux.Handle("/{$}", page)
	mux.Handle(dashboard.Prefix, page)
	mux.Handle("/", admin.New(o))
	return mux
}

// observe takes in the record of a request that has ended.
func (g *Gateway) observe(r *feedback.Record) {
	g.telemetry.Observe(r)
	g.operators.Observe(r)
}

// poolHits describes what became of a pool's prompt tokens.
func poolHits(pool string, h telemetry.PoolHits) *v1.PoolHits {
	out := &v1.PoolHits{Pool: pool, Total: hits(h.HitCount)}
	for _, b := range h.Backends {
		out.Backends = append(out.Backends, &v1.BackendHits{Backend: b.Backend, Hits: hits(b.HitCount)})
	}
	return out
}

func hits(c telemetry.HitCount) *v1.Hits {
	tokens := func(n int) uint64 { return uint64(max(n, 0)) } //nolint:gosec // never negative
	return &v1.Hits{
		PromptTokens:           tokens(c.Prompt),
		AvailableTokens:        tokens(c.Available),
		CapturedTokens:         tokens(c.Captured),
		PredictedTokens:        tokens(c.Predicted),
		ReportedPromptTokens:   tokens(c.ReportedPrompt),
		DeliveredTokens:        tokens(c.Delivered),
		LostToNoReuseTokens:    tokens(c.NoReuse),
		LostToOverflowTokens:   tokens(c.Overflow),
		LostToLoadChoiceTokens: tokens(c.LoadChoice),
		LostToStaleIndexTokens: tokens(c.StaleIndex),
		UnreportedTokens:       tokens(c.Unreported),
	}
}
