package redisindex

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/kvindex"
)

// Index is a [kvindex.Memory] that other routers share through Redis. Its own methods
// take only local locks; [Index.Run] talks to Redis.
//
// Lock order: Index.registering, Index.mu; then those of the memory, queue.mu and
// announcements.mu, each without another.
type Index struct {
	*kvindex.Memory

	config  Config
	names   names
	replica uint64 // this router, among those that share
	began   time.Time
	store   *store
	clock   *clock
	queue   *queue
	news    announcements
	tasks   tasks
	peers   peers
	fleet   Fleet
	own     atomic.Pointer[ownReport]
	counts  counts

	settings settings
	lead     lead

	holders atomic.Pointer[[]*backend] // by kvindex.Holder, nil where free; replaced whole

	unlisted    atomic.Bool // what the keeper lists is to be listed at its next turn
	registering sync.Mutex  // held by AddAll and Drop, which may take the memory long

	mu         sync.RWMutex // not to be held while anything waits, nor on the request path
	pools      map[string]*pool
	connecting chan struct{}       // has one element for each reader that connects
	attention  chan struct{}       // has one element when the keeper is not to wait for its next turn
	newPools   chan struct{}       // has one element when there is a pool that is not followed yet
	dropped    map[place]departure // the backends that were dropped and may come back
}

var _ kvindex.Shared = (*Index)(nil)

// backend is what is kept of one backend beside what the memory holds.
type backend struct {
	place
	holder   kvindex.Holder
	resident kvindex.Resident // what the memory has of it, and never of another one
	home     *pool
	sets     [shards]string // names of its keys
	// born is when this router dropped it last, until it is known whether another router has
	// had it since; 0: it has never, or it is known. What is from before is not believed.
	born    atomic.Int64    // a kvindex.Stamp
	claimed atomic.Bool     // it may be listed as present: born is 0
	horizon atomic.Int64    // the moment up to which nothing that Redis says of it is believed
	trimmed atomic.Int64    // the moment up to which its sets were trimmed, as far as is known
	gone    atomic.Bool     // it was dropped
	renewed [shards]renewal // of its sets
}

// departure is that a backend was dropped here.
type departure struct {
	at      kvindex.Stamp
	settled bool // it is known that another router has it, or its sets are gone
}

// pool is what the backends of one pool have in common.
type pool struct {
	name string
	// Names of its keys.
	stream, horizons, trimmed, pins, epoch string

	backends map[string]*backend // by label; guarded by Index.mu
	empty    time.Time           // since when it has none; guarded by Index.mu
	followed bool                // somebody reads its stream; guarded by Index.mu
	known    string              // its epoch; the keeper's
	noted    atomic.Bool         // what comes after a read of the sets will be read from the stream
	newest   atomic.Int64        // the server's time of the last record written, in milliseconds
	written  atomic.Int64        // this machine's time of the same, in nanoseconds
	told     uint64              // how many messages were made of it; the writer's
	hearing  hearing

	renewed, horizonsRenewed, trimmedRenewed renewal // of the stream, and of the others
	pinsTrimmed                              renewal // when this router last trimmed the pins
}

// New returns an index around a memory that nobody else changes. It does not connect
// before [Index.Run]. An index that is never run must be closed.
func New(c Config, memory *kvindex.Memory) (*Index, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	logClient(c)
	x := &Index{
		Memory:     memory,
		config:     c,
		names:      newNames(c.Namespace),
		replica:    rand.Uint64(),
		began:      c.Now(),
		store:      newStore(c),
		clock:      newClock(c.Now),
		queue:      newQueue(),
		pools:      make(map[string]*pool),
		newPools:   make(chan struct{}, 1),
		connecting: make(chan struct{}, maxConnecting),
		attention:  make(chan struct{}, 1),
		dropped:    make(map[place]departure),
	}
	x.holders.Store(new([]*backend))
	x.fleet = alone{x}
	x.news.wake, x.tasks.wake = x.queue.wake, make(chan struct{}, 1)
	return x, nil
}

// Add implements [kvindex.Index]. What Redis knows of the backend comes in later.
func (x *Index) Add(name string) (kvindex.Holder, error) {
	added, err := x.AddAll([]string{name})
	if err != nil {
		return 0, err
	}
	return added[0], nil
}

// AddAll implements [kvindex.Index].
func (x *Index) AddAll(names []string) ([]kvindex.Holder, error) {
	x.registering.Lock()
	defer x.registering.Unlock()
	holders, err := x.Memory.AddAll(names)
	if err != nil {
		return nil, err
	}
	for i, h := range holders {
		x.join(names[i], h)
	}
	return holders, nil
}

