package ops

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

func newTuning() *cobra.Command {
	var pool string
	cmd := &cobra.Command{
		Use:   "tuning",
		Short: "Show what automatic mode has done, and what it does",
		Long: `Show for each pool whether it is in automatic mode (pools[].tuning in the configuration),
what that waits for, and the steps that it made, the newest first: what was delivered
before each one → since, what became of it, and why.

  watched     what comes of it is being observed
  kept        nothing bad came of it
  taken_back  it is not in force any more
  overridden  somebody has changed how the pool is routed since

A router knows the steps that it made since it started and, of those of other routers, the
latest.`,
		Example: `  warmroute tuning
  warmroute tuning --pool chat -o json`,
		Args: cli.NoArgs,
	}
	c := withAdmin(cmd)
	c.poolFlag(&pool, "only the pool `NAME`")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := c.check(); err != nil {
			return err
		}
		out, err := c.admin().GetTuning(cmd.Context(), &v1.GetTuningRequest{Pool: pool})
		if err != nil {
			return c.failed(err)
		}
		return c.show(out, func(w io.Writer) { drawTuning(w, out.GetPools()) })
	}
	return cmd
}

// drawTuning prints automatic mode in pools for people.
func drawTuning(w io.Writer, pools []*v1.PoolTuning) {
	for i, p := range pools {
		if i > 0 && (p.GetAutomatic() || pools[i-1].GetAutomatic()) {
			fmt.Fprintln(w)
		}
		if p.GetAutomatic() {
			drawPoolTuning(w, p)
		} else {
			fmt.Fprintf(w, "pool %s: automatic mode is off\n", p.GetPool())
		}
	}
	if i := slices.IndexFunc(pools, func(p *v1.PoolTuning) bool { return !p.GetAutomatic() }); i >= 0 {
		fmt.Fprintf(w, `
To turn it on, in the configuration file, which is read again when it changes:

  pools:
    - name: %s
      tuning:
        automatic: true
`, pools[i].GetPool())
	}
}

func drawPoolTuning(w io.Writer, p *v1.PoolTuning) {
	leads := "this router leads"
	if !p.GetLeads() {
		leads = "this router follows"
	}
	fmt.Fprintf(w, "pool %s: automatic mode is on, a step is watched for %v, %s\n", p.GetPool(), p.GetObservation().AsDuration(), leads)
	if p.GetDoing() != "" {
		fmt.Fprintf(w, "now: %s\n", p.GetDoing())
	}
	if len(p.GetSteps()) == 0 {
		fmt.Fprint(w, "no step was made\n")
		return
	}
	fmt.Fprintln(w)
	drawSteps(w, p.GetSteps())
}

const (
	// stepTime is how the time of a step is written: a row has to be short, and steps are some days
	// old at most.
	stepTime = "_2 Jan 15:04"
	// whyWidth is that of the lines of reasons, in characters, whyIndent what they begin with.
	whyWidth  = 96
	whyIndent = "    "
)

// drawSteps prints steps as a table, the reason of each below its row.
func drawSteps(w io.Writer, steps []*v1.TuningStep) {
	t := newTable(text("AT"), text("SETTING"), number("FROM"), text(""), number("TO"), text("FATE"), text("HIT RATE"), text("TTFT P90"))
	for _, s := range steps {
		t.row(
			s.GetAt().AsTime().Local().Format(stepTime), s.GetSetting(), s.GetFrom(), "→", s.GetTo(), s.GetFate(),
			beforeAfter(s, func(m *v1.TuningMeasure) string { return share(m.GetHitRate()) }), beforeAfter(s, p90),
		)
	}
	var text strings.Builder
	t.write(&text)
	row := -1 // the first line is the head
	for line := range strings.Lines(text.String()) {
		io.WriteString(w, line)
		if row >= 0 {
			for _, part := range wrapped(steps[row].GetWhy(), whyWidth-len(whyIndent)) {
				fmt.Fprintf(w, "%s%s\n", whyIndent, part)
			}
		}
		row++
	}
}

// beforeAfter is a figure of what was delivered before a step, and since, where that is known.
func beforeAfter(s *v1.TuningStep, figure func(*v1.TuningMeasure) string) string {
	after := "-"
	if s.GetAfter() != nil {
		after = figure(s.GetAfter())
	}
	return figure(s.GetBefore()) + " → " + after
}

// p90 is the P90 of the time to first token, "-" where there were no streams.
func p90(m *v1.TuningMeasure) string {
	if m.GetTtftP90() == nil {
		return "-"
	}
	return took(m.GetTtftP90().AsDuration())
}

// wrapped is a text in lines of some characters at most; a word that is longer has its own.
func wrapped(text string, width int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
