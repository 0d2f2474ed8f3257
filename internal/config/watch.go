package config

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// steady is how long the file must say the same before it is taken over: one that is
	// being written may be valid on the way. patient is the same for one whose last line has
	// no end, which is likelier not to be whole.
	steady  = time.Second
	patient = 10 * time.Second
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
// has another content than it had then, or when changed was last called, and has had it for
// a second (10 s where its last line has no end): a file that is written in several steps may
// make sense before it is whole. What is watched is the directory that the path names, since
// a file may be replaced, and a link on the way to it may be turned to another place, as
// Kubernetes does with a ConfigMap. Where the file is gone for a time, nothing is called;
// without a file Watch returns at once.
func (c *Config) Watch(ctx context.Context, logger *slog.Logger, changed func()) {
	if c.file == "" {
		return
	}
	watched{what: "configuration file", paths: []string{c.file}}.watch(ctx, c.content, logger, func() bool { changed(); return true })
}

// watched are files of which one is told when the content of any has changed.
type watched struct {
	what  string // what they are called in the log
	paths []string
}

// watch calls changed when the digest of the files is another one than the last that changed
// took over. What it does not take, it is offered again after a while.
func (f watched) watch(ctx context.Context, last [sha256.Size]byte, logger *slog.Logger, changed func() (taken bool)) {
	notices := make(<-chan fsnotify.Event)
	late := func(err error) {
		logger.Warn("changes of the "+f.what+" are not noticed at once", slog.String("error", err.Error()))
	}
	if w, err := fsnotify.NewWatcher(); err != nil {
		late(err)
	} else {
		defer func() { _ = w.Close() }()
		for _, path := range f.paths { // a directory that is added twice is watched once
			if err := w.Add(filepath.Dir(path)); err != nil {
				late(err)
			}
		}
		notices = w.Events
		go func() {
			for range w.Errors { // an overflow loses notices, which reread makes up for
			}
		}()
	}
	file := steadying{last: last, seen: last}
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
		again := reread
		if data, ok := f.contents(); ok {
			var ready bool
			if ready, again = file.look(time.Now(), data...); ready && changed() {
				file.take()
			}
		}
		timer.Reset(again)
	}
}

// A steadying decides when another content of some files is ready to be taken over.
type steadying struct {
	last  [sha256.Size]byte // of what was taken over last
	seen  [sha256.Size]byte // of another content, since a moment
	since time.Time
}

// look takes in what the files say now, reports whether that is ready to be taken over, and says
// how soon to look again.
func (s *steadying) look(now time.Time, data ...[]byte) (ready bool, again time.Duration) {
	sum := digest(data...)
	if sum == s.last {
		s.seen = sum
		return false, reread
	}
	if sum != s.seen {
		s.seen, s.since = sum, now
	}
	need := steady
	if slices.ContainsFunc(data, func(one []byte) bool { return !bytes.HasSuffix(one, []byte("\n")) }) {
		need = patient
	}
	if left := need - now.Sub(s.since); left > 0 {
		return false, left
	}
	return true, reread
}

// take notes that what was ready is taken over. Else it is ready again when it is next looked at.
func (s *steadying) take() { s.last = s.seen }

// contents are what the files say; ok is false where one cannot be read.
func (f watched) contents() (all [][]byte, ok bool) {
	for _, path := range f.paths {
		data, err := readFile(path, maxFile)
		if err != nil {
			return nil, false
		}
		all = append(all, data)
	}
	return all, true
}

// digest is the hash of the contents of some files: of one, the hash of that.
func digest(contents ...[]byte) [sha256.Size]byte {
	if len(contents) == 1 {
		return sha256.Sum256(contents[0])
	}
	var sums []byte
	for _, data := range contents {
		one := sha256.Sum256(data)
		sums = append(sums, one[:]...)
	}
	return sha256.Sum256(sums)
}
