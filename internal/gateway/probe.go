package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/health"
)

// probe probes the engines until ctx ends, where that is wanted.
func (g *Gateway) probe(ctx context.Context) error {
	if g.prober == nil {
		return nil
	}
	return g.prober.Run(ctx, g.backends)
}

// firstProbes is how long the first probes may take before requests are taken: an engine
// that says that it cannot work yet gets none.
const firstProbes = time.Second

// probeFirst probes every engine once, as far as they answer soon.
func (g *Gateway) probeFirst(ctx context.Context) {
	if g.prober == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstProbes)
	defer cancel()
	g.prober.Once(ctx, g.backends())
}

func (g *Gateway) newProber() *health.Prober {
	c := g.config.ProbeConfig()
	c.Header = g.credentials
	return health.NewProber(c, g.transport, health.ProbeHooks{Changed: g.probed, Frozen: g.frozen})
}

// probed logs that a backend leaves rotation, or comes back.
func (g *Gateway) probed(b *backends.Backend, now backends.Probe, why error) {
	level := slog.LevelWarn
	if b.Unready() { // it is starting or ending, and gets no requests anyway
		level = slog.LevelDebug
	}
	ctx, backend := context.Background(), slog.String("backend", b.ID)
	switch now {
	case backends.Answers:
		g.logger.Info("backend answers probes again", backend)
	case backends.Refuses:
		g.logger.LogAttrs(ctx, level, "backend says that it cannot work and gets no requests", backend, slog.String("error", why.Error()))
	case backends.Lost:
		g.logger.LogAttrs(ctx, level, "backend does not answer probes and gets no requests while there are others",
			backend, slog.String("error", why.Error()))
	}
}

// frozen ejects a backend that has begun answers and sends nothing of them.
func (g *Gateway) frozen(b *backends.Backend, silent time.Duration) {
	now := time.Now()
	for _, p := range g.router.Pools() {
		for _, own := range p.Backends() {
			if own == b && g.router.Eject(p, b, now) {
				g.logger.Warn("backend is frozen: it has begun answers and sends nothing of them",
					slog.String("backend", b.ID), slog.Duration("silent", silent.Round(time.Second)))
			}
		}
	}
}
