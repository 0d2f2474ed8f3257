package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// anyPort is a loopback address whose port the system chooses.
const anyPort = "127.0.0.1:0"

// headerTimeout bounds how long a client may take to send its headers.
const headerTimeout = 10 * time.Second

// fleet is the doubles and a router in front of them, listening on loopback ports.
type fleet struct {
	backends []string // ids
	gateway  *front
	cancel   context.CancelFunc
	group    *errgroup.Group
}

// startFleet starts doubles with empty caches and a router that knows nothing, with its admin
// port at an address.
func startFleet(ctx context.Context, cfg Config, strategy, admin string) (*fleet, error) {
	ctx, cancel := context.WithCancel(ctx)
	f := &fleet{cancel: cancel}
	f.group, ctx = errgroup.WithContext(ctx)
	urls := make([]string, 0, cfg.Backends)
	for range cfg.Backends {
		addr, err := f.startEngine(ctx, cfg)
		if err != nil {
			return nil, errors.Join(err, f.stop())
		}
		f.backends = append(f.backends, addr)
		urls = append(urls, "http://"+addr)
	}
	front, err := startFront(ctx, f.group, urls, strategy, admin, cfg.Seed)
	if err != nil {
		return nil, errors.Join(err, f.stop())
	}
	f.gateway = front
	return f, nil
}

// startEngine starts one double and returns its address.
func (f *fleet) startEngine(ctx context.Context, cfg Config) (string, error) {
	// All doubles have one seed: equal prompts get equal answers wherever they go,
	// so that every strategy sees the same conversations.
	engine, err := server.New(server.Config{
		Model:               []string{model},
		Profile:             cfg.Profile,
		Speed:               cfg.Speed,
		KVTokens:            cfg.KVTokens,
		PromptTokensDetails: true,
		Seed:                cfg.Seed,
	})
	if err != nil {
		return "", err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", anyPort)
	if err != nil {
		return "", fmt.Errorf("no loopback port for an engine: %w", err)
	}
	web := &http.Server{Handler: engine, ReadHeaderTimeout: headerTimeout}
	f.group.Go(func() error { return engine.Run(ctx) })
	f.group.Go(func() error {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("engine on %s: %w", listener.Addr(), err)
		}
		return nil
	})
	f.group.Go(func() error {
		<-ctx.Done()
		return web.Close()
	})
	return listener.Addr().String(), nil
}

// stop ends everything and waits until it has ended.
func (f *fleet) stop() error {
	f.cancel()
	return f.group.Wait()
}
