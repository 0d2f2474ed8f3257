package config

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a directory must be left alone before the file is read: editors and
	// ConfigMap updates change it in several steps. One that never is left alone is read
	// after settled.
	settle  = 100 * time.Millisecond
	settled = time.Second
	// reread is how often the file is read without notice, which not every file system
	// gives.
	reread = 10 * time.Second
)

// Watch calls changed, until ctx ends, when the file that the configuration was read from
// has another content than it had then, or when changed was last called. What is watched is
// the directory that the path names, since a file may be replaced, and a link on the way to
// it may be turned to another place, as Kubernetes does with a ConfigMap. Where the file is
// gone for a time, nothing is called; without a file Watch returns at once.
func (c *Config) Watch(ctx context.Context, logger *slog.Logger, changed func()) {
	if c.file == "" {
		return
	}
	watch(ctx, c.file, c.content, logger, changed)
}

// watch calls changed when the hash of a file is another one than the last.
func watch(ctx context.Context, path string, last [sha256.Size]byte, logger *slog.Logger, changed func()) {
	notices := make(<-chan fsnotify.Event)
	if w, err := fsnotify.NewWatcher(); err != nil {
		logger.Warn("changes of the configuration file are not noticed at once", slog.String("error", err.Error()))
	} else {
		defer func() { _ = w.Close() }()
		if err := w.Add(filepath.Dir(path)); err != nil {
			logger.Warn("changes of the configuration file are not noticed at once", slog.String("error", err.Error()))
		}
		notices = w.Events
		go func() {
			for range w.Errors { // an overflow loses notices, which reread makes up for
			}
		}()
	}
	timer := time.NewTimer(settle) // it may have changed since it was read
	defer timer.Stop()
	var noticed time.Time // when the first of the notices came that have not been heeded
	for {
		select {
		case <-ctx.Done():
			return
		case <-notices:
			if noticed.IsZero() {
				noticed = time.Now()
			}
			timer.Reset(min(settle, time.Until(noticed.Add(settled))))
			continue
		case <-timer.C:
		}
		noticed = time.Time{}
		timer.Reset(reread)
		if now, ok := digest(path); ok && now != last {
			last = now
			changed()
		}
	}
}

// digest is the hash of a file's content; ok is false where it cannot be read.
func digest(path string) (sum [sha256.Size]byte, ok bool) {
	data, err := os.ReadFile(path)
	if err != nil || len(data) > maxFile {
		return sum, false
	}
	return sha256.Sum256(data), true
}
