// Command enginesim is an engine double: a vLLM-like HTTP server whose timing
// and prefix cache come from a model instead of a GPU. It is for tests, demos
// and capacity planning.
//
// The command owns its flags, its listener and its signals; all behaviour is in
// internal/enginesim/server. It must not import any routing package.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
