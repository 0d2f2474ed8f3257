package ops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/api/rpc"
	"github.com/warmroute/warmroute/feedback/advice"
	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// logged is a request log that advice is to be given from, and what is said of the pool.
type logged struct {
	path     string
	config   router.Config
	backends int
	kvTokens int
}

// ofLog are the flags that say what a running router knows by itself.
var ofLog = []string{"strategy", "prefix-length", "concurrency-threshold", "backends", "kv-tokens"} //nolint:gochecknoglobals // a constant

func (l *logged) flags(cmd *cobra.Command) {
	l.config = router.DefaultConfig()
	flags := cmd.Flags()
	flags.StringVar(&l.path, "log", "", "give advice from the request log in `FILE` (JSON lines, plain or gzip), without a router")
	flags.StringVar(&l.config.Strategy, "strategy", l.config.Strategy, "with --log: the pool is routed by `STRATEGY`")
	cli.OneOf(cmd, "strategy", router.Strategies()...)
	flags.IntVar(&l.config.PrefixLength, "prefix-length", l.config.PrefixLength, "with --log: its prefix_length is `N`; 0 is the strategy's default")
	flags.IntVar(&l.config.ConcurrencyThreshold, "concurrency-threshold", l.config.ConcurrencyThreshold, "with --log: its concurrency_threshold is `N`")
	flags.IntVar(&l.backends, "backends", 0, "with --log: it has `N` backends (default as many as the log names)")
	flags.IntVar(&l.kvTokens, "kv-tokens", 0, "with --log: the cache of each engine holds `N` tokens (default a million)")
}

// refuse says what makes no sense.
func (l *logged) refuse(cmd *cobra.Command) error {
	for _, name := range ofLog {
		if l.path == "" && cmd.Flags().Changed(name) {
			return cli.BadUsage(fmt.Errorf("--%s means nothing without --log: a router that runs knows it", name))
		}
	}
	if l.path == "" {
		return nil
	}
	if cmd.Flags().Changed("admin") {
		return cli.BadUsage(errors.New("--admin names a router that runs, and --log reads a file: leave one of them out"))
	}
	if err := l.config.Validate(); err != nil {
		message := inFlags(err.Error())
		if strings.HasPrefix(message, "strategy: ") {
			message = "--" + message
		}
		return cli.BadUsage(errors.New(message))
	}
	if l.backends < 0 || l.kvTokens < 0 {
		return cli.BadUsage(errors.New("--backends and --kv-tokens are at least 1"))
	}
	return nil
}

// advise reads the log and gives advice.
func (l *logged) advise(ctx context.Context, pool string, progress func(through, wanted int)) (*v1.GetAdviceResponse, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, cli.BadUsage(fmt.Errorf("--log: %w", err))
	}
	defer func() { _ = file.Close() }()
	window, err := advice.ReadLog(file, pool, 0)
	if err != nil {
		return nil, cli.BadUsage(fmt.Errorf("--log: %s: %w", cli.Name(l.path), err))
	}
	known := advice.Pool{
		Name: window.Pool(), Config: l.config, Backends: l.backends, CapacityTokens: l.kvTokens, Stated: l.kvTokens > 0,
	}
	if known.Backends == 0 {
		known.Backends = window.Backends()
	}
	if known.Backends == 0 {
		return nil, cli.BadUsage(errors.New("--log: no request of the file went to a backend: say with --backends how many there are"))
	}
	given, err := advice.Give(ctx, known, window, advice.Options{Seed: 1, Progress: progress})
	switch {
	case interrupted(ctx):
		return nil, cli.ErrInterrupted
	case err != nil:
		return nil, err
	}
	return &v1.GetAdviceResponse{Advice: rpc.DescribeAdvice(given, time.Now())}, nil
}
