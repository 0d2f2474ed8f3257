package file

import (
	"context"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watch tells of changes in a directory. A file alone cannot be watched: it is replaced,
// and in a mounted ConfigMap it is a link to a link that is. Where the system has no watch
// to give, it tells of nothing, and the interval has to do.
type watch struct {
	dir     string
	inner   *fsnotify.Watcher // nil where there is none
	changed chan struct{}
	running sync.WaitGroup
}

func newWatch(dir string) *watch {
	w := &watch{dir: dir, changed: make(chan struct{}, 1)}
	inner, err := fsnotify.NewWatcher()
	if err != nil {
		return w
	}
	w.inner = inner
	w.running.Go(w.forward)
	return w
}

// forward makes one signal of however many events. An error is one too: events were lost.
func (w *watch) forward() {
	for {
		select {
		case _, open := <-w.inner.Events:
			if !open {
				return
			}
		case _, open := <-w.inner.Errors:
			if !open {
				return
			}
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// renew watches the directory if it is not watched: it may not have been there, or have
// been replaced.
func (w *watch) renew() {
	if w.inner != nil {
		_ = w.inner.Add(w.dir) // tried again at the next look
	}
}

// settle waits until nothing has changed for d, a second at most. It returns false when ctx
// ends.
func (w *watch) settle(ctx context.Context, d time.Duration) bool {
	quiet, end := time.NewTimer(d), time.NewTimer(time.Second)
	defer quiet.Stop()
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.changed:
			quiet.Reset(d)
		case <-quiet.C:
			return true
		case <-end.C:
			return true
		}
	}
}

func (w *watch) close() {
	if w.inner != nil {
		_ = w.inner.Close() // nothing was written
	}
	w.running.Wait()
}
