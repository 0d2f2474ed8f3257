package redisindex

import (
	"slices"
	"sync"

	"github.com/warmroute/warmroute/kvindex"
)

const (
	// maxQueued and maxQueuedKeys bound what waits to be written, in records and in block
	// keys of all of them (8 bytes each).
	maxQueued     = 16_384
	maxQueuedKeys = 4 << 20
	// batchRecords and batchKeys bound what is written at a time.
	batchRecords = 500
	batchKeys    = 64 << 10
	// maxPublished bounds the keys of one record: what fits into a message.
	maxPublished = 8000
)

// use is that a backend's blocks were used, or will be, as a promise says.
type use struct {
	backend *backend
	keys    []kvindex.Key // a whole chain from block 0 on
	last    kvindex.Stamp
	promise kvindex.Promise // 0: they were
}

// ended is a promise that was kept or withdrawn.
type ended struct {
	backend *backend
	promise kvindex.Promise
	kept    bool
}

// queue holds what waits to be written. Adding never waits: what does not fit is dropped.
type queue struct {
	wake chan struct{} // has one element when there is something to do
	full chan struct{} // has one element when there is enough for a batch

	mu       sync.Mutex
	uses     []use
	keys     int // of all uses
	ended    []ended
	pins     map[pinPlace]pinned
	promises kvindex.Promise         // made so far
	open     map[kvindex.Promise]use // those that have not ended
}

func newQueue() *queue {
	return &queue{
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
		open: make(map[kvindex.Promise]use),
	}
}

// promise takes in, with a copy of the keys, that a backend will use a chain. It returns 0
// when there is no room.
func (q *queue) promise(b *backend, keys []kvindex.Key, last kvindex.Stamp) kvindex.Promise {
	own := copyOf(keys)
	q.mu.Lock()
	number := q.promises + 1
	promised := use{backend: b, keys: own, last: last, promise: number}
	if len(q.uses) >= maxQueued/2 || !q.push(promised) { // what was seen has the other half for itself
		number = 0
	} else {
		q.promises = number
		q.open[number] = promised
	}
	q.mu.Unlock()
	q.signal()
	return number
}

// add takes a use into the queue, with a copy of its keys, and with it that a promise was
// kept. It reports whether there was room.
func (q *queue) add(b *backend, keys []kvindex.Key, last kvindex.Stamp, kept kvindex.Promise) bool {
	q.mu.Lock()
	promised, ok := q.open[kept]
	q.mu.Unlock()
	own := promised.keys
	if !ok {
		own = copyOf(keys)
	}
	q.mu.Lock()
	fits := q.push(use{backend: b, keys: own, last: last})
	q.end(kept, true)
	q.mu.Unlock()
	q.signal()
	return fits
}

// withdraw takes in that a promise was not kept.
func (q *queue) withdraw(broken kvindex.Promise) {
	q.mu.Lock()
	q.end(broken, false)
	q.mu.Unlock()
	q.signal()
}

// copyOf is a copy of what others are told of a chain.
func copyOf(keys []kvindex.Key) []kvindex.Key {
	keys = keys[:min(len(keys), maxPublished)]
	own := make([]kvindex.Key, len(keys))
	copy(own, keys)
	return own
}

// push puts a use at the end, if there is room. q.mu is held.
func (q *queue) push(u use) bool {
	if len(q.uses) >= maxQueued || q.keys+len(u.keys) > maxQueuedKeys {
		return false
	}
	q.uses = append(q.uses, u)
	q.keys += len(u.keys)
	return true
}

// end notes the end of a promise. Where there is no room it is not told, and others find
// the promise too old some time. q.mu is held.
func (q *queue) end(p kvindex.Promise, kept bool) {
	promised, ok := q.open[p]
	if !ok {
		return
	}
	delete(q.open, p)
	if len(q.ended) < maxQueued {
		q.ended = append(q.ended, ended{backend: promised.backend, promise: p, kept: kept})
	}
}

// signal wakes the writer.
func (q *queue) signal() {
	if q.len() >= batchRecords {
		signal(q.full)
	}
	signal(q.wake)
}

// take returns the oldest uses, no more than make a batch, and with the last of them the
// promises that have ended. Promises that were made and ended meanwhile go without saying.
func (q *queue) take() ([]use, []ended) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, keys := 0, 0
	for n < len(q.uses) && n < batchRecords {
		more := len(q.uses[n].keys)
		if n > 0 && keys+more > batchKeys {
			break
		}
		keys += more
		n++
	}
	batch := q.uses[:n:n]
	q.keys -= keys
	if q.uses = q.uses[n:]; len(q.uses) > 0 {
		return batch, nil // an end must not come before its promise
	}
	ends := q.ended
	q.uses, q.ended = nil, nil
	return settled(batch, ends)
}

// settled leaves out the promises that have ended already, and their ends.
func settled(uses []use, ends []ended) ([]use, []ended) {
	over := make(map[kvindex.Promise]bool, len(ends))
	for _, e := range ends {
		over[e.promise] = true
	}
	short := make(map[kvindex.Promise]bool)
	uses = slices.DeleteFunc(uses, func(u use) bool {
		if u.promise != 0 && over[u.promise] {
			short[u.promise] = true
			return true
		}
		return false
	})
	return uses, slices.DeleteFunc(ends, func(e ended) bool { return short[e.promise] })
}

// len is how many uses, or ends of promises, wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(len(q.uses), len(q.ended))
}

// signal fills a channel of one element.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
