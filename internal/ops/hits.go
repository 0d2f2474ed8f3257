package ops

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

func newHits() *cobra.Command {
	var pool, by string
	cmd := &cobra.Command{
		Use:   "hits",
		Short: "Show how many prompt tokens came out of caches, and why the others did not",
		Example: `  warmroute hits
  warmroute hits --by cause`,
		Args: cli.NoArgs,
	}
	c := withAdmin(cmd)
	cmd.Flags().StringVar(&pool, "pool", "", "only the pool `NAME`")
	cmd.Flags().StringVar(&by, "by", "pool", "a row for each `WHAT`: pool, backend or cause")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		draw := map[string]func(*table, []*v1.PoolHits){"pool": drawPoolHits, "backend": drawBackendHits, "cause": drawCauses}[by]
		if draw == nil {
			return cli.BadUsage(fmt.Errorf("--by: %q is not one of pool, backend, cause", by))
		}
		out, err := c.admin().GetHitReport(cmd.Context(), &v1.GetHitReportRequest{Pool: pool})
		if err != nil {
			return c.failed(err)
		}
		return c.show(out, func(t *table) { draw(t, out.GetPools()) })
	}
	return cmd
}

// hitColumns are the cells of what became of some tokens. The hit rate is of the answers
// that reported one.
func hitColumns(h *v1.Hits) []any {
	return []any{
		percent(h.GetDeliveredTokens(), h.GetReportedPromptTokens()), h.GetPromptTokens(),
		h.GetAvailableTokens(), h.GetCapturedTokens(), h.GetPredictedTokens(), h.GetDeliveredTokens(),
	}
}

var hitHeads = []any{"HIT RATE", "PROMPT", "AVAILABLE", "CAPTURED", "PREDICTED", "DELIVERED"}

func drawPoolHits(t *table, pools []*v1.PoolHits) {
	t.row(append([]any{"POOL"}, hitHeads...)...)
	for _, p := range pools {
		t.row(append([]any{p.GetPool()}, hitColumns(p.GetTotal())...)...)
	}
}

func drawBackendHits(t *table, pools []*v1.PoolHits) {
	t.row(append([]any{"POOL", "BACKEND"}, hitHeads...)...)
	for _, p := range pools {
		for _, b := range p.GetBackends() {
			t.row(append([]any{p.GetPool(), b.GetBackend()}, hitColumns(b.GetHits())...)...)
		}
	}
}

func drawCauses(t *table, pools []*v1.PoolHits) {
	t.row("POOL", "TOKENS", "SHARE", "CAUSE")
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
			t.row(p.GetPool(), part.tokens, percent(part.tokens, h.GetPromptTokens()), part.cause)
		}
	}
}
