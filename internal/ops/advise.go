package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// advising is what the flags of advise say.
type advising struct {
	*call
	pool     string
	apply    bool
	yes      bool
	watchFor time.Duration
	html     string
	log      logged
}

func newAdvise() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "advise",
		Short: "Say what prefix_length and concurrency_threshold should be, and why",
		Long: `Say what prefix_length and concurrency_threshold of a pool should be: the router plays
the requests that ended last, as they came, to modelled engines with other settings. The
advice says what it rests on, what the change is expected to bring, with intervals of 90 %,
what other values would do, and what would make it wrong. Making it takes seconds to
minutes of one core of the router's machine; interrupt the command, and it ends.

--apply asks, sets what is advised, and shows the hit rate that engines report and the P90
of the time to first data before and after. strategy reset, or strategy set with the values
of before, goes back; the command says which.

--log reads a request log instead and plays it in this process: no router need run, and
the pool is what the flags say.`,
		Example: `  warmroute advise
  warmroute advise --pool chat --html advice.html
  warmroute advise --apply
  warmroute advise --log requests.jsonl.gz --prefix-length 1024`,
		Args: cli.NoArgs,
	}
	a := &advising{call: withAdmin(cmd)}
	a.poolFlag(&a.pool, "only the pool `NAME`")
	flags := cmd.Flags()
	flags.BoolVar(&a.apply, "apply", false, "set what is advised, once somebody says yes")
	flags.BoolVar(&a.yes, "yes", false, "do not ask")
	flags.DurationVar(&a.watchFor, "watch", 2*time.Minute, "after --apply, watch what comes of it for a `TIME`; 0: do not")
	flags.StringVar(&a.html, "html", "", "write a page with curves into `FILE` too")
	a.log.flags(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := errors.Join(a.check(), a.refuse()); err != nil {
			return err
		}
		page, err := a.page()
		if err != nil {
			return err
		}
		return errors.Join(a.run(page), page.close())
	}
	return cmd
}

// refuse says which flags do not go together.
func (a *advising) refuse() error {
	flags := a.cmd.Flags()
	switch {
	case a.log.path != "" && a.apply:
		return cli.BadUsage(errors.New("--apply changes a router that runs, and --log reads a file: leave one of them out"))
	case !a.apply && (a.yes || flags.Changed("watch")):
		return cli.BadUsage(errors.New("--yes and --watch mean nothing without --apply"))
	case a.watchFor != 0 && a.watchFor < shortestWatch:
		return cli.BadUsage(fmt.Errorf("--watch: %v is too short: want 0, not to watch, or %v at least", a.watchFor, shortestWatch))
	case a.apply && !a.yes && (a.output == "json" || !isTerminal(a.cmd.InOrStdin())):
		return cli.BadUsage(errors.New("--apply asks before it changes anything, and nobody can answer here: add --yes"))
	}
	return a.log.refuse(a.cmd)
}

// isTerminal reports whether somebody may type an answer.
func isTerminal(r io.Reader) bool {
	file, ok := r.(*os.File)
	return ok && cli.IsTerminal(file)
}

// run gives advice, on one pool or on all.
func (a *advising) run(page *advicePage) error {
	if a.log.path != "" {
		out, err := a.log.advise(a.cmd.Context(), a.pool, a.progress)
		a.clearProgress()
		if err != nil {
			return err
		}
		page.add(out.GetAdvice())
		return a.show(out, func(w io.Writer) { drawAdvice(w, out.GetAdvice(), "") })
	}
	pools, err := a.admin().GetRoutingConfig(a.cmd.Context(), &v1.GetRoutingConfigRequest{Pool: a.pool})
	if err != nil {
		return a.failed(err)
	}
	for i, p := range pools.GetPools() {
		if i > 0 && a.output != "json" {
			fmt.Fprintln(a.cmd.OutOrStdout())
		}
		if err := a.one(p, len(pools.GetPools()) > 1, page); err != nil {
			return err
		}
	}
	return nil
}

// one gives advice on a pool, and applies it where that is wanted.
func (a *advising) one(p *v1.PoolRouting, several bool, page *advicePage) error {
	out, err := a.wait(p.GetPool())
	if err != nil {
		return err
	}
	page.add(out.GetAdvice())
	named := ""
	if several {
		named = p.GetPool()
	}
	if err := a.show(out, func(w io.Writer) { drawAdvice(w, out.GetAdvice(), named) }); err != nil || !a.apply {
		return err
	}
	return a.applied(p, out.GetAdvice(), named)
}

// adviceWait is how long one call waits: progress is shown so often.
const adviceWait = 2 * time.Second

// wait returns advice once it is made.
func (a *advising) wait(pool string) (*v1.GetAdviceResponse, error) {
	defer a.clearProgress()
	for {
		out, err := a.admin().GetAdvice(a.cmd.Context(), &v1.GetAdviceRequest{Pool: pool, Wait: durationpb.New(adviceWait)})
		if err != nil {
			return nil, a.failed(err)
		}
		if out.GetProgress() == nil {
			return out, nil
		}
		a.progress(int(out.GetProgress().GetThrough()), int(out.GetProgress().GetWanted()))
	}
}

// progress says on a terminal how far it is.
func (a *advising) progress(through, wanted int) {
	if out := a.cmd.ErrOrStderr(); cli.IsTerminal(out) {
		fmt.Fprintf(out, "\r%d of %d replays\x1b[K", through, max(wanted, through))
	}
}

func (a *advising) clearProgress() {
	if out := a.cmd.ErrOrStderr(); cli.IsTerminal(out) {
		fmt.Fprint(out, "\r\x1b[K")
	}
}

// interrupted says whether somebody told the command to stop.
func interrupted(ctx context.Context) bool { return ctx.Err() != nil }
