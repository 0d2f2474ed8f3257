package ops

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

func newExplain() *cobra.Command {
	var file, path, tenant string
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Show where a request would go, and why, without sending it",
		Example: `  warmroute explain --file body.json
  warmroute explain --path /v1/messages --file - < body.json`,
		Args: cli.NoArgs,
	}
	c := withRouter(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "the request body is in `FILE`, - for standard input")
	cmd.Flags().StringVar(&path, "path", "/v1/chat/completions", "it is sent to `PATH`")
	cli.OneOf(cmd, "path", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings")
	cmd.Flags().StringVar(&tenant, "tenant", "", "it has the tenant id `ID`")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		body, err := readFile(cmd.InOrStdin(), file)
		if err != nil {
			return err
		}
		out, err := c.routing().Explain(cmd.Context(), &v1.ExplainRequest{
			Prompt:   &v1.Prompt{Content: &v1.Prompt_Original{Original: &v1.OriginalRequest{Path: path, Body: body}}},
			TenantId: tenant,
		})
		if err != nil {
			return c.failed(err)
		}
		return c.show(out, func(w io.Writer) { drawExplanation(w, out) })
	}
	return cmd
}

func readFile(in io.Reader, file string) ([]byte, error) {
	switch file {
	case "":
		return nil, cli.BadUsage(errors.New("--file is missing: where is the request body?"))
	case "-":
		return io.ReadAll(in)
	}
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, cli.BadUsage(fmt.Errorf("--file: %w", err))
	}
	return body, nil
}

func drawExplanation(w io.Writer, e *v1.ExplainResponse) {
	fmt.Fprintf(w, "%s → %s\n%s\n\n", orDash(e.GetModel()), orDash(e.GetBackend()), e.GetExplanation())
	fmt.Fprintf(w, "pool %s, %s, prompt of about %d tokens, %d blocks\n\n", e.GetPool(), e.GetStrategy(), e.GetPromptTokens(), e.GetPromptBlocks())
	t := newTable(
		number("#"), text("BACKEND"), text("STATE").unless("up"), number("MATCHED"), number("PREDICTED"), number("QUEUED"),
		number("IN FLIGHT"), number("COST"), text("WHY"),
	)
	for _, c := range e.GetCandidates() {
		if c.GetExcluded() != "" {
			t.row("-", c.GetTarget().GetBackend(), c.GetState(), "-", "-", "-", "-", "-", c.GetExcluded())
			continue
		}
		t.row(
			place(c), c.GetTarget().GetBackend(), c.GetState(), c.GetMatchedTokens(), c.GetPredictedCachedTokens(), c.GetQueuedTokens(),
			fmt.Sprintf("%d/%d", c.GetInFlight(), c.GetLimit()), fmt.Sprintf("%.0f", c.GetCost()), why(c),
		)
	}
	t.write(w)
}

// place is a candidate's place in the order, "-" where it would not be taken.
func place(c *v1.Candidate) string {
	if c.GetPlace() == 0 {
		return "-"
	}
	return fmt.Sprint(c.GetPlace())
}

// why is the reason for which a candidate would be taken. Each place is a choice among those
// that are left, so the last one has no other.
func why(c *v1.Candidate) string {
	reason := orDash(c.GetReason())
	if c.GetPlace() > 1 && reason == "only_backend" {
		reason = "last one left"
	}
	if c.GetFull() {
		reason += " (full)"
	}
	return reason
}
