package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

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

Flags that are given take the place of what the file says. The access log goes to
stderr, one record for each request.`,
		Example: `  warmroute serve --backend http://gpu-1:8000 --backend http://gpu-2:8000
  warmroute serve --config warmroute.yaml --log-format json
  warmroute serve --config warmroute.yaml --listen 127.0.0.1:8080 --strategy RANDOM`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, &s) },
	}
	s.addFile(cmd)
	flags := cmd.Flags()
	flags.StringArrayVarP(&s.backends, "backend", "b", nil, "base `URL` of an engine; repeat it for more")
	flags.StringVar(&s.Listen, "listen", "", "`ADDR`ess of the data plane (default :8080)")
	flags.StringVar(&s.AdminListen, "admin-listen", "", "`ADDR`ess of the admin port (default 127.0.0.1:9090)")
	flags.StringVar(&s.Strategy, "strategy", "", "`NAME` of the strategy of every pool: "+strings.Join(router.Strategies(), ", ")+" (default "+router.PrefixAware+")")
	flags.StringVar(&s.LogLevel, "log-level", "", "lowest `LEVEL` logged: debug, info, warn, error (default info)")
	flags.StringVar(&s.LogFormat, "log-format", "", "`FORMAT` of the log: text or json (default text)")
	return cmd
}

func serve(cmd *cobra.Command, s *settings) error {
	c, warnings, err := s.load()
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "warmroute: warning: %v\n", w)
	}
	logger, err := telemetry.NewLogger(cmd.ErrOrStderr(), c.Log.Level, c.Log.Format)
	if err != nil {
		return badUsage(err)
	}
	// The standard logger has one user: net/http, which quotes what engines send unasked.
	// That may be text of a prompt or of what came of it.
	log.SetOutput(io.Discard)
	g, err := gateway.New(gateway.Options{Config: c, Logger: logger, Version: buildInfo().Version})
	if err != nil {
		return err
	}
	var group errgroup.Group
	ctx, ended := context.WithCancel(cmd.Context())
	group.Go(func() error {
		defer ended()
		return g.Run(cmd.Context())
	})
	group.Go(func() error {
		announce(ctx, cmd.OutOrStdout(), g)
		return nil
	})
	return group.Wait()
}

// learnWait is how long the start-up summary waits for the backends to say what
// they serve.
const learnWait = 1500 * time.Millisecond

// announce prints where the router is, what it routes to, and a line to try.
func announce(ctx context.Context, w io.Writer, g *gateway.Gateway) {
	base := reach(g.Addr())
	fmt.Fprintf(w, "warmroute %s\n  requests  %s\n  admin     %s\n", buildInfo().Version, base, reach(g.AdminAddr()))
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
			served = "waiting for the backends to say what they serve"
		}
		fmt.Fprintf(w, "  pool      %s: %s, %s, models: %s\n", p.Name(), p.Config().Strategy, counted(len(p.Backends()), "backend"), served)
	}
	if first == "" {
		first = "MODEL"
	}
	fmt.Fprintf(w, "try\n  curl %s/v1/chat/completions -H 'Content-Type: application/json' -d %s\n", base, shellQuote(example(first)))
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
func reach(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
