// Command advice lets fleets run with good and with bad settings, gives advice from what their
// router remembers, and holds that against a full sweep of the same fleet. It writes what came of
// it as Markdown.
//
//	WARMROUTE_TRACES=DIR advice -o docs/benchmarks
//	advice -only '^docs'
//
// A world is a line in worlds.go. Equal code gives equal files on machines of one architecture.
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
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/advice"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/router"
)

// tracesVariable names the directory with the public traces.
const tracesVariable = "WARMROUTE_TRACES"

// fileMode is that of files that belong to the repository.
const fileMode = 0o644

func main() {
	dir := flag.String("o", "", "write advice.md to this directory; without it, print it")
	only := flag.String("only", "", "only worlds whose name matches this regular expression")
	until := flag.Duration("first", 0, "play only the first `TIME` of each workload; 0 is all of it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *dir, *only, *until, os.Getenv(tracesVariable), os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "advice:", err)
		os.Exit(1)
	}
}

// run plays the worlds and writes the page.
func run(ctx context.Context, dir, only string, until time.Duration, traces string, stdout, stderr io.Writer) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	chosen := slices.DeleteFunc(worlds(), func(w world) bool { return !pattern.MatchString(w.name) })
	var all []*trial
	for _, w := range chosen {
		c, err := w.compare(ctx, traces, until, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		all = append(all, c)
		if dir != "" { // after each world: all of them take long
			if err := write(dir, all, until); err != nil {
				return err
			}
		}
	}
	if dir == "" {
		writeMarkdown(stdout, all, until)
	}
	return nil
}

// write writes the page.
func write(dir string, all []*trial, until time.Duration) error {
	var page bytes.Buffer
	writeMarkdown(&page, all, until)
	return os.WriteFile(filepath.Join(dir, "advice.md"), page.Bytes(), fileMode)
}

// trial is what came of a world: of each start, what was advised and what there was to
// find.
type trial struct {
	world  world
	starts []judged
}

// judged is advice beside the truth.
type judged struct {
	start
	advice *advice.Advice
	// before, after and best are what the fleet does as it was, as advised, and with the best
	// value that the sweep found.
	before, after figures
	best          tried
}

// compare runs a world from all of its starts.
func (w world) compare(ctx context.Context, traces string, until time.Duration, stderr io.Writer) (*trial, error) {
	asked, err := w.asked(traces)
	if err != nil {
		return nil, err
	}
	f := &fleet{world: w, asked: firstOf(asked, until), known: make(map[router.Config]figures)}
	c := &trial{world: w}
	for _, s := range w.starts {
		config := w.config(s)
		began := time.Now()
		a, err := f.advise(ctx, config)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(stderr, "%s, %s: advice after %v\n", w.name, s.name, time.Since(began).Round(time.Second))
		best, err := f.sweep(ctx, a.Advised)
		if err != nil {
			return nil, err
		}
		both, err := f.play(ctx, config, a.Advised)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(stderr, "%s, %s: swept after %v\n", w.name, s.name, time.Since(began).Round(time.Second))
		c.starts = append(c.starts, judged{s, a, both[0], both[1], best})
	}
	return c, nil
}

// advise lets the fleet run for a while, remembers what a router would, and gives advice.
func (f *fleet) advise(ctx context.Context, config router.Config) (*advice.Advice, error) {
	store := recent.New(recent.DefaultBytes)
	c := f.world.fleet(config, 1)
	c.Observe = func(r *feedback.Record) {
		if q, ok := recent.Of(r); ok {
			store.Add(&q)
		}
	}
	c.Progress = func(int) error { return ctx.Err() }
	fleet, err := replay.New(c)
	if err != nil {
		return nil, err
	}
	if _, err := fleet.Run(f.asked.Play(1)); err != nil {
		return nil, err
	}
	pool := advice.Pool{Name: "replay", Config: config, Backends: c.Backends, CapacityTokens: f.world.kvTokens, Stated: true}
	return advice.Give(ctx, pool, advice.Recent(store, pool.Name, 0), advice.Options{Seed: 1, Knobs: []advice.Knob{}})
}
