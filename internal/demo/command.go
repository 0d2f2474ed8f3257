package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// options are the flags that [Config] does not have.
type options struct {
	trace  string
	keep   bool
	output string
}

// The values of --output.
const (
	outputTable = "table"
	outputJSON  = "json"
)

// Command returns `warmroute demo`. Its errors are a [*cli.UsageError] where the caller is
// at fault.
func Command() *cobra.Command {
	cfg := DefaultConfig()
	var o options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Compare strategies on a small simulated fleet",
		Long: `Starts engine doubles and the router on loopback ports of this process, sends them
the same workload once per strategy, each time with empty caches, and prints what
came of it, and what the router would advise after it. No GPU and no file is needed.

The doubles run faster than time by --speed. Times to first token are taken at the
client and given in simulated seconds: the clock's time multiplied by --speed.`,
		Example: `  warmroute demo
  warmroute demo --strategy RANDOM,PREFIX_AWARE --backends 8 --users 80
  warmroute demo --trace lmcache_agent_trace_miniswe.jsonl.gz
  warmroute demo --strategy PREFIX_AWARE --keep`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer cancel()
			return execute(ctx, cmd, cfg, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.trace, "trace", "", "play the LMCache agent trace in `FILE` (JSON lines, plain or gzip) instead of a generated workload")
	flags.StringSliceVar(&cfg.Strategies, "strategy", cfg.Strategies, "compare these strategies, `NAMES` by commas, in order")
	flags.IntVar(&cfg.Backends, "backends", cfg.Backends, "engine doubles")
	flags.IntVar(&cfg.Requests, "requests", cfg.Requests, "requests for each strategy; all of the trace's where --trace is given")
	flags.IntVar(&cfg.Users, "users", cfg.Users, "sessions at a time")
	flags.Float64Var(&cfg.Speed, "speed", cfg.Speed, "simulated seconds in a second")
	flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of the generated workload")
	flags.StringVar(&cfg.Profile, "profile", cfg.Profile, "timing of the doubles, a `NAME`: "+strings.Join(enginesim.ProfileNames(), ", "))
	flags.IntVar(&cfg.KVTokens, "kv-tokens", cfg.KVTokens, "KV cache of each double in tokens (0: the profile's)")
	flags.BoolVar(&o.keep, "keep", false, "leave a fleet running until Ctrl-C, to try by hand")
	flags.StringVarP(&o.output, "output", "o", outputTable, "print as `FORMAT`: table or json")
	return cmd
}

// execute runs the command once its flags are known.
func execute(ctx context.Context, cmd *cobra.Command, cfg Config, o options) error {
	if o.output != outputTable && o.output != outputJSON {
		return cli.BadUsage(fmt.Errorf("--output: %q is not one of %s, %s", o.output, outputTable, outputJSON))
	}
	for i, s := range cfg.Strategies {
		cfg.Strategies[i] = strings.ToUpper(strings.TrimSpace(s))
	}
	if o.trace != "" && !cmd.Flags().Changed("requests") {
		cfg.Requests = 0
	}
	if err := cfg.Validate(); err != nil {
		return cli.BadUsage(err)
	}
	cmd.SilenceUsage = true // from here on nothing is wrong with the flags
	text, err := o.load(cfg)
	if err != nil {
		return cli.BadUsage(err)
	}
	watch := newWatcher(cmd.OutOrStdout(), cmd.ErrOrStderr())
	if o.output == outputTable {
		cmd.Println(intro(cfg, text))
	}
	probe := startProbe()
	results, l, err := run(ctx, cfg, text, watch, o.keeper(cfg), func(url string) {
		if o.output == outputTable {
			cmd.Printf("dashboard, while it runs: %s\n", url)
		}
	})
	late := probe.stop()
	watch.close()
	if l.fleet != nil {
		defer func() { _ = l.fleet.stop() }()
	}
	interrupted := ctx.Err() != nil
	if err != nil && !interrupted {
		return fmt.Errorf("the demo ended early: %w", err)
	}
	if o.output == outputJSON {
		err = printJSON(cmd.OutOrStdout(), results)
	} else {
		err = printTable(cmd.OutOrStdout(), cfg, results, late)
		if err == nil && l.experience != nil && !interrupted {
			if err = printAdvice(ctx, cmd.OutOrStdout(), l.experience); ctx.Err() != nil {
				interrupted, err = true, nil
			}
		}
	}
	switch {
	case err != nil:
		return err
	case interrupted:
		return fmt.Errorf("interrupted after %d of %d strategies", len(results), len(cfg.Strategies))
	case failed(results):
		return errors.New("some requests failed: run it again with fewer --users or a lower --speed, and report it if that changes nothing")
	case l.fleet != nil:
		return stay(ctx, cmd.ErrOrStderr(), l.fleet)
	}
	return nil
}

func (o options) load(cfg Config) (workload.Text, error) {
	if o.trace != "" {
		return loadTrace(o.trace)
	}
	return Workload(cfg)
}

// keeper returns the strategy whose fleet is to be left running, "" for none.
func (o options) keeper(cfg Config) string {
	switch {
	case !o.keep:
		return ""
	case slices.Contains(cfg.Strategies, router.PrefixAware):
		return router.PrefixAware
	}
	return cfg.Strategies[len(cfg.Strategies)-1]
}

// failed reports whether any request did.
func failed(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.Errors > 0 })
}

// intro says what is about to happen.
func intro(cfg Config, text workload.Text) string {
	text = text.Limit(cfg.Requests)
	kv := cfg.KVTokens
	if profile, err := enginesim.ProfileByName(cfg.Profile); err == nil && kv == 0 {
		kv = profile.KVTokens
	}
	return fmt.Sprintf("%d × %s (%d tokens of KV each) behind one router; %s: %d requests in %d sessions, %d at a time, once per strategy, at %g × real time",
		cfg.Backends, cfg.Profile, kv, text.Name, text.Requests(), len(text.Sessions), min(cfg.Users, len(text.Sessions)), cfg.Speed)
}

// probe measures how late this machine wakes up who asked to be woken: on a machine
// that is too slow for the speed, the simulated times are too long.
type probe struct {
	done chan struct{}
	late chan time.Duration
}

// probeInterval is how often the probe asks.
const probeInterval = 10 * time.Millisecond

func startProbe() *probe {
	p := &probe{done: make(chan struct{}), late: make(chan time.Duration, 1)}
	go func() {
		timer := time.NewTimer(probeInterval)
		defer timer.Stop()
		var sum time.Duration
		n := 0
		due := time.Now().Add(probeInterval)
		for {
			select {
			case <-p.done:
				p.late <- sum / time.Duration(max(n, 1))
				return
			case <-timer.C:
				sum += time.Since(due)
				n++
				due = time.Now().Add(probeInterval)
				timer.Reset(probeInterval)
			}
		}
	}()
	return p
}

// stop returns the mean lateness.
func (p *probe) stop() time.Duration {
	close(p.done)
	return <-p.late
}
