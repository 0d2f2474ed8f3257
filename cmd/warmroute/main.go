// Command warmroute routes LLM requests to the engine that already holds the
// longest part of the prompt in its KV cache.
package main

//go:generate go test -count=1 -run=^TestDocs$ . -update

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/comparison"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/demo"
	"github.com/warmroute/warmroute/internal/ops"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1   // something failed while running, a port that is taken included
	exitUsage   = 2   // flags or a configuration that make no sense
	exitStopped = 130 // told to stop before it was done
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals // asks for an orderly end
		cancel()
		end(<-signals)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// end ends the process at once, by the signal that asks for it.
func end(s os.Signal) {
	signal.Reset(s)
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(s) == nil {
		time.Sleep(time.Second) // it is delivered meanwhile
	}
	os.Exit(exitFailure)
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage *cli.UsageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		for _, line := range config.Each(usage.Unwrap()) {
			fmt.Fprintf(stderr, "warmroute: %s\n", cli.Plain(line.Error()))
		}
		return exitUsage
	}
	fmt.Fprintf(stderr, "warmroute: %s\n", cli.Plain(err.Error()))
	if errors.Is(err, cli.ErrInterrupted) {
		return exitStopped
	}
	return exitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "warmroute",
		Short: "Route LLM requests to the engine whose KV cache already holds the prompt",
		Long: `Warmroute is a router for fleets of LLM inference servers (vLLM, SGLang and others
that speak the OpenAI API). It sends each request to the backend that already holds
the longest part of the prompt in its KV cache, and keeps any one backend from being
overloaded.`,
		Example: `  # See what it does, without a GPU and without a file
  warmroute demo

  # Compare strategies on an hour of traffic, in seconds
  warmroute replay --workload docs

  # In front of two engines
  warmroute serve --backend http://gpu-1:8000 --backend http://gpu-2:8000

  # From a file
  warmroute check-config --config warmroute.yaml
  warmroute serve --config warmroute.yaml

  # Ask a router that runs
  warmroute status --watch
  warmroute explain --file body.json`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := "see warmroute --help"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "did you mean " + near[0] + "?"
			}
			return cli.BadUsage(fmt.Errorf("unknown command %q: %s", args[0], hint))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(newServe(), newCheckConfig(), newVersion(), demo.Command(), comparison.Command())
	root.AddCommand(ops.Commands()...)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.BadUsage(fmt.Errorf("%w (see %s --help)", plainly(cmd, err), cmd.CommandPath()))
	})
	root.Version = buildInfo().String() // makes --version a flag
	root.SetVersionTemplate("{{.Version}}")
	return root
}

// plainly names a flag that lacks its value as the help does: --backend URL.
func plainly(cmd *cobra.Command, err error) error {
	lacking, ok := err.(interface {
		GetSpecifiedName() string
		GetSpecifiedShortnames() string
	})
	if !ok || !strings.HasPrefix(err.Error(), "flag needs an argument") {
		return err
	}
	flag := cmd.Flags().Lookup(lacking.GetSpecifiedName())
	if lacking.GetSpecifiedShortnames() != "" {
		flag = cmd.Flags().ShorthandLookup(lacking.GetSpecifiedName())
	}
	if flag == nil {
		return err
	}
	value := flag.Value.Type()
	if part := strings.SplitN(flag.Usage, "`", 3); len(part) == 3 {
		value = part[1]
	}
	return fmt.Errorf("--%s needs a value: --%s %s", flag.Name, flag.Name, value)
}

// outputFlag adds -o to a command and returns a function that checks it.
func outputFlag(cmd *cobra.Command) func() (asJSON bool, err error) {
	format := cmd.Flags().StringP("output", "o", "text", "print in `FORMAT`: text or json")
	cli.OneOf(cmd, "output", "text", "json")
	return func() (bool, error) {
		switch *format {
		case "text", "json":
			return *format == "json", nil
		}
		return false, cli.BadUsage(fmt.Errorf("--output: %q is not one of text, json", *format))
	}
}
