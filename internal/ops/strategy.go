package ops

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

func newStrategy() *cobra.Command {
	cmd := group("strategy", "Show or change how the pools of a running router are routed")
	cmd.AddCommand(newGetStrategy(), newSetStrategy(), newResetStrategy())
	return cmd
}

func newGetStrategy() *cobra.Command {
	var pool string
	cmd := &cobra.Command{Use: "get", Short: "Show how pools are routed", Args: cli.NoArgs}
	c := withAdmin(cmd)
	c.poolFlag(&pool, "only the pool `NAME`")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		out, err := c.admin().GetRoutingConfig(cmd.Context(), &v1.GetRoutingConfigRequest{Pool: pool})
		if err != nil {
			return c.failed(err)
		}
		return c.show(out, func(w io.Writer) {
			t := newTable(text("POOL").ifSeveral(), text("SETTING"), text("VALUE"), text("FROM"))
			for _, p := range out.GetPools() {
				now, changed := settings(p.GetConfig()), settings(p.GetChanged())
				for i, one := range now {
					from := "configuration"
					if changed[i].value != "" {
						from = "strategy set"
					}
					t.row(p.GetPool(), one.name, one.value, from)
				}
			}
			t.write(w)
		})
	}
	return cmd
}

// setting is one of how a pool is routed, by its name in the configuration; its value is
// empty where it is not there.
type setting struct{ name, value string }

// settings are how a pool is routed, always the same ones.
func settings(c *v1.RoutingConfig) []setting {
	length := valueOf(c.PrefixLength)
	if length == "0" {
		length = "default"
	}
	return []setting{
		{"strategy", c.GetStrategy()},
		{"prefix_length", length},
		{"concurrency_threshold", valueOf(c.ConcurrencyThreshold)},
		{"min_match_ratio", valueOf(c.MinMatchRatio)},
		{"w", valueOf(c.W)},
	}
}

func valueOf[T any](value *T) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(*value)
}

func newSetStrategy() *cobra.Command {
	var pool string
	var length, threshold uint32
	var ratio, w float64
	cmd := &cobra.Command{
		Use:   "set [STRATEGY]",
		Short: "Change how a pool is routed, from the next decision on",
		Long: `Change how a pool is routed, from the next decision on. Requests in flight are not
touched, and what is not named stays as it is.

Routers that share Redis all follow within two seconds, and those that start later
too; of changes to one setting the latest counts. Without Redis a change lasts until
the router ends. The strategies are ` + strings.Join(router.Strategies(), ",\n") + ".",
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
	cli.CompleteArg(cmd, strategies)
	flags := cmd.Flags()
	c.poolFlag(&pool, "change the pool `NAME`")
	flags.Uint32Var(&length, "prefix-length", 0, "hash up to `N` characters of a prompt; 0 is the strategy's default")
	flags.Uint32Var(&threshold, "concurrency-threshold", 0, "take another backend at `N` requests in flight")
	flags.Float64Var(&ratio, "min-match-ratio", 0, "a holder has at least the part `R` of a prompt")
	flags.Float64Var(&w, "w", 0, "weigh uncached tokens `W` times those queued")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		change := new(v1.RoutingConfig)
		if len(args) > 0 {
			change.Strategy = &args[0]
		}
		nothing := len(args) == 0
		for name, set := range map[string]func(){
			"prefix-length":         func() { change.PrefixLength = &length },
			"concurrency-threshold": func() { change.ConcurrencyThreshold = &threshold },
			"min-match-ratio":       func() { change.MinMatchRatio = &ratio },
			"w":                     func() { change.W = &w },
		} {
			if flags.Changed(name) {
				set()
				nothing = false
			}
		}
		if nothing {
			return cli.BadUsage(fmt.Errorf("nothing is to change: name a strategy or a setting (see %s --help)", cmd.CommandPath()))
		}
		return c.setRouting(&v1.SetRoutingConfigRequest{Pool: pool, Config: change})
	}
	return cmd
}

func newResetStrategy() *cobra.Command {
	var pool string
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Route a pool as it is configured again, whatever was set",
		Args:  cli.NoArgs,
	}
	c := withAdmin(cmd)
	c.poolFlag(&pool, "change the pool `NAME`")
	cmd.RunE = func(*cobra.Command, []string) error {
		return c.setRouting(&v1.SetRoutingConfigRequest{Pool: pool, Reset_: true})
	}
	return cmd
}

// setRouting changes how a pool is routed, and shows what was different before.
func (c *call) setRouting(in *v1.SetRoutingConfigRequest) error {
	if err := c.check(); err != nil {
		return err
	}
	out, err := c.admin().SetRoutingConfig(c.cmd.Context(), in)
	if err != nil {
		return c.failed(err)
	}
	return c.show(out, func(w io.Writer) {
		t := newTable(text("SETTING"), text("BEFORE"), text("NOW"))
		before := settings(out.GetBefore())
		for i, now := range settings(out.GetConfig()) {
			t.row(now.name, before[i].value, now.value)
		}
		t.write(w)
		switch {
		case out.GetShared():
			fmt.Fprint(w, "\nAll routers that share Redis follow, and those that start later.\n")
		case !in.GetReset_():
			fmt.Fprint(w, "\nThis lasts until the router ends: it shares no Redis with others.\n")
		}
	})
}
