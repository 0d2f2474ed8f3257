package config

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// watched watches a file until the test ends and returns its changes.
func watched(t *testing.T, path string) <-chan struct{} {
	t.Helper()
	sum, ok := digest(path)
	if !ok {
		t.Fatal("the file cannot be read")
	}
	changes := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		watch(ctx, path, sum, slog.New(slog.DiscardHandler), func() { changes <- struct{}{} })
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return changes
}

// awaitChange waits for a change.
func awaitChange(t *testing.T, changes <-chan struct{}) {
	t.Helper()
	select {
	case <-changes:
	case <-time.After(2 * reread):
		t.Fatal("a change was not noticed")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWatch: a file that is written, or replaced as editors do it; what leaves the content as
// it is is no change, nor is that the file is gone.
func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warmroute.yaml")
	write(t, path, "one")
	changes := watched(t, path)
	write(t, path, "two")
	awaitChange(t, changes)
	write(t, path, "two")
	write(t, filepath.Join(filepath.Dir(path), "other"), "x")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * settle)
	if len(changes) > 0 {
		t.Error("nothing has changed, and a change is told of")
	}
	write(t, path+".new", "three")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	awaitChange(t, changes)
}

// TestWatchInABusyDirectory: others that write beside the file do not keep it from being read.
func TestWatchInABusyDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warmroute.yaml")
	write(t, path, "one")
	changes := watched(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			_ = os.WriteFile(filepath.Join(filepath.Dir(path), "log"), fmt.Append(nil, i), 0o600)
			time.Sleep(settle / 10)
		}
	}()
	defer func() {
		cancel()
		<-done
	}()
	write(t, path, "two")
	begun := time.Now()
	awaitChange(t, changes)
	if took := time.Since(begun); took > reread {
		t.Errorf("noticed after %v", took)
	}
}

// CF-05: a ConfigMap is updated by turning the link ..data to another directory. Twice within a
// second makes one or two changes, and the last content is there then.
func TestCF05ConfigMapSwap(t *testing.T) {
	dir := t.TempDir()
	put := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "warmroute.yaml"), text)
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	put("..1", "one")
	path := filepath.Join(dir, "warmroute.yaml")
	if err := os.Symlink(filepath.Join("..data", "warmroute.yaml"), path); err != nil {
		t.Fatal(err)
	}
	changes := watched(t, path)
	put("..2", "two")
	time.Sleep(settle / 2)
	put("..3", "three")
	awaitChange(t, changes)
	time.Sleep(5 * settle)
	if more := len(changes); more > 1 {
		t.Errorf("%d changes of two swaps", 1+more)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "three" {
		t.Errorf("%q, %v", text, err)
	}
}
