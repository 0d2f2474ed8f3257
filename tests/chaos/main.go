// Command chaos runs a fleet of engine doubles, two routers and Redis as processes, breaks
// all of them by chance while clients of every dialect send requests at a rate, and judges
// what came of it.
//
//	chaos -seed 7 -t 5m             everything breaks, 200 requests/s
//	chaos -soak -t 30m -rate 100    clients leave, engines err, restart and forget
//
// A seed decides which requests are made, and what breaks in which order. When exactly, and
// so what is under way then, is the machine's affair.
//
// # What must hold
//
// No request is lost that could have been served, whatever is broken. A request may fail in
// these ways only:
//
//   - its client left;
//   - it was at an engine when the connection to that engine broke: the engine has seen the
//     request, so nobody else gets it. This is no excuse where the router noted that it was a
//     kept connection and the request had attempts left: it is sent once more then;
//   - it was at an engine that then said nothing for longer than timeouts.first_byte or
//     timeouts.idle, and it came before the router could know that: within the time that
//     probes take to fail;
//   - the engine answered it with 500, or ended its stream with an error or a reset, because
//     it was told to;
//   - it was at a replica that was killed (SIGKILL, as a crash), or its client sent it on a
//     connection kept from a replica that is gone.
//
// Everything else counts as lost: 429, 503 and connections refused above all, since most
// engines are well at any time, and failures of a replica that restarts, since the other one
// is there and clients look at /readyz as load balancers do.
//
// Every answer is whole or fails visibly: a stream shows its last event, or an error event,
// an exception frame, or a connection that breaks; an answer that ends in good order without
// being whole is a silent cut, and wrong. In the end all counts are 0, goroutines, open files
// and memory are what they were before the first request, give or take little, and 100
// normal requests succeed as fast as before the faults, second turns finding their prompts
// cached by way of the other replica.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

// longest bounds a run with faults of all kinds.
const longest = 10 * time.Minute

// options say how a run goes.
type options struct {
	mode    string
	seed    uint64
	lasts   time.Duration // of the faults
	rate    int           // requests a second
	engines int
	calm    time.Duration // with traffic and without faults, at the end
	gap     time.Duration // from one broken engine to the next, on average
	dir     string        // for files; empty: one that is removed
	// conversations of two turns are held before the faults and after them.
	conversations int

	engineFaults, redisFaults, routerFaults []string

	progress io.Writer
	every    time.Duration // between two lines of progress
}

// chaos is everything at once.
func chaos() *options {
	return &options{
		mode: "chaos", seed: 1, lasts: 5 * time.Minute, rate: 200, engines: 6, calm: 20 * time.Second, gap: 3 * time.Second, conversations: 50,
		engineFaults: engineFaults, redisFaults: redisFaults, routerFaults: routerFaults,
		progress: io.Discard, every: 15 * time.Second,
	}
}

// soak is what goes on every day, for long.
func soak() *options {
	o := chaos()
	o.mode, o.lasts, o.rate, o.gap, o.every = "soak", 30*time.Minute, 100, 6*time.Second, time.Minute
	o.engineFaults = append([]string{engineKilled}, strays...)
	o.redisFaults, o.routerFaults = nil, nil
	return o
}

func main() {
	o, format := chaos(), "table"
	long := flag.Bool("soak", false, "run for long with what goes on every day, rather than with everything at once")
	seed := flag.Uint64("seed", 1, "decides which requests are made, and what breaks in which order")
	lasts := flag.Duration("t", 0, "how long faults go on (default 5m, at most 10m; with -soak 30m, and any time)")
	rate := flag.Int("rate", 0, "requests a second (default 200, with -soak 100)")
	dir := flag.String("dir", "", "keep logs in this directory")
	flag.StringVar(&format, "o", format, "print the report as table or json")
	flag.Parse()
	if *long {
		o = soak()
	}
	o.seed, o.dir, o.progress = *seed, *dir, os.Stderr
	if *lasts != 0 {
		o.lasts = *lasts
	}
	if *rate != 0 {
		o.rate = *rate
	}
	debug.SetGCPercent(400) // as for the doubles: the routers are what is measured
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, format, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

var errWrong = errors.New("not everything is as it must be")

// run runs everything, prints the report and returns an error when something is wrong.
func run(ctx context.Context, o *options, format string, stdout io.Writer) error {
	switch {
	case format != "table" && format != "json":
		return fmt.Errorf("-o: must be table or json, is %q", format)
	case o.lasts <= 0 || o.mode == "chaos" && o.lasts > longest:
		return fmt.Errorf("-t: must be above 0 and at most %v, is %v", longest, o.lasts)
	case o.rate < 1 || o.rate > 1000:
		return fmt.Errorf("-rate: must be 1 to 1000, is %d", o.rate)
	}
	r, err := play(ctx, o)
	if r != nil {
		err = errors.Join(err, r.write(stdout, format))
	}
	if err == nil && len(r.Wrong) > 0 {
		err = errWrong
	}
	return err
}
