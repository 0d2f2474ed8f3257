package gateway

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/scrape"
	"github.com/warmroute/warmroute/router"
)

// retell is how long it takes until a backend whose metrics come and go is told of
// again.
const retell = 10 * time.Minute

// unreadable remembers the backends that were said to have no metrics. The zero value
// knows of none.
type unreadable struct {
	mu   sync.Mutex
	told map[*backends.Backend]telling
}

// telling is what was told of one backend.
type telling struct {
	at   time.Time
	last bool // its last failure was
}

// failed takes in a failure at now and reports whether it is worth telling.
func (u *unreadable) failed(b *backends.Backend, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.told == nil {
		u.told = make(map[*backends.Backend]telling)
	}
	before, known := u.told[b]
	if known && now.Sub(before.at) < retell {
		u.told[b] = telling{at: before.at}
		return false
	}
	u.told[b] = telling{at: now, last: true}
	return true
}

// recovered reports whether the failure that is over was told.
func (u *unreadable) recovered(b *backends.Backend) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.told[b].last
}

// keep forgets all backends but those in the list.
func (u *unreadable) keep(list []*backends.Backend) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.told) == 0 {
		return
	}
	present := make(map[*backends.Backend]bool, len(list))
	for _, b := range list {
		present[b] = true
	}
	for b := range u.told {
		if !present[b] {
			delete(u.told, b)
		}
	}
}

// newScraper returns what reads the metrics of all pools' engines. An engine in two
// pools is two backends behind one URL: its page is read once.
func (g *Gateway) newScraper() *scrape.Scraper {
	c := g.config.ScrapeConfig()
	c.Header = g.credentials
	return scrape.New(c, g.transport, scrape.Hooks{
		Scraped: func(b *backends.Backend, s feedback.EngineState, _ time.Duration) {
			if p := g.poolOf(b); p != nil {
				g.router.Scraped(p, b, s)
			}
		},
		Failed: func(b *backends.Backend, err error) {
			level := slog.LevelDebug
			if !b.Unready() && g.unreadable.failed(b, time.Now()) {
				level = slog.LevelWarn
			}
			g.logger.LogAttrs(context.Background(), level, "no metrics: the router works on its own counts for this backend",
				slog.String("backend", b.ID), slog.String("error", err.Error()))
		},
		Recovered: func(b *backends.Backend) {
			level := slog.LevelDebug
			if g.unreadable.recovered(b) {
				level = slog.LevelInfo
			}
			g.logger.LogAttrs(context.Background(), level, "metrics can be read again", slog.String("backend", b.ID))
		},
	})
}

// scrape reads engines' metrics until ctx ends.
func (g *Gateway) scrape(ctx context.Context) error {
	if g.scraper == nil {
		return nil
	}
	return g.scraper.Run(ctx, func() []*backends.Backend {
		all := g.backends()
		g.unreadable.keep(all)
		return all
	})
}

// scrapeStatus tells how reading a backend's metrics goes; ok is false where they are
// not read.
func (g *Gateway) scrapeStatus(b *backends.Backend) (status scrape.Status, ok bool) {
	if g.scraper == nil {
		return scrape.Status{}, false
	}
	return g.scraper.Status(b)
}

// poolOf returns the pool that a backend belongs to, nil when it has left.
func (g *Gateway) poolOf(b *backends.Backend) *router.Pool {
	for _, p := range g.router.Pools() {
		if slices.Contains(p.Backends(), b) {
			return p
		}
	}
	return nil
}
