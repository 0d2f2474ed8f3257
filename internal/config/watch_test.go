package config

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// watchFile watches a file until the test ends and returns its changes.
func watchFile(t *testing.T, path string) <-chan struct{} {
	t.Helper()
	files := watched{what: "file", paths: []string{path}}
	data, ok := files.contents()
	if !ok {
		t.Fatal("the file cannot be read")
	}
	sum := digest(data...)
	changes := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		files.watch(ctx, sum, slog.New(slog.DiscardHandler), func() bool { changes <- struct{}{}; return true })
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
	write(t, path, "one\n")
	changes := watchFile(t, path)
	write(t, path, "two\n")
	awaitChange(t, changes)
	write(t, path, "two\n")
	write(t, filepath.Join(filepath.Dir(path), "other"), "x")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * steady)
	if len(changes) > 0 {
		t.Error("nothing has changed, and a change is told of")
	}
	write(t, path+".new", "three\n")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	awaitChange(t, changes)
}

// TestWatchInABusyDirectory: others that write beside the file do not keep it from being read.
func TestWatchInABusyDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warmroute.yaml")
	write(t, path, "one\n")
	changes := watchFile(t, path)
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
	write(t, path, "two\n")
	begun := time.Now()
	awaitChange(t, changes)
	if took := time.Since(begun); took > reread {
		t.Errorf("noticed after %v", took)
	}
}

// A file that is written in steps is taken over once it stays as it is, and the longer it must
// if its last line is not whole.
func TestFilesThatAreBeingWritten(t *testing.T) {
	const whole = "version: 1\npools:\n- name: a\n  backends:\n  - url: http://b1\n  - url: http://b2\n"
	start := time.Unix(1000, 0)
	f := steadying{last: digest([]byte(whole)), seen: digest([]byte(whole))}
	for _, step := range []struct {
		at    time.Duration
		text  string
		taken bool
		again time.Duration
	}{
		{0, whole, false, reread},
		{1 * time.Second, "", false, patient}, // truncated
		{1100 * time.Millisecond, strings.TrimSuffix(whole, "  - url: http://b2\n"), false, steady}, // it makes sense, and one backend is missing
		{1900 * time.Millisecond, whole + "x", false, patient},                                      // the writer goes on
		{2 * time.Second, whole + "listen: :80", false, patient},                                    // its last line is not whole
		{3 * time.Second, whole + "listen: :80", false, patient - steady},                           //
		{4 * time.Second, whole + "listen: :8081\n", false, steady},                                 //
		{4500 * time.Millisecond, whole + "listen: :8081\n", false, steady / 2},
		{5 * time.Second, whole + "listen: :8081\n", true, reread},          // for a second
		{6 * time.Second, whole + "listen: :8081\n", false, reread},         // once
		{7 * time.Second, whole, false, steady},                             //
		{7500 * time.Millisecond, whole + "listen: :8081\n", false, reread}, // back in time
		{9 * time.Second, whole, false, steady},                             // anew
		{10 * time.Second, whole, true, reread},
		{20 * time.Second, whole + "listen: :80", false, patient},
		{30 * time.Second, whole + "listen: :80", true, reread}, // some editors leave it so
	} {
		taken, again := f.look(start.Add(step.at), []byte(step.text))
		if taken != step.taken || again != step.again {
			t.Errorf("at %v: taken %v, again in %v, want %v, %v", step.at, taken, again, step.taken, step.again)
		}
		if taken {
			f.take()
		}
	}
	for _, at := range []time.Duration{40 * time.Second, 41 * time.Second, 51 * time.Second} { // refused, it is offered again
		if ready, again := f.look(start.Add(at), []byte(whole)); ready != (at > 40*time.Second) || ready && again != reread {
			t.Errorf("at %v: offered %v, again in %v", at, ready, again)
		}
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
	put("..1", "one\n")
	path := filepath.Join(dir, "warmroute.yaml")
	if err := os.Symlink(filepath.Join("..data", "warmroute.yaml"), path); err != nil {
		t.Fatal(err)
	}
	changes := watchFile(t, path)
	put("..2", "two\n")
	time.Sleep(settle / 2)
	put("..3", "three\n")
	awaitChange(t, changes)
	time.Sleep(2 * steady)
	if more := len(changes); more > 1 {
		t.Errorf("%d changes of two swaps", 1+more)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "three\n" {
		t.Errorf("%q, %v", text, err)
	}
}
