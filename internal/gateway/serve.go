package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/backends"
)

// idleClient is how long a client's connection may be unused. Load balancers keep
// theirs for up to 10 minutes, and must be the first to close.
const idleClient = 10*time.Minute + 30*time.Second

// maxStreams is how many requests one HTTP/2 connection may carry at a time: clients
// that keep to one connection have all their long streams on it.
const maxStreams = 1000

// newServer returns a server of HTTP/1.1 and HTTP/2, by ALPN with TLS and without upgrade
// where there is none. It has no WriteTimeout, which would cut long streams, and no ReadTimeout, which would cut
// slow uploads; clients that do not finish their headers are dropped.
func (g *Gateway) newServer(port *secured, h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(port != nil)
	protocols.SetUnencryptedHTTP2(port == nil)
	s := &http.Server{
		Handler:           h,
		Protocols:         protocols,
		ReadHeaderTimeout: g.config.Timeouts.ReadHeader,
		IdleTimeout:       idleClient,
		MaxHeaderBytes:    int(g.config.Limits.HeaderBytes),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:          slog.NewLogLogger(g.logger.Handler(), slog.LevelWarn),
	}
	if port != nil {
		s.TLSConfig = port.config()
	}
	return s
}

// listen takes an address; the error is for people and names setting and flag.
func listen(setting, address string) (net.Listener, error) {
	flag := strings.ReplaceAll(setting, "_", "-")
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s (--%s): %s is in use by another process", setting, flag, address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s (--%s): no permission to listen on %s", setting, flag, address)
	case err != nil:
		return nil, fmt.Errorf("%s (--%s): %w", setting, flag, err)
	}
	return l, nil
}

// Run serves until ctx ends and then shuts down in order. It returns nil unless
// something failed. It can be called once.
func (g *Gateway) Run(ctx context.Context) error {
	// Whatever works for requests outlives ctx: they still run then.
	work, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	requests, cut := context.WithCancelCause(work)
	g.server.BaseContext = func(net.Listener) context.Context { return requests }
	g.probeFirst(ctx)
	group, failed := errgroup.WithContext(work)
	group.Go(func() error { return serve(g.server, g.listener) })
	group.Go(func() error { return serve(g.adminServer, g.adminListener) })
	group.Go(func() error { return g.poller.Run(failed, g.present) })
	group.Go(func() error { return g.probe(failed) })
	group.Go(func() error { return g.scrape(failed) })
	group.Go(func() error { return g.discover(failed) })
	group.Go(func() error { return g.share(failed) })
	group.Go(func() error { return g.watchCertificates(failed) })
	group.Go(func() error { return g.operators.Tune(failed) })
	group.Go(func() error { return g.telemetry.Run(work) }) // to the last request's end
	group.Go(func() error {
		defer done()
		select {
		case <-ctx.Done():
			g.drain(failed)
		case <-failed.Done():
		}
		cut(proxy.ErrStopping)
		g.settle()
		closed := ignoreClosed(g.server.Close())
		g.settle()
		g.routing.Close()
		g.operators.Close()
		return errors.Join(closed, ignoreClosed(g.adminServer.Close()))
	})
	err := group.Wait()
	g.transport.Close()
	g.logger.Info("stopped")
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// drain stops taking requests and waits for those that run, as long as they may. It
// gives up when ctx ends, which is when a server failed.
func (g *Gateway) drain(ctx context.Context) {
	g.stopping.Store(true)
	t := g.config.Timeouts
	g.logger.Info("stopping", slog.Duration("delay", t.ShutdownDelay), slog.Duration("grace", t.ShutdownGrace))
	select {
	case <-time.After(t.ShutdownDelay):
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(ctx, t.ShutdownGrace)
	defer cancel()
	if err := g.server.Shutdown(grace); err != nil {
		g.logger.Warn("requests cut at the end of timeouts.shutdown_grace", slog.String("error", err.Error()))
	}
}

// settleWait is how long requests that were cut have to tell their clients, and again
// to write their records once the connections are closed.
const settleWait = time.Second

// counted counts the requests that are being handled. Once the router is stopping it asks
// clients for another connection: the next request then goes to another router, and none
// meets a connection that is being closed.
func (g *Gateway) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.handling.Add(1)
		defer g.handling.Add(-1)
		if g.stopping.Load() {
			w.Header().Set("Connection", "close") // over HTTP/2 a GOAWAY
		}
		h.ServeHTTP(w, r)
	})
}

// settle waits for requests that were cut: each still has its client to tell, a record
// to write and a slot to give back.
func (g *Gateway) settle() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(settleWait); g.handling.Load() > 0 && time.Now().Before(end); {
		<-tick.C
	}
}

// backends lists the backends of all pools.
func (g *Gateway) backends() []*backends.Backend {
	var all []*backends.Backend
	for _, p := range g.router.Pools() {
		all = append(all, p.Backends()...)
	}
	return all
}

// present lists the backends of all pools and lets go of what is kept for those that have
// left. It is called once a second: who has just left may be asked something once more, and
// what is kept then goes the next time.
func (g *Gateway) present() []*backends.Backend {
	all := g.backends()
	g.silent.keep(all)
	g.transport.Keep(all)
	return all
}

// seeded returns a source of repeatable values.
func seeded(seed uint64) func() uint64 {
	var mu sync.Mutex
	source := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // repeatable on purpose
	return func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return source.Uint64()
	}
}
