package comparison

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/replay/report"
	"github.com/warmroute/warmroute/internal/workload"
)

// maxRuns bounds the runs of one command.
const maxRuns = 10_000

// sweep is a key and the values it takes, one after the other. The zero value is none.
type sweep struct {
	key    string
	values []string
}

// parseSweep reads KEY=VALUE,VALUE,…
func parseSweep(text string) (sweep, error) {
	if text == "" {
		return sweep{}, nil
	}
	key, list, _ := strings.Cut(text, "=")
	s := sweep{key: strings.TrimSpace(key)}
	if s.key == "" {
		return sweep{}, fmt.Errorf("--sweep: %q names no key: it is KEY=VALUE,VALUE,…", text)
	}
	for value := range strings.SplitSeq(list, ",") {
		value = strings.TrimSpace(value)
		if value == "" || slices.Contains(s.values, value) {
			return sweep{}, fmt.Errorf("--sweep: %q is not KEY=VALUE,VALUE,… with values that differ", text)
		}
		if !cli.Printable(value) {
			return sweep{}, fmt.Errorf("--sweep: %q has characters that cannot be printed", value)
		}
		s.values = append(s.values, value)
	}
	return s, nil
}

// plan is all the runs of a comparison.
type plan struct {
	scenario   scenario
	strategies []string
	sweep      sweep
	jobs       []Job // value by value, strategy by strategy
	estimate   int   // requests of all runs, 0 when that is not known
}

// newPlan works out the runs: strategy by strategy for each value of the sweep. Errors are
// the caller's, except for the end of the context.
func newPlan(ctx context.Context, s scenario, strategies []string, over sweep, limit int) (*plan, error) {
	p := &plan{scenario: s, strategies: strategies, sweep: over}
	values := over.values
	if over.key == "" {
		values = []string{""}
	}
	if n := len(values) * len(strategies); n > maxRuns {
		return nil, fmt.Errorf("--sweep: %d runs are more than %d", n, maxRuns)
	}
	var worlds []world
	for _, value := range values {
		w := world{scenario: s, value: value}
		var err error
		if over.key != "" {
			if w.scenario, err = s.with(over.key, value); err != nil {
				return nil, under("--sweep", err)
			}
		}
		if w.fleet, err = w.scenario.fleet(); err != nil {
			return nil, err
		}
		if err := w.scenario.asked.check(); err != nil {
			return nil, err
		}
		worlds = append(worlds, w)
	}
	files := make(traceFiles)
	for _, w := range worlds {
		asked, err := w.scenario.asked.open(ctx, files)
		if err != nil {
			return nil, err
		}
		if err := p.late(w, asked); err != nil {
			return nil, err
		}
		p.add(w, asked, limit)
	}
	return p, nil
}

// world is what the strategies are compared in, for one value of the sweep.
type world struct {
	scenario scenario
	fleet    replay.Config
	value    string
}

// add appends the runs of one world.
func (p *plan) add(w world, asked *workload.Workload, limit int) {
	for _, strategy := range p.strategies {
		p.jobs = append(p.jobs, Job{Workload: asked, Limit: limit, Fleet: Choose(w.fleet, strategy)})
	}
	requests := w.scenario.asked.estimate(asked)
	if limit > 0 && (requests == 0 || requests > limit) {
		requests = limit
	}
	p.estimate += len(p.strategies) * requests
}

// run plays all of it and makes the report.
func (p *plan) run(ctx context.Context, told func(requests int)) (*report.Report, error) {
	runs := make([]report.Run, len(p.jobs))
	missed := make(missedFaults, len(p.jobs))
	err := Run(ctx, p.jobs, told, func(i int, r *replay.Result) {
		run := report.Summarize(p.strategies[i%len(p.strategies)], r)
		run.Row.Seed = p.jobs[i].Fleet.Seed
		if p.sweep.key != "" {
			run.Row.SweepKey, run.Row.SweepValue = p.sweep.key, report.Value(p.sweep.values[i/len(p.strategies)])
		}
		runs[i], missed[i] = run, missedFault{r.Missed, r.Duration}
	})
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(runs, func(r report.Run) bool { return r.Row.Requests == 0 }); i >= 0 {
		return nil, cli.BadUsage(p.nothing(runs[i].Row))
	}
	missing, err := missed.remarks(p.scenario.faults)
	if err != nil {
		return nil, cli.BadUsage(err)
	}
	return &report.Report{
		Title:   p.scenario.asked.title(),
		Facts:   p.scenario.facts(p.jobs, runs, p.sweep.key),
		Sweep:   report.Sweep{Key: p.sweep.key, Setting: slices.Contains(config.RoutingKeys(), p.sweep.key)},
		Faults:  p.scenario.faults,
		Runs:    runs,
		Remarks: append(remarks(runs), missing...),
	}, nil
}

// nothing is a run without any request, of which nobody learns anything.
func (p *plan) nothing(row report.Row) error {
	where := ""
	if row.SweepKey != "" {
		where = fmt.Sprintf(" with %s=%s", row.SweepKey, row.SweepValue)
	}
	return fmt.Errorf("there is not one request to send%s: %s", where, p.scenario.asked.more())
}

// remarks say what to do about requests that did not go well.
func remarks(runs []report.Run) []string {
	if slices.ContainsFunc(runs, func(r report.Run) bool { return r.Unanswered.Refused > 0 }) {
		return []string{"A request that does not fit an engine's KV cache, prompt and answer together, is refused: raise --kv-tokens."}
	}
	return nil
}