// join takes in a backend that the memory has, if it is new and to be shared. x.registering is held.
func (x *Index) join(name string, h kvindex.Holder) {
	at := placeOf(name)
	if x.holder(h) != nil || at.label == "" || len(at.label) > maxLabel {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.pool(at.pool)
	b := &backend{
		place: at, holder: h, resident: x.Memory.Resident(h), home: p,
		sets: x.names.sets(at),
	}
	b.born.Store(int64(x.dropped[at].at))
	delete(x.dropped, at)
	p.backends[at.label] = b
	x.setHolder(h, b)
	x.tasks.add(b, task{restore: true})
}

// pool returns the pool with a name, a new one if need be. x.mu is held.
func (x *Index) pool(name string) *pool {
	p := x.pools[name]
	if p == nil {
		p = &pool{
			name:   name,
			stream: x.names.stream(name), horizons: x.names.horizons(name),
			trimmed: x.names.trimmed(name), pins: x.names.pins(name), epoch: x.names.epoch(name),
			backends: make(map[string]*backend), hearing: hearing{began: x.config.Now()},
		}
		x.pools[name] = p
		signal(x.newPools)
		signal(x.attention)
	}
	return p
}

// holder returns the backend with a number, nil where it is not shared.
func (x *Index) holder(h kvindex.Holder) *backend {
	holders := *x.holders.Load()
	if int(h) < 0 || int(h) >= len(holders) {
		return nil
	}
	return holders[h]
}

// setHolder changes whose a number is. x.mu is held.
func (x *Index) setHolder(h kvindex.Holder, b *backend) {
	holders := slices.Clone(*x.holders.Load())
	for int(h) >= len(holders) {
		holders = append(holders, nil)
	}
	holders[h] = b
	x.holders.Store(&holders)
}

// Drop implements [kvindex.Index]. Other routers may have the backend as before, and keep
// what it holds; when none has it any more, it is taken out of Redis as well.
func (x *Index) Drop(h kvindex.Holder) {
	x.registering.Lock()
	defer x.registering.Unlock()
	if b := x.holder(h); b != nil {
		x.leave(b)
	}
	x.Memory.Drop(h)
}

// leave takes a backend out of everything but the memory.
func (x *Index) leave(b *backend) {
	now := x.config.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	b.gone.Store(true)
	x.setHolder(b.holder, nil)
	delete(b.home.backends, b.label)
	if len(b.home.backends) == 0 {
		b.home.empty = now
	}
	x.dropped[b.place] = departure{at: kvindex.Stamp(now.UnixNano())}
	x.tasks.remove(b)
	x.news.forget(b)
}

// Forget implements [kvindex.Index]. A horizon that is news is told to other routers.
func (x *Index) Forget(h kvindex.Holder, horizon kvindex.Stamp) int {
	if b := x.holder(h); b != nil {
		x.raise(b, horizon)
	}
	return x.Memory.Forget(h, horizon)
}

// sameHorizon is how much a horizon must be above the known one to be news: conversion
// between clocks does not bring back the same number.
const sameHorizon moment = 1000

// raise takes in that a backend's horizon is where this router says, and tells the others
// if it was lower.
func (x *Index) raise(b *backend, horizon kvindex.Stamp) {
	if clock, ok := x.clock.conversion(); ok {
		at := clock.fleet(horizon)
		if at <= moment(b.horizon.Load())+sameHorizon {
			return
		}
		b.raise(at)
	}
	x.news.move(b, horizon)
}

// raise moves the horizon up and reports whether that is a move.
func (b *backend) raise(at moment) bool { return raise(&b.horizon, at) }

// raise sets a value that only grows and reports whether it did.
func raise(v *atomic.Int64, at moment) bool {
	for {
		known := v.Load()
		if int64(at) <= known {
			return false
		}
		if v.CompareAndSwap(known, int64(at)) {
			return true
		}
	}
}

// Promise implements [kvindex.Shared]. A promise that does not fit into the queue is none.
func (x *Index) Promise(h kvindex.Holder, keys []kvindex.Key, now kvindex.Stamp) kvindex.Promise {
	b := x.holder(h)
	if b == nil || len(keys) == 0 {
		return 0
	}
	return x.queue.promise(b, keys, now)
}

// Withdraw implements [kvindex.Shared].
func (x *Index) Withdraw(broken kvindex.Promise) { x.queue.withdraw(broken) }

// Publish implements [kvindex.Shared].
func (x *Index) Publish(h kvindex.Holder, keys []kvindex.Key, now kvindex.Stamp, kept kvindex.Promise) {
	b := x.holder(h)
	if b == nil || len(keys) == 0 {
		x.queue.withdraw(kept)
		return
	}
	if x.queue.add(b, keys, now, kept) {
		x.counts.published.Add(1)
		return
	}
	x.counts.dropped.Add(1)
	x.lose(b, []use{{backend: b, keys: keys, last: now}}) // it is written from the memory once there is room
}

// Run keeps the index and Redis alike until ctx ends. It returns nil. It can be called
// once.
func (x *Index) Run(ctx context.Context) error {
	// A read that waits for news ends only with its connection.
	defer context.AfterFunc(ctx, x.store.stopReading)()
	var group sync.WaitGroup
	for _, part := range []func(context.Context){x.write, x.follow, x.keep, x.restore, x.share} {
		group.Go(func() { part(ctx) })
	}
	group.Wait()
	x.store.close()
	return nil
}

// Close gives up the connections of an index that is not run.
func (x *Index) Close() { x.store.close() }

// all returns every backend that is shared.
func (x *Index) all() []*backend {
	return slices.DeleteFunc(slices.Clone(*x.holders.Load()), func(b *backend) bool { return b == nil })
}

// allPools returns every pool that ever had a backend, by name.
func (x *Index) allPools() map[string]*pool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return maps.Clone(x.pools)
}

// of returns the pool's backends.
func (x *Index) of(p *pool) []*backend {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Values(p.backends))
}
