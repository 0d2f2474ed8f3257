package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
)

// Where a router is looked for.
const (
	defaultAdmin  = "http://127.0.0.1:9090"
	defaultRouter = "http://127.0.0.1:8080"
)

// Commands returns the subcommands.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newStatus(), newBackends(), newExplain(), newHits(), newStrategy(), newDecisions(), newIndex(),
	}
}

// call is what the flags of a command say about the router it talks to and the form in
// which it prints.
type call struct {
	cmd    *cobra.Command
	at     string // base URL
	flag   string // that says so
	output string
}

// withAdmin gives a command the flags of one that talks to the admin port.
func withAdmin(cmd *cobra.Command) *call {
	return with(cmd, "admin", "ask the admin port at `URL`", defaultAdmin)
}

// withRouter gives a command the flags of one that talks to the data port.
func withRouter(cmd *cobra.Command) *call {
	return with(cmd, "router", "ask the router at `URL`", defaultRouter)
}

func with(cmd *cobra.Command, flag, usage, fallback string) *call {
	c := &call{cmd: cmd, flag: flag}
	cmd.Flags().StringVar(&c.at, flag, fallback, usage)
	cmd.Flags().StringVarP(&c.output, "output", "o", "table", "print in `FORMAT`: table or json")
	return c
}

func (c *call) admin() warmroutev1connect.AdminServiceClient {
	return warmroutev1connect.NewAdminServiceClient(http.DefaultClient, c.base())
}

func (c *call) routing() warmroutev1connect.RoutingServiceClient {
	return warmroutev1connect.NewRoutingServiceClient(http.DefaultClient, c.base())
}

// base is the router's URL, which may be given as host:port.
func (c *call) base() string {
	if strings.Contains(c.at, "://") {
		return strings.TrimRight(c.at, "/")
	}
	return "http://" + c.at
}

// check refuses flags that make no sense, before anything is asked.
func (c *call) check() error {
	if c.output != "table" && c.output != "json" {
		return cli.BadUsage(fmt.Errorf("--output: %q is not one of table, json", c.output))
	}
	return nil
}

// failed says what an error of a call means to who typed the command.
func (c *call) failed(err error) error {
	var e *connect.Error
	switch {
	case err == nil:
		return nil
	case c.cmd.Context().Err() != nil || errors.Is(err, context.Canceled):
		return cli.ErrInterrupted
	case !errors.As(err, &e):
		return err
	case e.Code() == connect.CodeInvalidArgument, e.Code() == connect.CodeNotFound && connect.IsWireError(err):
		return cli.BadUsage(errors.New(e.Message()))
	case e.Code() == connect.CodeUnavailable && !connect.IsWireError(err):
		return fmt.Errorf("no router answers at %s (--%s): %s", c.base(), c.flag, e.Message())
	case e.Code() == connect.CodeUnimplemented, e.Code() == connect.CodeUnknown:
		return fmt.Errorf("what answers at %s (--%s) is not the right port of a router", c.base(), c.flag)
	}
	return errors.New(e.Message())
}

// show prints an answer: as JSON, or as the table that draw makes.
func (c *call) show(answer proto.Message, draw func(t *table)) error {
	if c.output == "json" {
		return c.json(answer, protojson.MarshalOptions{Multiline: true, EmitUnpopulated: true})
	}
	t := &table{tabwriter.NewWriter(c.cmd.OutOrStdout(), 0, 0, 2, ' ', 0)}
	draw(t)
	return t.w.Flush()
}

func (c *call) json(answer proto.Message, o protojson.MarshalOptions) error {
	text, err := o.Marshal(answer)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.cmd.OutOrStdout(), "%s\n", text)
	return err
}

// say prints a line for people; programs get the answer.
func (c *call) say(answer proto.Message, format string, args ...any) error {
	return c.show(answer, func(t *table) { fmt.Fprintf(t.w, format+"\n", args...) })
}

// table is rows of cells that line up.
type table struct{ w *tabwriter.Writer }

// row adds a row.
func (t *table) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			io.WriteString(t.w, "\t")
		}
		fmt.Fprint(t.w, cell)
	}
	io.WriteString(t.w, "\n")
}

// percent is a part of a whole, "-" where there is no whole.
func percent(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// orDash is a text, "-" where it is empty.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
