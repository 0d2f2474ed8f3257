package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// GetRoutingConfig implements the generated interface.
func (a *Admin) GetRoutingConfig(_ context.Context, in *v1.GetRoutingConfigRequest) (*v1.GetRoutingConfigResponse, error) {
	pools, err := a.pools(in.GetPool())
	if err != nil {
		return nil, failure(err)
	}
	out := new(v1.GetRoutingConfigResponse)
	for _, p := range pools {
		config := p.Config()
		out.Pools = append(out.Pools, &v1.PoolRouting{
			Pool: p.Name(), Config: routing(config), Changed: routingSet(config, a.settings.Settings(p.Name())),
		})
	}
	return out, nil
}

// SetRoutingConfig implements the generated interface.
func (a *Admin) SetRoutingConfig(ctx context.Context, in *v1.SetRoutingConfigRequest) (*v1.SetRoutingConfigResponse, error) {
	p, err := a.pool(in.GetPool())
	if err != nil {
		return nil, failure(err)
	}
	change, err := changeOf(in, p.Config())
	if err != nil {
		return nil, failure(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	before, after := a.route(p, joined(a.settings.Settings(p.Name()), change))
	a.settings.Set(p.Name(), change)
	if after != before {
		a.audit(ctx, "routing changed", append([]slog.Attr{slog.String("pool", p.Name())}, differences(before, after)...)...)
	}
	return &v1.SetRoutingConfigResponse{Before: routing(before), Config: routing(after), Shared: a.shared}, nil
}

// changeOf checks a change and returns what it sets.
func changeOf(in *v1.SetRoutingConfigRequest, now router.Config) (map[string]string, error) {
	config := in.GetConfig()
	if config != nil && config.Strategy != nil && config.GetStrategy() == "" {
		return nil, invalid("config", "strategy: is empty")
	}
	values := valuesOf(config)
	if len(values) == 0 && !in.GetReset_() {
		return nil, invalid("config", "changes nothing: set a field of it, or reset")
	}
	if _, err := withSettings(now, now, values); err != nil {
		return nil, invalid("config", "%v", err)
	}
	change := make(map[string]string)
	for _, s := range settable {
		if in.GetReset_() {
			change[s.name] = ""
		}
		if text := values[s.name]; text != "" {
			change[s.name] = text
		}
	}
	return change, nil
}

// route has a pool routed as was set, and as configured where nothing was. a.mu is held.
func (a *Admin) route(p *router.Pool, values map[string]string) (before, after router.Config) {
	configured, known := a.configured[p.Name()]
	before = p.Config()
	if !known {
		configured = before
		a.configured[p.Name()] = before
	}
	after, err := withSettings(before, configured, values)
	if err := errors.Join(err, p.SetConfig(after)); err != nil { // whoever set it knows something that this version does not
		a.options.Logger.Warn("what was set makes no sense here", slog.String("pool", p.Name()), slog.String("error", err.Error()))
	}
	return before, after
}

// Configure takes in that the configuration of a pool is another one now. What was set at
// run time stays.
func (a *Admin) Configure(p *router.Pool, c router.Config) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	values := a.settings.Settings(p.Name())
	after, _ := withSettings(c, c, values) // what makes no sense was said when it was adopted
	if err := p.SetConfig(after); err != nil {
		return err
	}
	var hidden []string
	for _, s := range settable {
		before, now := a.configured[p.Name()], a.configured[p.Name()]
		if s.take(&now, c); now != before && values[s.name] != "" {
			hidden = append(hidden, s.name)
		}
	}
	a.configured[p.Name()] = c
	if len(hidden) > 0 {
		a.options.Logger.Info("configured anew, but set at run time: strategy reset goes back to the configuration",
			slog.String("pool", p.Name()), slog.Any("settings", hidden))
	}
	return nil
}

// Adopt takes in that another router has set something in a pool.
func (a *Admin) Adopt(pool string) {
	p := a.options.Router.Find(pool)
	if p == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	values := a.settings.Settings(pool)
	a.adoptStep(pool, values)
	before, after := a.route(p, values)
	if after != before {
		attrs := []slog.Attr{slog.String("pool", pool), slog.String("by", "another router")}
		a.audit(context.Background(), "routing changed", append(attrs, differences(before, after)...)...)
	}
}

// differences say what of a configuration changed, from what to what.
func differences(before, after router.Config) []slog.Attr {
	var attrs []slog.Attr
	differ := func(name string, from, to any) {
		if from != to {
			attrs = append(attrs, slog.String(name, fmt.Sprintf("%v → %v", from, to)))
		}
	}
	differ("strategy", before.Strategy, after.Strategy)
	differ("prefix_length", before.PrefixLength, after.PrefixLength)
	differ("concurrency_threshold", before.ConcurrencyThreshold, after.ConcurrencyThreshold)
	differ("min_match_ratio", before.MinMatchRatio, after.MinMatchRatio)
	differ("w", before.W, after.W)
	return attrs
}
