package rpc

import (
	"context"
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
		out.Pools = append(out.Pools, &v1.PoolRouting{Pool: p.Name(), Config: routing(p.Config())})
	}
	return out, nil
}

// SetRoutingConfig implements the generated interface.
func (a *Admin) SetRoutingConfig(ctx context.Context, in *v1.SetRoutingConfigRequest) (*v1.SetRoutingConfigResponse, error) {
	p, err := a.pool(in.GetPool())
	if err != nil {
		return nil, failure(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	before := p.Config()
	after := changed(before, in.GetConfig())
	if err := p.SetConfig(after); err != nil {
		return nil, failure(invalid("config", "%v", err))
	}
	if after != before {
		a.audit(ctx, "routing changed", append([]slog.Attr{slog.String("pool", p.Name())}, differences(before, after)...)...)
		a.options.Changed(p, after)
	}
	return &v1.SetRoutingConfigResponse{Before: routing(before), Config: routing(after)}, nil
}

// routing describes how a pool is routed.
func routing(c router.Config) *v1.RoutingConfig {
	return &v1.RoutingConfig{
		Strategy:             new(c.Strategy),
		PrefixLength:         new(count(c.PrefixLength)),
		ConcurrencyThreshold: new(count(c.ConcurrencyThreshold)),
		MinMatchRatio:        new(c.MinMatchRatio),
		W:                    new(c.W),
	}
}

// changed is a configuration with a change made to it.
func changed(c router.Config, change *v1.RoutingConfig) router.Config {
	if change == nil {
		return c
	}
	set(&c.Strategy, change.Strategy)
	set(&c.MinMatchRatio, change.MinMatchRatio)
	set(&c.W, change.W)
	if n := change.PrefixLength; n != nil {
		c.PrefixLength = int(*n)
	}
	if n := change.ConcurrencyThreshold; n != nil {
		c.ConcurrencyThreshold = int(*n)
	}
	return c
}

func set[T any](value, change *T) {
	if change != nil {
		*value = *change
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
