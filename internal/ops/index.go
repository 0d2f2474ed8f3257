package ops

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

func newIndex() *cobra.Command {
	cmd := group("index", "Show what a running router thinks its backends have cached")
	cmd.AddCommand(newIndexStats())
	return cmd
}

func newIndexStats() *cobra.Command {
	var pool string
	cmd := &cobra.Command{Use: "stats", Short: "Show how many blocks each backend is thought to hold", Args: cli.NoArgs}
	c := withAdmin(cmd)
	c.poolFlag(&pool, "only the pool `NAME`")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		out, err := c.admin().GetIndexStats(cmd.Context(), &v1.GetIndexStatsRequest{Pool: pool})
		if err != nil {
			return c.failed(err)
		}
		return c.show(out, func(w io.Writer) {
			t := newTable(
				text("POOL").ifSeveral(), text("BACKEND"), number("BLOCKS"), number("CAPACITY"), number("FULL"), number("EVICTED"),
				number("BLOCK BYTES").unless("256"), number("HORIZON").unless("-"),
			)
			for _, b := range out.GetBackends() {
				horizon := "-"
				if b.GetHorizon() != nil {
					horizon = time.Since(b.GetHorizon().AsTime()).Round(time.Second).String() + " ago"
				}
				t.row(
					b.GetPool(), b.GetBackend(), amount(b.GetBlocks()), amount(b.GetCapacity()), percent(b.GetBlocks(), b.GetCapacity()),
					amount(b.GetEvicted()), b.GetBlockBytes(), horizon,
				)
			}
			t.write(w)
		})
	}
	return cmd
}
