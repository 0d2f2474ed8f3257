// Command policies plays every strategy and placement in a list of worlds, in virtual time,
// and writes what came of it as Markdown and CSV, with the relations that must hold between
// the figures.
//
//	WARMROUTE_TRACES=DIR policies -o docs/benchmarks
//	policies -only '^docs'
//
// A world is a line in worlds.go, a relation a line in relations.go. Equal code gives equal
// files on machines of one architecture (others round multiply-adds otherwise), so a change of
// policy shows in their diff.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/comparison"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/replay/report"
)

// tracesVariable names the directory with the public traces.
const tracesVariable = "WARMROUTE_TRACES"

// fileMode is that of files that belong to the repository.
const fileMode = 0o644

func main() {
	dir := flag.String("o", "", "write policies.md and policies.csv to this directory; without it, print the Markdown")
	only := flag.String("only", "", "only worlds whose name matches this regular expression; relations between others are left out")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *dir, *only, os.Getenv(tracesVariable), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "policies:", err)
		os.Exit(1)
	}
}

// run plays the worlds and writes the files.
func run(ctx context.Context, dir, only, traces string, stdout io.Writer) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	chosen := slices.DeleteFunc(worlds(), func(w world) bool { return !pattern.MatchString(w.name) })
	all, err := play(ctx, chosen, traces)
	if err != nil {
		return err
	}
	var page, table bytes.Buffer
	writeMarkdown(&page, chosen, all, judge(relations(), all))
	if err := csvReport(chosen, all).CSV(&table); err != nil {
		return err
	}
	if dir == "" {
		_, err := page.WriteTo(stdout)
		return err
	}
	for name, data := range map[string][]byte{"policies.md": page.Bytes(), "policies.csv": table.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, fileMode); err != nil {
			return err
		}
	}
	return nil
}

// results are what came of every strategy in one world, by its name.
type results map[string]*outcome

// play runs all strategies in all worlds and returns results by the name of the world.
func play(ctx context.Context, chosen []world, traces string) (map[string]results, error) {
	var jobs []comparison.Job
	for _, w := range chosen {
		asked, err := w.asked(traces)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		for _, name := range w.strategies() {
			for _, seed := range w.seeds() {
				jobs = append(jobs, comparison.Job{Workload: asked, Fleet: comparison.Choose(w.fleet(seed), name)})
			}
		}
	}
	bar := watch(jobs)
	defer bar.Close()
	played := make([]*replay.Result, len(jobs))
	if err := comparison.Run(ctx, jobs, bar.Add, func(i int, r *replay.Result) { played[i] = r }); err != nil {
		return nil, err
	}
	all := make(map[string]results)
	for _, w := range chosen {
		all[w.name] = make(results)
		for _, name := range w.strategies() {
			n := len(w.seeds())
			all[w.name][name], played = together(played[:n]), played[n:]
		}
	}
	return all, nil
}

// watch draws a bar where somebody can see it.
func watch(jobs []comparison.Job) *cli.Bar {
	if !cli.IsTerminal(os.Stderr) {
		return nil
	}
	return cli.NewBar(os.Stderr, fmt.Sprintf("%d runs", len(jobs)), 0)
}

// csvReport is the figures of all runs, with the world in the first columns.
func csvReport(chosen []world, all map[string]results) *report.Report {
	var r report.Report
	for _, w := range chosen {
		for _, name := range w.strategies() {
			for i, seed := range w.seeds() {
				run := report.Summarize(name, all[w.name][name].bySeed[i])
				run.Row.SweepKey, run.Row.SweepValue, run.Row.Seed = "world", report.Value(w.name), seed
				r.Runs = append(r.Runs, run)
			}
		}
	}
	return &r
}
