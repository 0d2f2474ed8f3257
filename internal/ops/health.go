package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
)

const (
	// healthWait bounds the question for health: who asks it has no patience.
	healthWait = 5 * time.Second
	// maxHealth bounds the answer.
	maxHealth = 1 << 20
)

func newHealth() *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Say whether a running router is alive, or ready",
		Long: `Asks the admin port of a running router whether it is alive (/healthz), or with --ready
whether some backend can serve (/readyz). The exit code is 0 if so, else 1: for health
checks of containers, which have no curl.`,
		Example: `  warmroute health
  warmroute health --ready --admin http://router:9090`,
		Args: cli.NoArgs,
	}
	c := withAdmin(cmd)
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether it is ready")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		if ready {
			return c.ready()
		}
		return c.alive()
	}
	return cmd
}

// alive asks whether the process lives.
func (c *call) alive() error {
	status, body, err := c.get("/healthz")
	switch {
	case err != nil:
		return err
	case status != http.StatusOK || strings.TrimSpace(string(body)) != "ok":
		return c.stranger()
	case c.output == "json":
		_, err = io.WriteString(c.cmd.OutOrStdout(), "{\"status\":\"alive\"}\n")
	default:
		_, err = io.WriteString(c.cmd.OutOrStdout(), "alive\n")
	}
	return err
}

// ready asks whether the router can serve.
func (c *call) ready() error {
	status, body, err := c.get("/readyz")
	if err != nil {
		return err
	}
	var said struct {
		Status            string
		Backends, Serving int
	}
	if json.Unmarshal(body, &said) != nil || said.Status == "" {
		return c.stranger()
	}
	words := fmt.Sprintf("%s: %d of %d backends can serve", said.Status, said.Serving, said.Backends)
	if c.output == "json" {
		_, err = c.cmd.OutOrStdout().Write(body)
	} else if status == http.StatusOK {
		_, err = io.WriteString(c.cmd.OutOrStdout(), words+"\n")
	}
	if status != http.StatusOK {
		err = errors.New(words)
	}
	return err
}

// get reads a page of the router.
func (c *call) get(path string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(c.cmd.Context(), healthWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base()+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if c.cmd.Context().Err() != nil {
			return 0, nil, cli.ErrInterrupted
		}
		return 0, nil, fmt.Errorf("no router answers at %s (--%s): %w", c.base(), c.flag, errors.Unwrap(err))
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	return resp.StatusCode, body, err
}

// stranger says that something else answers.
func (c *call) stranger() error {
	return fmt.Errorf("what answers at %s (--%s) is not %s", c.base(), c.flag, ports[c.flag])
}
