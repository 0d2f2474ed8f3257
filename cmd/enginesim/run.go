package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/enginesim/server"
)

const (
	// keepAlive is how long an idle connection stays open, as under uvicorn.
	keepAlive = 5 * time.Second
	// headerTimeout bounds how long a client may take over its headers.
	headerTimeout = 30 * time.Second
	// shutdownTimeout bounds how long requests may take to notice the end.
	shutdownTimeout = 2 * time.Second
)

const longHelp = `An engine double: a vLLM-like HTTP server that needs no GPU.

Prompts are cut into tokens, looked up in a block-wise prefix cache and computed
in a continuous batch whose steps take as long as they would on the hardware of
the profile. Answers are made-up words; usage, cached tokens, metrics, queueing
and preemption are the model's.

Profiles: %s.
A profile file varies one of them, for hardware that is not among them; all keys
are optional:
  {"base": "llama-8b-h100", "name": "ours", "request_overhead_ms": 16,
   "step_floor_ms": 6.8, "prefill_us_per_token": 31, "attention_ns_per_pair": 1.2,
   "decode_us_per_sequence": 4.4, "decode_ns_per_context_token": 76,
   "kv_tokens": 425984, "max_batched_tokens": 8192, "max_seqs": 1024}
A step takes step_floor + decode_us_per_sequence a decoding sequence +
decode_ns_per_context_token a token of their contexts + the prefill of its
chunks, which is prefill_us_per_token a new token + attention_ns_per_pair a new
token and a token before it.

Beside vLLM's routes there are two of its own:
  POST /sim/fault   break something: {"lose_cache":true}, {"die_after_events":3},
                    {"hang":"headers"|"stream"}, {"status":503,"count":2,"retry_after":1},
                    {"slow":4}, {"sleep":true}, {"unhealthy":true},
                    {"error_after_events":3}, {"restart":true}; {"clear":true}
                    mends all
  GET  /sim/state   what the caches truly hold, and the last requests`

const examples = `  enginesim --listen 127.0.0.1:8001 --model sim
  enginesim --model llama --profile llama-70b-8xh100 --speed 20
  enginesim --model sim --engines 4 --kv-tokens 100000 --prompt-tokens-details=false`

// options are the flags.
type options struct {
	listen      string
	profileFile string
	verbose     bool
	server      server.Config
}

// run is the program: it returns the exit code, 0 after a signal or --help, 2
// for flags that make no sense, 1 for all else.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts := options{server: server.DefaultConfig()}
	cmd := newCommand(&opts)
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "enginesim: %s\n", oneLine(err))
		if _, ok := errors.AsType[*usageError](err); ok {
			return 2
		}
		return 1
	}
	return 0
}

// usageError is a mistake in the flags.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// oneLine joins the lines of an error.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimPrefix(err.Error(), "enginesim: "), "\n", "; ")
}

func newCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "enginesim",
		Short:         "a vLLM-like server without a GPU",
		Long:          fmt.Sprintf(longHelp, strings.Join(enginesim.ProfileNames(), ", ")),
		Example:       examples,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Errorf("unexpected argument %q: all settings are flags, see --help", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), cmd, opts)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w, see --help", err)}
	})
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.Version = versionLine() // makes --version a flag
	cmd.SetVersionTemplate("{{.Version}}")
	f, c := cmd.Flags(), &opts.server
	f.SortFlags = false
	f.StringVar(&opts.listen, "listen", "127.0.0.1:8000", "`address` to listen on, host:port")
	f.StringSliceVar(&c.Model, "model", c.Model, "served model `name`; further ones are adapters of the first (repeat or separate by commas)")
	f.StringVar(&c.Profile, "profile", c.Profile, "timing profile `name`")
	f.StringVar(&opts.profileFile, "profile-file", "", "JSON `file` that varies the profile, see above")
	f.Float64Var(&c.Speed, "speed", c.Speed, "model seconds that pass in a second; the real cost of a request, about a millisecond, grows with it")
	f.IntVar(&c.KVTokens, "kv-tokens", 0, "KV cache of each engine in `tokens` (default: the profile's)")
	f.IntVar(&c.BlockSize, "block-size", c.BlockSize, "`tokens` in a KV block")
	f.IntVar(&c.MaxModelLen, "max-model-len", c.MaxModelLen, "prompt and answer together in `tokens`, at most the KV cache")
	f.BoolVar(&c.PromptTokensDetails, "prompt-tokens-details", c.PromptTokensDetails, "report cached tokens in usage")
	f.BoolVar(&c.NullForZero, "null-for-zero", false, "report a complete miss as null details, as vLLM before 0.23")
	f.IntVar(&c.Engines, "engines", c.Engines, "data-parallel engines behind the one URL")
	f.Uint64Var(&c.Seed, "seed", 0, "seed of the generated text")
	f.IntVar(&c.MaxSeqs, "max-num-seqs", 0, "sequences in the running batch (default: the profile's)")
	f.IntVar(&c.MaxBatchedTokens, "max-num-batched-tokens", 0, "`tokens` computed in a step (default: the profile's)")
	f.IntVar(&c.OutputTokens, "output-tokens", 0, "`tokens` of an answer to a request without a limit (default 64)")
	f.BoolVar(&c.NoPrefixCaching, "no-prefix-caching", false, "make every prompt a miss")
	f.StringVar(&c.MetricsGeneration, "metrics-generation", "current", "names and labels on /metrics of a `release`: "+strings.Join(server.MetricsGenerations(), ", "))
	f.BoolVar(&c.Overcount, "overcount", false, "count prefix lookups again while a request waits for memory, as vLLM before July 2026")
	f.Float64Var(&c.Jitter, "jitter", 0, "relative standard deviation of step times, at most 0.3")
	f.BoolVar(&opts.verbose, "verbose", false, "log every generation request to stderr")
	return cmd
}

// serve listens until ctx ends.
func serve(ctx context.Context, cmd *cobra.Command, opts *options) error {
	level := slog.LevelWarn
	if opts.verbose {
		level = slog.LevelDebug
	}
	opts.server.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	if opts.server.Speed == 0 { // which would be the default to the server
		return &usageError{errors.New("--speed: must be > 0 and at most 1000000, is 0")}
	}
	if opts.profileFile != "" {
		profile, err := readProfile(opts.profileFile, opts.server.Profile)
		if err != nil {
			return &usageError{err}
		}
		opts.server.Custom, opts.server.Profile = profile, profile.Name
	}
	engine, err := server.New(opts.server)
	if err != nil {
		return &usageError{nameFlags(cmd, err)}
	}
	listener, err := listen(ctx, opts.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "enginesim: serving %s as %s on http://%s\n",
		opts.server.Profile, strings.Join(opts.server.Model, ", "), listener.Addr())
	return serveHTTP(ctx, engine, listener)
}

// listen takes an address.
func listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--listen: %s is in use by another process", address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("--listen: no permission to listen on %s", address)
	case err != nil:
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return l, nil
}

// nameFlags gives settings, of which each line of an error names one first, the names
// of their flags.
func nameFlags(cmd *cobra.Command, err error) error {
	lines := strings.Split(oneLine(err), "; ")
	for i, line := range lines {
		setting, rest, found := strings.Cut(line, ":")
		if flag := strings.ReplaceAll(setting, "_", "-"); found && cmd.Flags().Lookup(flag) != nil {
			lines[i] = "--" + flag + ":" + rest
		}
	}
	return errors.New(strings.Join(lines, "; "))
}

// serveHTTP serves an engine on a listener until ctx ends.
func serveHTTP(ctx context.Context, engine *server.Server, listener net.Listener) error {
	srv := &http.Server{Handler: engine, IdleTimeout: keepAlive, ReadHeaderTimeout: headerTimeout}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return engine.Run(ctx) })
	group.Go(func() error {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := srv.Shutdown(end); err != nil {
			return srv.Close()
		}
		return nil
	})
	return group.Wait()
}
