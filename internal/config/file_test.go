package config

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNoFiles: what is no file is refused at once, where to read it might never end.
func TestNoFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero"} {
		if _, _, err := Load(path); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("Load(%s) = %v", path, err)
		}
		if _, ok := (watched{paths: []string{path}}).contents(); ok {
			t.Errorf("%s is watched", path)
		}
		if _, err := readPEM(path); err == nil {
			t.Errorf("%s has certificates", path)
		}
	}
	long := filepath.Join(t.TempDir(), "long.yaml")
	write(t, long, strings.Repeat("#", maxFile+1))
	if _, _, err := Load(long); err == nil || !strings.Contains(err.Error(), "at most 8388608 are read") {
		t.Errorf("Load of a long file: %v", err)
	}
}
