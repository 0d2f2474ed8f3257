// Command sizing measures what a router costs: processor time for each request, memory for
// each entry of the index and for each request in flight. It runs a router as a process of
// its own over engines and clients in this one, on loopback, for a bounded number of
// requests, and prints a table. What it reads is the process's own time (/proc/PID/stat),
// so that a machine that is busy otherwise changes the figures little; Linux only.
//
//	go run ./tests/bench/sizing -warmroute bin/warmroute
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"
)

// shape is a kind of request.
type shape struct {
	name   string
	bytes  int // of prompt
	chunks int // of a stream; 0: it is not streamed
}

var shapes = []shape{
	{"4 KiB (1,000 tokens), not streamed", 4 << 10, 0},
	{"32 KiB (8,000 tokens), not streamed", 32 << 10, 0},
	{"32 KiB, streamed in 100 events", 32 << 10, 100},
	{"32 KiB, streamed in 500 events", 32 << 10, 500},
	{"128 KiB (32,000 tokens), streamed in 100 events", 128 << 10, 100},
}

func main() {
	program := flag.String("warmroute", "bin/warmroute", "measure this `PROGRAM`")
	requests := flag.Int("requests", 2000, "send `N` requests of each kind")
	clients := flag.Int("clients", 16, "have `N` in flight")
	entries := flag.Int("entries", 400_000, "fill the index with `N` entries")
	held := flag.Int("held", 400, "hold `N` streams open")
	limit := flag.Duration("limit", 8*time.Minute, "give up after `TIME`")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if err := run(ctx, *program, *requests, *clients, *entries, *held); err != nil {
		fmt.Fprintln(os.Stderr, "sizing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program string, requests, clients, entries, held int) error {
	fmt.Printf("%s, %d cores, %s\n\n", cpu(), runtime.NumCPU(), runtime.Version())
	fmt.Printf("| Requests | Processor time of one | Cores for 1,000 a second |\n|---|---|---|\n")
	for _, s := range shapes {
		spent, err := processorTime(ctx, program, s, requests, clients)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("| %s | %.2f ms | %.2f |\n", s.name, 1e3*spent.Seconds(), 1e3*spent.Seconds())
	}
	m, err := memory(ctx, program, entries, held)
	if err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	fmt.Printf("\n| Memory | |\n|---|---|\n")
	fmt.Printf("| Resident, idle, %d engines | %.0f MiB |\n", engines, mib(m.idle))
	fmt.Printf("| Heap for each 100,000 entries of the index (measured over %d) | %.1f MiB |\n", m.entries, mib(m.indexHeap)*1e5/float64(m.entries))
	fmt.Printf("| Resident for each 100 streams in flight of 32 KiB (measured over %d) | %.1f MiB |\n", held, mib(m.flying)*100/float64(held))
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
