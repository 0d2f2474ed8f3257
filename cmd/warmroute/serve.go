package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/gateway"
	"github.com/warmroute/warmroute/internal/telemetry"
	"github.com/warmroute/warmroute/router"
)

func newServe() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the router",
		Long: `Runs the router until it gets SIGINT or SIGTERM; then it finishes the requests that
run (timeouts.shutdown_grace), and a second signal ends it at once.

The configuration file is read again when it changes, and on SIGHUP. How pools are
routed, their listed backends, keys and log.level take effect at once, without touching
requests in flight; for anything else the log says that a restart is needed. A file that
is wrong is refused, with the line, and nothing changes. Certificates are read again, too.
A service manager that speaks sd_notify is told when the router is ready,
reloads and stops (deploy/systemd).

Flags that are given take the place of what the file says. The access log goes to
stderr, one record for each request.`,
		Example: `  warmroute serve --backend http://gpu-1:8000 --backend http://gpu-2:8000
  warmroute serve --config warmroute.yaml --log-format json
  warmroute serve --config warmroute.yaml --listen 127.0.0.1:8080 --strategy RANDOM`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, &s) },
	}
	s.addFile(cmd)
	flags := cmd.Flags()
	flags.StringArrayVarP(&s.backends, "backend", "b", nil, "base `URL` of an engine, http://host:port; repeat it for more")
	flags.StringVar(&s.Listen, "listen", "", "take requests on `ADDR`, host:port (default :8080)")
	flags.StringVar(&s.AdminListen, "admin-listen", "", "serve metrics and state on `ADDR`, host:port (default 127.0.0.1:9090)")
	flags.StringVar(&s.Strategy, "strategy", "", "route every pool by the strategy `NAME`: "+strings.Join(router.Strategies(), ", ")+" (default "+router.PrefixAware+")")
	flags.StringVar(&s.Redis, "redis", "", "share the index with other routers through Redis at `ADDR`, host:port")
	flags.StringVar(&s.LogLevel, "log-level", "", "log from `LEVEL` up: debug, info, warn, error (default info)")
	flags.StringVar(&s.LogFormat, "log-format", "", "write the log in `FORMAT`: text or json (default text)")
	cli.OneOf(cmd, "strategy", router.Strategies()...)
	cli.OneOf(cmd, "log-level", "debug", "info", "warn", "error")
	cli.OneOf(cmd, "log-format", "text", "json")
	cli.NoArg(cmd)
	return cmd
}

func serve(cmd *cobra.Command, s *settings) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	c, warnings, err := s.load()
	if err != nil {
		return err
	}
	events := &holder{to: cmd.ErrOrStderr()}
	defer events.release()
	for _, w := range warnings {
		fmt.Fprintf(events, "warmroute: warning: %v\n", w)
	}
	level := new(slog.LevelVar)
	logger, err := newLogger(events, c.Log, level)
	if err != nil {
		return cli.BadUsage(err)
	}
	// The standard logger has one user: net/http, which quotes what engines send unasked.
	// That may be text of a prompt or of what came of it.
	log.SetOutput(io.Discard)
	g, err := gateway.New(gateway.Options{Config: c, Logger: logger, Level: level, Version: buildInfo().Version})
	if err != nil {
		return err
	}
	supervisor := &manager{logger: logger}
	var group errgroup.Group
	ctx, ended := context.WithCancel(cmd.Context())
	group.Go(func() error {
		defer ended()
		return g.Run(cmd.Context())
	})
	group.Go(func() error {
		defer events.release()
		announce(ctx, cmd.OutOrStdout(), g, len(c.Keys) > 0)
		return nil
	})
	group.Go(func() error {
		supervisor.follow(cmd.Context(), ctx, g)
		return nil
	})
	group.Go(func() error {
		s.follow(ctx, c, hangups, logger, func() { supervisor.reload(func() { s.reload(logger, g) }) })
		return nil
	})
	return group.Wait()
}

// newLogger returns a logger whose level can be changed.
func newLogger(to io.Writer, c config.Log, level *slog.LevelVar) (*slog.Logger, error) {
	lowest, err := telemetry.ParseLevel(c.Level)
	if err != nil {
		return nil, err
	}
	level.Set(lowest)
	return telemetry.NewLogger(to, level, c.Format)
}

// follow calls reload when the configuration's file changes and on SIGHUP, until ctx
// ends. Without a file there is nothing to read, which it says: SIGHUP would end the process
// otherwise.
func (s *settings) follow(ctx context.Context, c *config.Config, hangups <-chan os.Signal, logger *slog.Logger, reload func()) {
	changes := make(chan struct{}, 1)
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() {
		c.Watch(ctx, logger, func() {
			select {
			case changes <- struct{}{}:
			default: // what is read next is what the file says then
			}
		})
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			if s.file == "" {
				logger.Warn("SIGHUP: there is no configuration file to read again")
				continue
			}
		case <-changes:
		}
		reload()
	}
}

// reload reads the configuration and has the router take it over, and the certificates.
func (s *settings) reload(logger *slog.Logger, g *gateway.Gateway) {
	g.ReloadCertificates()
	c, warnings, err := s.load()
	if err != nil {
		g.ReloadFailed(err)
		return
	}
	for _, w := range warnings {
		logger.Warn("configuration: " + w.String())
	}
	_ = g.Reload(c) // what it refuses is in the log
}

// learnWait is how long the start-up summary waits for the backends to say what
// they serve.
const learnWait = 1500 * time.Millisecond

// announce prints where the router is, what it routes to, and a line to try, with a key where
// the router wants one.
func announce(ctx context.Context, w io.Writer, g *gateway.Gateway, keyed bool) {
	data, admin := g.Secured()
	base := reach(g.Addr(), data)
	operators := reach(g.AdminAddr(), admin)
	fmt.Fprintf(w, "warmroute %s\n  requests  %s\n  admin     %s\n  dashboard %s/\n", buildInfo().Version, base, operators, operators)
	await(ctx, g.Router())
	if ctx.Err() != nil {
		return
	}
	models := make(map[*router.Pool][]string)
	first := ""
	for _, m := range g.Router().Models() {
		models[m.Pool] = append(models[m.Pool], m.Name)
		if first == "" {
			first = m.Name
		}
	}
	for _, p := range g.Router().Pools() {
		served := strings.Join(models[p], ", ")
		if served == "" {
			served = "not known yet"
		}
		fmt.Fprintf(w, "  pool      %s: %s, %s, models: %s\n", p.Name(), p.Config().Strategy, counted(len(p.Backends()), "backend"), served)
	}
	if first == "" {
		return
	}
	key := ""
	if keyed {
		key = ` -H "Authorization: Bearer $WARMROUTE_KEY"`
	}
	fmt.Fprintf(w, "try\n  curl %s/v1/chat/completions -H 'Content-Type: application/json'%s -d %s\n", base, key, shellQuote(example(first)))
}

// await returns when every pool has models, or it takes too long.
func await(ctx context.Context, r *router.Router) {
	ctx, cancel := context.WithTimeout(ctx, learnWait)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		have := make(map[*router.Pool]bool)
		for _, m := range r.Models() {
			have[m.Pool] = true
		}
		if len(have) == len(r.Pools()) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// example is a small request body.
func example(model string) string {
	name, err := json.Marshal(model)
	if err != nil {
		name = []byte(`"MODEL"`)
	}
	return fmt.Sprintf(`{"model":%s,"messages":[{"role":"user","content":"Say hello."}]}`, name)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// reach is the URL under which this machine reaches an address.
func reach(a net.Addr, secured bool) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http://"
	if secured {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port)
}
