package ops

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

func newHits() *cobra.Command {
	var pool, by string
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "hits",
		Short: "Show how many prompt tokens came out of caches, and why the others did not",
		Long: `Show what became of the prompt tokens of answered requests, in tokens:

  PROMPT     all of them
  AVAILABLE  thought cached on the best backend that could take the request
  CAPTURED   thought cached on the backend that was taken
  PREDICTED  expected to be reported as cached by that one
  DELIVERED  reported as cached by it; of the answers that report it, the hit rate

Engines may deliver more than was thought to be cached: what a router thinks is counted in
blocks of some 60 tokens, theirs are smaller, so that a last part is cached that fills no
block here; and lengths are estimated by 4 bytes a token until a pool's answers have shown
how many there are. What lies between PROMPT and DELIVERED is told apart by --by cause.`,
		Example: `  warmroute hits --since 1h
  warmroute hits --by cause`,
		Args: cli.NoArgs,
	}
	c := withAdmin(cmd)
	c.poolFlag(&pool, "only the pool `NAME`")
	cmd.Flags().StringVar(&by, "by", "pool", "a row for each `WHAT`: pool, backend or cause")
	cli.OneOf(cmd, "by", "pool", "backend", "cause")
	cmd.Flags().DurationVar(&since, "since", 0, "only the last `TIME`, 1m to 24h (default since the router started)")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		draw := map[string]func([]*v1.PoolHits) *table{"pool": drawPoolHits, "backend": drawBackendHits, "cause": drawCauses}[by]
		if draw == nil {
			return cli.BadUsage(fmt.Errorf("--by: %q is not one of pool, backend, cause", by))
		}
		in := &v1.GetHitReportRequest{Pool: pool}
		if cmd.Flags().Changed("since") {
			in.Since = durationpb.New(since)
		}
		out, err := c.admin().GetHitReport(cmd.Context(), in)
		if err != nil {
			return c.failed(err)
		}
		return c.show(out, func(w io.Writer) {
			draw(out.GetPools()).write(w)
			from := out.GetFrom().AsTime()
			fmt.Fprintf(w, "\nsince %s, %v ago\n", from.Local().Format(time.DateTime), time.Since(from).Round(time.Second))
		})
	}
	return cmd
}

// hitColumns are what became of some tokens. The hit rate is of the answers that reported
// one.
func hitColumns(first ...column) []column {
	return append(first, number("HIT RATE"), number("PROMPT"), number("AVAILABLE"), number("CAPTURED"), number("PREDICTED"), number("DELIVERED"))
}

func hitCells(h *v1.Hits, first ...any) []any {
	return append(
		first, percent(h.GetDeliveredTokens(), h.GetReportedPromptTokens()), amount(h.GetPromptTokens()),
		amount(h.GetAvailableTokens()), amount(h.GetCapturedTokens()), amount(h.GetPredictedTokens()), amount(h.GetDeliveredTokens()),
	)
}

func drawPoolHits(pools []*v1.PoolHits) *table {
	t := newTable(hitColumns(text("POOL"))...)
	for _, p := range pools {
		t.row(hitCells(p.GetTotal(), p.GetPool())...)
	}
	return t
}

func drawBackendHits(pools []*v1.PoolHits) *table {
	t := newTable(hitColumns(text("POOL").ifSeveral(), text("BACKEND"))...)
	for _, p := range pools {
		for _, b := range p.GetBackends() {
			t.row(hitCells(b.GetHits(), p.GetPool(), b.GetBackend())...)
		}
	}
	return t
}

func drawCauses(pools []*v1.PoolHits) *table {
	t := newTable(text("POOL").ifSeveral(), number("TOKENS"), number("SHARE"), text("CAUSE"))
	for _, p := range pools {
		h := p.GetTotal()
		for _, part := range []struct {
			tokens uint64
			cause  string
		}{
			{h.GetDeliveredTokens(), "delivered from a cache"},
			{h.GetLostToNoReuseTokens(), "no reuse: nobody was thought to hold them"},
			{h.GetLostToOverflowTokens(), "overflow: who held more was full"},
			{h.GetLostToLoadChoiceTokens(), "load choice: who held more was passed over"},
			{h.GetLostToStaleIndexTokens(), "stale index: they were thought to be cached and were not"},
			{h.GetUnreportedTokens(), "unreported: the engine did not say"},
		} {
			t.row(p.GetPool(), amount(part.tokens), percent(part.tokens, h.GetPromptTokens()), part.cause)
		}
	}
	return t
}
