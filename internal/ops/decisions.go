package ops

import (
	"fmt"
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
		Example: `  warmroute decisions -n 20
  warmroute decisions --follow -o json`,
		Args: cli.NoArgs,
	}
	c := withAdmin(cmd)
	cmd.Flags().StringVar(&pool, "pool", "", "only those in the pool `NAME`")
	cmd.Flags().Uint32VarP(&count, "count", "n", 20, "the latest `N`")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show those that end from now on, until interrupted")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		if follow {
			return c.follow(pool)
		}
		out, err := c.admin().ListDecisions(cmd.Context(), &v1.ListDecisionsRequest{Limit: count, Pool: pool})
		if err != nil {
			return c.failed(err)
		}
		return c.show(out, func(t *table) {
			t.row("TIME", "POOL", "BACKEND", "REASON", "RESULT", "TTFT", "TOOK", "PREDICTED", "CACHED", "PROMPT")
			for _, d := range out.GetDecisions() {
				t.row(decisionCells(d)...)
			}
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
		fmt.Fprintf(out, "%-15v %-10v %-24v %-14v %-14v ttft %-8v took %-8v cached %v of %v, predicted %v\n", followed(stream.Msg().GetDecision())...)
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
	known := func(n *uint32) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	return []any{
		d.GetStart().AsTime().Local().Format("15:04:05.000"), d.GetPool(), d.GetBackend(), d.GetReason(), d.GetResult(),
		ttft, d.GetDuration().AsDuration().Round(time.Millisecond), d.GetPredictedCachedTokens(),
		known(d.GetUsage().CachedTokens), known(d.GetUsage().PromptTokens),
	}
}

// followed are the same in the order of a line.
func followed(d *v1.DecisionRecord) []any {
	cells := decisionCells(d)
	return append(cells[:7:7], cells[8], cells[9], cells[7])
}
