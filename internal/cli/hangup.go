package cli

import (
	"context"
	"os/signal"
	"syscall"
)

// UntilHangup is a context that ends when the terminal of the command goes away, too (SIGHUP),
// so that the command can end in order. A second hangup ends the process. Under nohup nothing
// ends. The caller calls stop when the command is over.
func UntilHangup(ctx context.Context) (until context.Context, stop context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	until, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
	context.AfterFunc(until, stop)
	return until, stop
}
