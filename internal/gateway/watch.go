package gateway

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/health"
	"github.com/warmroute/warmroute/backends/transport"
)

// silence remembers the backends that could not be reached when they were last
// asked what they serve. The zero value knows of none.
type silence struct {
	backends sync.Map // *backends.Backend → struct{}
}

// answering reports whether a backend answered, or was never asked.
func (s *silence) answering(b *backends.Backend) bool {
	_, silent := s.backends.Load(b)
	return !silent
}

// keep forgets all backends but those in the list.
func (s *silence) keep(list []*backends.Backend) {
	s.backends.Range(func(b, _ any) bool {
		if !slices.Contains(list, b.(*backends.Backend)) { //nolint:forcetypeassert // only backends are keys
			s.backends.Delete(b)
		}
		return true
	})
}

// healthHooks log what engines say they serve, and keep readiness true: ejection
// never takes out more than a part of a pool, so that no request fails for want of
// trying, but when nobody answers the router is not ready.
func (g *Gateway) healthHooks() health.Hooks {
	return health.Hooks{
		Asked: func(b *backends.Backend, err error) {
			// An engine that answers with an error is there; one that cannot be reached
			// is not.
			if _, unreachable := errors.AsType[*transport.Failure](err); unreachable {
				g.silent.backends.Store(b, struct{}{})
			} else {
				g.silent.backends.Delete(b)
			}
		},
		Failed: func(b *backends.Backend, err error) {
			level := slog.LevelWarn
			if b.Unready() { // it is starting or ending
				level = slog.LevelDebug
			}
			g.logger.LogAttrs(context.Background(), level, "backend does not say what it serves",
				slog.String("backend", b.ID), slog.String("error", err.Error()))
		},
		Recovered: func(b *backends.Backend) {
			g.logger.Info("backend answers again", slog.String("backend", b.ID))
		},
		Changed: func(b *backends.Backend) {
			models, _ := b.Models()
			names := make([]string, 0, len(models))
			for _, m := range models {
				names = append(names, m.ID)
			}
			g.logger.Info("backend serves", slog.String("backend", b.ID), slog.Any("models", names))
		},
	}
}
