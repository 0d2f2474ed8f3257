package browser

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/enginesim/server"
	"github.com/warmroute/warmroute/internal/gateway"
	"github.com/warmroute/warmroute/internal/replay"
)

// The routers of this file run in the test's process, each over as many doubles of its own, whose
// caches are that large.
const (
	engines     = 4
	cacheTokens = 80_000
)

// run has something run until the test ends.
func run(t *testing.T, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// profile is what the doubles are.
func profile() enginesim.Profile { return replay.ReferenceProfile(cacheTokens) }

// newConfig is the configuration of a router over doubles, which it starts.
func newConfig(t *testing.T) *config.Config {
	t.Helper()
	var urls []string
	for range engines {
		c, p := server.DefaultConfig(), profile()
		c.Model, c.Custom = []string{model}, &p
		engine, err := server.New(c)
		if err != nil {
			t.Fatal(err)
		}
		run(t, engine.Run)
		web := httptest.NewServer(engine)
		t.Cleanup(web.Close)
		urls = append(urls, web.URL)
	}
	c, _, err := config.FromBackends(urls)
	if err != nil {
		t.Fatal(err)
	}
	c.Listen, c.AdminListen = anyPort, anyPort
	c.Timeouts.ShutdownGrace = time.Second
	return c
}

// serve runs a router and returns it with the URL of its admin port.
func serve(t *testing.T, c *config.Config) (g *gateway.Gateway, admin string) {
	t.Helper()
	g, err := gateway.New(gateway.Options{Config: c, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	run(t, g.Run)
	return g, "http://" + g.AdminAddr().String()
}

// commands let a script change something in the test's process; they are named by their paths.
func commands(t *testing.T, all map[string]func(body string) error) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if command := all[r.URL.Path]; err == nil && command != nil {
			err = command(string(body))
		} else if err == nil {
			err = errors.New("there is no such command")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}
