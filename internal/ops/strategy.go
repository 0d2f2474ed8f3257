package ops

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

func newStrategy() *cobra.Command {
	cmd := group("strategy", "Show or change how the pools of a running router are routed")
	cmd.AddCommand(newGetStrategy(), newSetStrategy())
	return cmd
}

func newGetStrategy() *cobra.Command {
	var pool string
	cmd := &cobra.Command{Use: "get", Short: "Show how pools are routed", Args: cli.NoArgs}
	c := withAdmin(cmd)
	cmd.Flags().StringVar(&pool, "pool", "", "only the pool `NAME`")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		out, err := c.admin().GetRoutingConfig(cmd.Context(), &v1.GetRoutingConfigRequest{Pool: pool})
		if err != nil {
			return c.failed(err)
		}
		return c.show(out, func(t *table) {
			t.row("POOL", "STRATEGY", "PREFIX LENGTH", "CONCURRENCY THRESHOLD", "MIN MATCH RATIO", "W")
			for _, p := range out.GetPools() {
				t.row(append([]any{p.GetPool()}, settings(p.GetConfig())...)...)
			}
		})
	}
	return cmd
}

// settings are the cells of how a pool is routed.
func settings(c *v1.RoutingConfig) []any {
	length := fmt.Sprint(c.GetPrefixLength())
	if c.GetPrefixLength() == 0 {
		length = "default"
	}
	return []any{c.GetStrategy(), length, c.GetConcurrencyThreshold(), c.GetMinMatchRatio(), c.GetW()}
}

func newSetStrategy() *cobra.Command {
	var pool string
	var length, threshold uint32
	var ratio, w float64
	cmd := &cobra.Command{
		Use:   "set [STRATEGY]",
		Short: "Change how a pool is routed, from the next decision on, until the router ends",
		Example: `  warmroute strategy set LEAST_EXPECTED_TTFT
  warmroute strategy set --pool chat --concurrency-threshold 64`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return one("a strategy")(cmd, args)
			}
			return nil
		},
	}
	c := withAdmin(cmd)
	flags := cmd.Flags()
	flags.StringVar(&pool, "pool", "", "change the pool `NAME`")
	flags.Uint32Var(&length, "prefix-length", 0, "hash up to `N` characters of a prompt; 0 is the strategy's default")
	flags.Uint32Var(&threshold, "concurrency-threshold", 0, "take another backend at `N` requests in flight")
	flags.Float64Var(&ratio, "min-match-ratio", 0, "a holder has at least the part `R` of a prompt")
	flags.Float64Var(&w, "w", 0, "weigh uncached tokens `W` times those queued")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := c.check(); err != nil {
			return err
		}
		change := new(v1.RoutingConfig)
		if len(args) > 0 {
			change.Strategy = &args[0]
		}
		for name, set := range map[string]func(){
			"prefix-length":         func() { change.PrefixLength = &length },
			"concurrency-threshold": func() { change.ConcurrencyThreshold = &threshold },
			"min-match-ratio":       func() { change.MinMatchRatio = &ratio },
			"w":                     func() { change.W = &w },
		} {
			if flags.Changed(name) {
				set()
			}
		}
		out, err := c.admin().SetRoutingConfig(cmd.Context(), &v1.SetRoutingConfigRequest{Pool: pool, Config: change})
		if err != nil {
			return c.failed(err)
		}
		return c.show(out, func(t *table) {
			t.row("", "STRATEGY", "PREFIX LENGTH", "CONCURRENCY THRESHOLD", "MIN MATCH RATIO", "W")
			t.row(append([]any{"before"}, settings(out.GetBefore())...)...)
			t.row(append([]any{"now"}, settings(out.GetConfig())...)...)
		})
	}
	return cmd
}
