package ops

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

func newBackends() *cobra.Command {
	cmd := group("backends", "List, add, drain and remove backends of a running router")
	cmd.AddCommand(newList(), newAdd(), newDrain(), newUndrain(), newRemove())
	return cmd
}

// group is a command that only has subcommands.
func group(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.BadUsage(fmt.Errorf("unknown command %q (see %s --help)", args[0], cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// one wants exactly one argument.
func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cli.BadUsage(fmt.Errorf("%s takes one argument, %s (see %s --help)", cmd.Name(), what, cmd.CommandPath()))
		}
		return nil
	}
}

func newList() *cobra.Command {
	var pool string
	cmd := &cobra.Command{Use: "ls", Short: "List backends", Args: cli.NoArgs}
	c := withAdmin(cmd)
	c.poolFlag(&pool, "only the pool `NAME`")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		return c.listBackends(pool)
	}
	return cmd
}

func newAdd() *cobra.Command {
	var in v1.RegisterBackendRequest
	var rank, threshold int
	var length time.Duration
	cmd := &cobra.Command{
		Use: "add URL", Short: "Register a backend for as long as its lease, or until it is added again",
		Example: `  warmroute backends add http://gpu-3:8000 --lease 1h`,
		Args:    one("the base URL of an engine"),
	}
	c := withAdmin(cmd)
	flags := cmd.Flags()
	c.poolFlag(&in.Pool, "add it to the pool `NAME`")
	flags.IntVar(&rank, "rank", -1, "it is the data-parallel rank `N` behind its URL (default none)")
	flags.Lookup("rank").DefValue = "0" // which help does not show; -1 is none
	flags.Float64Var(&in.Weight, "weight", 1, "give it the share `W` of load relative to others")
	flags.IntVar(&threshold, "concurrency-threshold", 0, "let it have `N` requests in flight (default the pool's)")
	flags.DurationVar(&length, "lease", 2*time.Minute, "let it stay for `TIME` unless it is added again, 1s to 1h")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := c.check(); err != nil {
			return err
		}
		if threshold < 0 {
			return cli.BadUsage(errors.New("--concurrency-threshold: must not be negative"))
		}
		in.Url, in.Lease, in.ConcurrencyThreshold = args[0], durationpb.New(length), uint32(threshold) //nolint:gosec // checked
		if rank >= 0 {
			in.Rank = new(uint32(rank)) //nolint:gosec // checked
		}
		out, err := c.admin().RegisterBackend(cmd.Context(), &in)
		if err != nil {
			return c.failed(err)
		}
		return c.say(out, "%s is registered until %s", out.GetBackend(), out.GetLeaseDeadline().AsTime().Local().Format(time.DateTime))
	}
	return cmd
}

// named is a command about one backend, of those that are wanted.
func named(use, short string, wanted func(*v1.Backend) bool, run func(c *call, pool, id string) error) *cobra.Command {
	var pool string
	cmd := &cobra.Command{Use: use + " BACKEND", Short: short, Args: one("the id of a backend as backends ls shows it")}
	c := withAdmin(cmd)
	c.poolFlag(&pool, "the one in the pool `NAME`, where several have it")
	cli.CompleteArg(cmd, c.backends(wanted))
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := c.check(); err != nil {
			return err
		}
		return c.failed(run(c, pool, args[0]))
	}
	return cmd
}

// draining is the state of a backend that takes nothing new.
const draining = "draining"

func newDrain() *cobra.Command {
	return named("drain", "Let a backend finish what it has and take nothing new", func(b *v1.Backend) bool { return b.GetState() != draining }, func(c *call, pool, id string) error {
		out, err := c.admin().DrainBackend(c.cmd.Context(), &v1.DrainBackendRequest{Pool: pool, Backend: id})
		if err != nil {
			return err
		}
		return c.say(out, "%s drains, %d in flight", id, out.GetInFlight())
	})
}

func newUndrain() *cobra.Command {
	return named("undrain", "Let a backend take requests again", func(b *v1.Backend) bool { return b.GetState() == draining }, func(c *call, pool, id string) error {
		out, err := c.admin().UndrainBackend(c.cmd.Context(), &v1.UndrainBackendRequest{Pool: pool, Backend: id})
		if err != nil {
			return err
		}
		return c.say(out, "%s takes requests", id)
	})
}

func newRemove() *cobra.Command {
	return named("rm", "Remove a backend that was registered; its requests in flight go on", (*v1.Backend).GetRegistered, func(c *call, pool, id string) error {
		out, err := c.admin().DeregisterBackend(c.cmd.Context(), &v1.DeregisterBackendRequest{Pool: pool, Backend: id})
		if err != nil {
			return err
		}
		return c.say(out, "%s has left", id)
	})
}
