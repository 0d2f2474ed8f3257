package ops

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// watchEvery is how often a watched table is drawn again.
const watchEvery = 2 * time.Second

// clearScreen puts the cursor of a terminal into its corner and empties it.
const clearScreen = "\x1b[H\x1b[2J"

func newStatus() *cobra.Command {
	var pool string
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the backends of a running router, their state and load",
		Long: `Show the backends of a running router: their state; requests in flight, of all routers,
and how many there may be; tokens that are still to be prefilled; what their engines
said when they were last scraped, requests that run + wait and the part of the KV cache
in use; weight, models and lease. Columns in which there is nothing to see are left out.`,
		Example: `  warmroute status
  warmroute status --watch --admin http://router:9090`,
		Args: cli.NoArgs,
	}
	c := withAdmin(cmd)
	c.poolFlag(&pool, "only the pool `NAME`")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "draw it again every 2 s until interrupted")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		if watch {
			return c.watch(func() error { return c.listBackends(pool) })
		}
		return c.listBackends(pool)
	}
	return cmd
}

// watch draws until the command is interrupted. Being interrupted is how it is meant to end.
func (c *call) watch(draw func() error) error {
	out := c.cmd.OutOrStdout()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if cli.IsTerminal(out) {
			io.WriteString(out, clearScreen)
		}
		if err := draw(); err != nil {
			if c.cmd.Context().Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-tick.C:
		case <-c.cmd.Context().Done():
			return nil
		}
	}
}

// listBackends prints the backends of a pool, or of all.
func (c *call) listBackends(pool string) error {
	out, err := c.admin().ListBackends(c.cmd.Context(), &v1.ListBackendsRequest{Pool: pool})
	if err != nil {
		return c.failed(err)
	}
	return c.show(out, func(w io.Writer) {
		t := newTable(
			text("POOL").ifSeveral(), text("BACKEND"), text("STATE"), number("IN FLIGHT"), number("QUEUED"), text("ENGINE").unless("-"),
			number("KV").unless("-"), number("WEIGHT").unless("1"), text("MODELS"), number("LEASE").unless("-"),
		)
		for _, b := range out.GetBackends() {
			t.row(
				b.GetPool(), b.GetId(), b.GetState(), fmt.Sprintf("%d/%d", b.GetInFlight(), b.GetLimit()), b.GetQueuedTokens(),
				engine(b), usage(b), b.GetWeight(), orDash(strings.Join(b.GetModels(), ",")), lease(b),
			)
		}
		t.write(w)
	})
}

// engine is what the engine says it runs and lets wait.
func engine(b *v1.Backend) string {
	known := func(n *uint32) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	if b.EngineRunning == nil && b.EngineWaiting == nil {
		return "-"
	}
	return known(b.EngineRunning) + "+" + known(b.EngineWaiting)
}

func usage(b *v1.Backend) string {
	if b.KvUsage == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*b.GetKvUsage())
}

func lease(b *v1.Backend) string {
	if !b.GetRegistered() {
		return "-"
	}
	return time.Until(b.GetLeaseDeadline().AsTime()).Round(time.Second).String()
}
