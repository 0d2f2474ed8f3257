package ops

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

func newDecisions() *cobra.Command {
	var pool string
	var count uint32
	var follow bool
	cmd := &cobra.Command{
		Use:   "decisions",
		Short: "Show the latest decisions of a running router, and what came of them",
		Long: `Show the latest decisions of a running router that have ended, the newest first: why the
backend was taken, how the request ended, the time to its first token and in all, the
tokens that were predicted to be cached, and those that the engine reported of the
prompt's.`,
		Example: `  warmroute decisions -n 20
  warmroute decisions --follow -o json`,
		Args: cli.NoArgs,
	}
	c := withAdmin(cmd)
	c.poolFlag(&pool, "only those in the pool `NAME`")
	cmd.Flags().Uint32VarP(&count, "count", "n", 20, "the latest `N`")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show those that end from now on, until interrupted")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		if count == 0 {
			return cli.BadUsage(errors.New("--count: 0: want at least 1"))
		}
		if follow {
			return c.follow(pool)
		}
		out, err := c.admin().ListDecisions(cmd.Context(), &v1.ListDecisionsRequest{Limit: count, Pool: pool})
		if err != nil {
			return c.failed(err)
		}
		return c.show(out, func(w io.Writer) {
			t := newTable(
				text("TIME"), text("POOL").ifSeveral(), text("BACKEND"), text("REASON"), text("RESULT"), number("TTFT"), number("TOOK"),
				number("PREDICTED"), number("CACHED"),
			)
			for _, d := range out.GetDecisions() {
				t.row(decisionCells(d)...)
			}
			t.write(w)
		})
	}
	return cmd
}

// follow prints decisions as they end, one a line. Being interrupted is how it ends.
func (c *call) follow(pool string) error {
	stream, err := c.admin().WatchDecisions(c.cmd.Context(), &v1.WatchDecisionsRequest{Pool: pool})
	if err != nil {
		return c.failed(err)
	}
	defer stream.Close()
	out := c.cmd.OutOrStdout()
	for stream.Receive() {
		if c.output == "json" {
			if err := c.json(stream.Msg(), protojson.MarshalOptions{}); err != nil {
				return err
			}
			continue
		}
		if n := stream.Msg().GetMissed(); n > 0 {
			fmt.Fprintf(out, "… %d more\n", n)
		}
		fmt.Fprintln(out, decisionLine(stream.Msg().GetDecision()))
	}
	if c.cmd.Context().Err() != nil {
		return nil
	}
	return c.failed(stream.Err())
}

// decisionCells are the cells of one decision.
func decisionCells(d *v1.DecisionRecord) []any {
	ttft := "-"
	if d.GetTtft() != nil {
		ttft = d.GetTtft().AsDuration().Round(time.Millisecond).String()
	}
	return []any{
		d.GetStart().AsTime().Local().Format(time.TimeOnly), d.GetPool(), orDash(d.GetBackend()), orDash(d.GetReason()), d.GetResult(),
		ttft, d.GetDuration().AsDuration().Round(time.Millisecond), d.GetPredictedCachedTokens(), cached(d.GetUsage()),
	}
}

// cached is how many of a prompt's tokens were cached, as far as the engine said.
func cached(u *v1.Usage) string {
	known := func(n *uint32) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	if u.GetPromptTokens() == 0 && u.GetCachedTokens() == 0 {
		return "-"
	}
	return known(u.CachedTokens) + "/" + known(u.PromptTokens)
}

// decisionLine is one decision in a line, for columns whose widths are not known yet.
func decisionLine(d *v1.DecisionRecord) string {
	return fmt.Sprintf("%v  %v  %-21v  %-13v  %-9v  ttft %-6v  took %-6v  predicted %v, cached %v", decisionCells(d)...)
}
