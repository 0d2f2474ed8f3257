package comparison

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/replay/report"
	"github.com/warmroute/warmroute/router"
)

// options are the flags that are not about a run.
type options struct {
	strategies []string
	settings   []string
	faults     []string
	sweep      string
	limit      int
	output     string
	html       string
}

// outputs are the values of --output, and what prints them.
var outputs = []struct { //nolint:gochecknoglobals // a constant
	name  string
	print func(*report.Report, io.Writer) error
}{
	{"table", (*report.Report).Table},
	{"json", (*report.Report).JSON},
	{"csv", (*report.Report).CSV},
}

// Command returns `warmroute replay`. Its errors are a [*cli.UsageError] where the caller is
// at fault, and [cli.ErrInterrupted] where the command was.
func Command() *cobra.Command {
	s := defaultScenario()
	o := options{strategies: defaultStrategies(), output: outputs[0].name}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Compare strategies and settings on a trace, in virtual time",
		Long: `Sends the same requests once per strategy to a fleet of modelled engines, behind the
router's own code, and prints what came of it. Time is virtual: an hour of a fleet takes
seconds, and equal seeds give equal results on machines of one architecture.

The requests are generated (--workload) or read from a recorded trace (--trace), of which
KIND says the format: ` + strings.Join(traceKinds(), ", ") + `. docs/replay.md says
how to record a request log, what the figures mean, and what the model leaves out.

What can be compared: the router's strategies
  ` + strings.Join(router.Strategies(), ", ") + `
and, as yardsticks, placements that only a replay has
  ` + strings.Join(placements(), ", "),
		Example: `  warmroute replay --workload docs --docs-duration 10m
  warmroute replay --trace mooncake:conversation.jsonl.gz --load 1.1 --html report.html
  warmroute replay --trace request-log:requests.jsonl --strategy prefix_aware --sweep concurrency_threshold=8,32,128
  warmroute replay --workload chat --fault "t=1200s backend=3 lose-cache" -o json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.asked.given = s.asked.changed(cmd)
			return o.execute(cmd, s)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&once{text: &s.asked.trace}, "trace", "replay a recorded trace, `KIND:FILE` (plain or gzip)")
	f.StringVar(&s.asked.generated, "workload", "", "replay a generated workload, a `KIND`: "+strings.Join(generatedKinds(), ", "))
	f.StringSliceVar(&o.strategies, "strategy", o.strategies, "compare these, `NAMES` by commas, in order")
	f.StringArrayVar(&o.settings, "set", nil, "give a routing setting another value, `KEY=VALUE` as in the configuration file (repeat for more)")
	f.Var(&once{text: &o.sweep}, "sweep", "compare values of a routing setting, or of a flag of the workload or the fleet, `KEY=V1,V2`")
	f.StringArrayVar(&o.faults, "fault", nil, "let something happen to one engine, `\"t=TIME backend=N lose-cache|restart\"`, N from 0 (repeat for more)")
	f.IntVar(&o.limit, "limit", 0, "end after that many requests (0: play all)")
	f.StringVarP(&o.output, "output", "o", o.output, "print as `FORMAT`: table, json or csv")
	f.StringVar(&o.html, "html", "", "write a report with plots to `FILE`, too")
	s.register(cmd)
	return cmd
}

// execute runs the command once its flags are known.
func (o *options) execute(cmd *cobra.Command, s scenario) error {
	ctx, stop := cli.UntilHangup(cmd.Context())
	defer stop()
	write, err := o.printer()
	if err != nil {
		return cli.BadUsage(err)
	}
	p, err := o.plan(ctx, s)
	if err != nil {
		return blame(err, true)
	}
	page, err := o.page(inUse(s.asked, cmd.OutOrStdout()))
	if err != nil {
		return cli.BadUsage(err)
	}
	r, err := p.watched(ctx, cmd.ErrOrStderr())
	if err != nil {
		_, refused := errors.AsType[*refusedError](err)
		return blame(err, refused)
	}
	if err := page.write(r.HTML); err != nil {
		return err
	}
	err = write(r, cmd.OutOrStdout())
	if errors.Is(err, syscall.EPIPE) {
		return nil // whoever reads has read enough
	}
	return err
}

// blame says whose fault an error is.
func blame(err error, usage bool) error {
	switch {
	case errors.Is(err, context.Canceled):
		return cli.ErrInterrupted
	case usage:
		return cli.BadUsage(err)
	}
	return err
}

// printer is what prints the report.
func (o *options) printer() (func(*report.Report, io.Writer) error, error) {
	var names []string
	for _, output := range outputs {
		if output.name == o.output {
			return output.print, nil
		}
		names = append(names, output.name)
	}
	return nil, fmt.Errorf("--output: %q is not one of %s", o.output, strings.Join(names, ", "))
}

// page is the file of the report with plots, nil without.
func (o *options) page(inUse []os.FileInfo) (*pendingFile, error) {
	if o.html == "" {
		return nil, nil
	}
	page, err := newPendingFile(o.html, inUse...)
	if err != nil {
		return nil, fmt.Errorf("--html: %w", err)
	}
	return page, nil
}

// inUse are the files that a report must not replace: the trace, and what is printed to.
func inUse(a asked, stdout io.Writer) []os.FileInfo {
	var files []os.FileInfo
	if _, trace, err := a.source(); err == nil && trace != "" {
		if info, err := os.Stat(trace); err == nil {
			files = append(files, info)
		}
	}
	if printed, ok := stdout.(*os.File); ok {
		if info, err := printed.Stat(); err == nil {
			files = append(files, info)
		}
	}
	return files
}

// plan works out the runs.
func (o *options) plan(ctx context.Context, s scenario) (*plan, error) {
	strategies, err := parseStrategies(o.strategies)
	if err != nil {
		return nil, err
	}
	if o.limit < 0 {
		return nil, fmt.Errorf("--limit: %d is negative", o.limit)
	}
	for _, setting := range o.settings {
		key, value, found := strings.Cut(setting, "=")
		if !found {
			return nil, fmt.Errorf("--set: %q is not KEY=VALUE, with KEY one of %s", setting, strings.Join(config.RoutingKeys(), ", "))
		}
		if !cli.Printable(setting) {
			return nil, fmt.Errorf("--set: %q has characters that cannot be printed", setting)
		}
		if err := s.set(key, value); err != nil {
			return nil, under("--set", err)
		}
	}
	s.settings = o.settings
	for _, text := range o.faults {
		fault, err := parseFault(text)
		if err != nil {
			return nil, err
		}
		s.faults = append(s.faults, fault)
	}
	over, err := parseSweep(o.sweep)
	if err != nil {
		return nil, err
	}
	return newPlan(ctx, s, strategies, over, o.limit)
}

// watched runs the plan, with a progress bar where somebody can see it.
func (p *plan) watched(ctx context.Context, stderr io.Writer) (*report.Report, error) {
	var bar *cli.Bar
	if cli.IsTerminal(stderr) {
		bar = cli.NewBar(stderr, fmt.Sprintf("%d runs", len(p.jobs)), p.estimate)
	}
	defer bar.Close()
	return p.run(ctx, bar.Add)
}
