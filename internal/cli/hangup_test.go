package cli

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

func TestUntilHangup(t *testing.T) {
	// Whoever starts the tests may have them ignore hangups.
	heed := make(chan os.Signal, 1)
	signal.Notify(heed, syscall.SIGHUP)
	defer signal.Stop(heed)
	ctx, stop := UntilHangup(t.Context())
	defer stop()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}

// A command under nohup outlives its terminal.
func TestUntilHangupUnderNohup(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	ctx, stop := UntilHangup(t.Context())
	defer stop()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if err := ctx.Err(); err != nil {
		t.Error(err)
	}
}
