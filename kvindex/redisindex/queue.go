package redisindex

import (
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

// use is that a backend's blocks were used.
type use struct {
	backend *backend
	keys    []kvindex.Key // a whole chain from block 0 on
	last    kvindex.Stamp
}

// queue holds what waits to be written. Adding never waits: what does not fit is dropped.
type queue struct {
	wake chan struct{} // has one element when there is something to do
	full chan struct{} // has one element when there is enough for a batch

	mu   sync.Mutex
	uses []use
	keys int // of all uses
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), full: make(chan struct{}, 1)}
}

// add takes a use into the queue, with a copy of its keys. It reports whether there was room.
func (q *queue) add(b *backend, keys []kvindex.Key, last kvindex.Stamp) bool {
	keys = keys[:min(len(keys), maxPublished)]
	own := make([]kvindex.Key, len(keys))
	copy(own, keys)
	q.mu.Lock()
	fits := len(q.uses) < maxQueued && q.keys+len(own) <= maxQueuedKeys
	if fits {
		q.uses = append(q.uses, use{backend: b, keys: own, last: last})
		q.keys += len(own)
	}
	enough := len(q.uses) >= batchRecords
	q.mu.Unlock()
	if enough {
		signal(q.full)
	}
	signal(q.wake)
	return fits
}

// take returns the oldest uses, no more than make a batch.
func (q *queue) take() []use {
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
	if q.uses = q.uses[n:]; len(q.uses) == 0 {
		q.uses = nil
	}
	return batch
}

// len is how many uses wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.uses)
}

// signal fills a channel of one element.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
