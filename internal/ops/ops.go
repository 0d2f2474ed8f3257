package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

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
		newStatus(), newHealth(), newBackends(), newExplain(), newHits(), newAdvise(), newTuning(), newStrategy(), newDecisions(), newIndex(),
	}
}

// call is what the flags of a command say about the router it talks to and the form in
// which it prints.
type call struct {
	cmd    *cobra.Command
	at     string // base URL
	flag   string // that says so
	output string
	access access
	http   *http.Client // set by check
}

// withAdmin gives a command the flags of one that talks to the admin port.
func withAdmin(cmd *cobra.Command) *call {
	c := with(cmd, "admin", "ask the admin port at `URL`", defaultAdmin)
	c.accessFlags("WARMROUTE_ADMIN_KEY", "of an operator")
	return c
}

// withRouter gives a command the flags of one that talks to the data port.
func withRouter(cmd *cobra.Command) *call {
	c := with(cmd, "router", "ask the router at `URL`", defaultRouter)
	c.accessFlags("WARMROUTE_KEY", "of a tenant")
	return c
}

func with(cmd *cobra.Command, flag, usage, fallback string) *call {
	c := &call{cmd: cmd, flag: flag}
	cmd.Flags().StringVar(&c.at, flag, fallback, usage)
	cmd.Flags().StringVarP(&c.output, "output", "o", "table", "print in `FORMAT`: table or json")
	cli.OneOf(cmd, "output", "table", "json")
	cli.NoArg(cmd)
	return c
}

func (c *call) admin() warmroutev1connect.AdminServiceClient {
	return warmroutev1connect.NewAdminServiceClient(c.http, c.base())
}

func (c *call) routing() warmroutev1connect.RoutingServiceClient {
	return warmroutev1connect.NewRoutingServiceClient(c.http, c.base())
}

// base is the router's URL, which may be given as host:port.
func (c *call) base() string {
	if strings.Contains(c.at, "://") {
		return strings.TrimRight(c.at, "/")
	}
	if c.access.secured() {
		return "https://" + c.at
	}
	return "http://" + c.at
}

// check refuses flags that make no sense, before anything is asked, and makes ready to ask.
func (c *call) check() error {
	if c.output != "table" && c.output != "json" {
		return cli.BadUsage(fmt.Errorf("--output: %q is not one of table, json", c.output))
	}
	if at, err := url.Parse(c.base()); err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return cli.BadUsage(fmt.Errorf("--%s: %q: want http://host:port or host:port", c.flag, c.at))
	}
	var err error
	c.http, err = c.access.client()
	return err
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
		return cli.BadUsage(errors.New(inFlags(e.Message())))
	case e.Code() == connect.CodeUnauthenticated:
		return c.access.refused(e)
	case e.Code() == connect.CodeUnavailable && !connect.IsWireError(err):
		return fmt.Errorf("no router answers at %s (--%s): %s%s", c.base(), c.flag, e.Message(), mistrusted(err))
	case e.Code() == connect.CodeUnimplemented, e.Code() == connect.CodeUnknown:
		return fmt.Errorf("what answers at %s (--%s) is not %s", c.base(), c.flag, ports[c.flag])
	}
	return errors.New(e.Message())
}

// ports are what the flags name.
var ports = map[string]string{
	"admin":  "the admin port of a router (admin_listen, 9090 unless configured)",
	"router": "the port of a router that takes requests (listen, 8080 unless configured)",
}

// flagsOf are the flags by which fields are set that an error may begin with.
var flagsOf = map[string]string{
	"prompt.original.body":  "--file",
	"prompt.original.path":  "--path",
	"tenant_id":             "--tenant",
	"pool":                  "--pool",
	"since":                 "--since",
	"limit":                 "--count",
	"lease":                 "--lease",
	"rank":                  "--rank",
	"weight":                "--weight",
	"prefix_length":         "--prefix-length",
	"concurrency_threshold": "--concurrency-threshold",
	"min_match_ratio":       "--min-match-ratio",
	"w":                     "--w",
}

// inFlags is what a router says of a field in words of the command line.
func inFlags(message string) string {
	message = strings.TrimPrefix(message, "config: ")
	field, rest, found := strings.Cut(message, ": ")
	if flag := flagsOf[field]; found && flag != "" {
		return flag + ": " + rest
	}
	return message
}

// show prints an answer: as JSON, or for people, as draw does.
func (c *call) show(answer proto.Message, draw func(w io.Writer)) error {
	if c.output == "json" {
		return c.json(answer, protojson.MarshalOptions{Multiline: true, EmitUnpopulated: true})
	}
	var text strings.Builder
	draw(&text)
	_, err := io.WriteString(c.cmd.OutOrStdout(), text.String())
	return err
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
	return c.show(answer, func(w io.Writer) { fmt.Fprintf(w, format+"\n", args...) })
}
