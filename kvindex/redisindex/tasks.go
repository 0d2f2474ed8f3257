package redisindex

import (
	"sync"

	"github.com/warmroute/warmroute/kvindex"
)

// task is what is to be done for one backend, in the background.
type task struct {
	// ahead: remove from its sets what lies ahead, because the server's clock was set back.
	ahead bool
	// restore: read what Redis knows of it.
	restore bool
	// rewrite: write what the memory holds of it that was used at since or later.
	rewrite bool
	since   kvindex.Stamp
}

// and is both tasks as one.
func (t task) and(o task) task {
	switch {
	case !t.rewrite:
		t.since = o.since
	case o.rewrite:
		t.since = min(t.since, o.since)
	}
	t.ahead, t.restore, t.rewrite = t.ahead || o.ahead, t.restore || o.restore, t.rewrite || o.rewrite
	return t
}

// tasks are what is to be done, one task for each backend. It is safe for concurrent use.
type tasks struct {
	wake chan struct{} // has one element when something was added

	mu   sync.Mutex
	todo map[*backend]task
	busy bool // one is being done
}

func (l *tasks) add(b *backend, t task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.gone.Load() {
		return
	}
	if l.todo == nil {
		l.todo = make(map[*backend]task)
	}
	l.todo[b] = l.todo[b].and(t)
	signal(l.wake)
}

func (l *tasks) remove(b *backend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.todo, b)
}

// next takes a task that may begin. Whoever takes it calls done.
func (l *tasks) next() (*backend, task, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for b, t := range l.todo {
		if b.home.noted.Load() {
			delete(l.todo, b)
			l.busy = true
			return b, t, true
		}
	}
	return nil, task{}, false
}

func (l *tasks) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
}

// left is how many there are to be done, with the one that is.
func (l *tasks) left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.todo)
	if l.busy {
		n++
	}
	return n
}
