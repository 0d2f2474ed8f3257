package redisindex

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

const (
	// readBlock is how long a read waits for news, readGrace how much longer for the
	// server to say that there are none.
	readBlock = time.Second
	readGrace = 500 * time.Millisecond
	// maxConnecting bounds the pools whose readers connect at a time, because they share
	// connections with everything else.
	maxConnecting = maxConnections / 4
	// readRecords is how many records one read brings at most.
	readRecords = 64
	// readRetry is the shortest and half the longest time after a read that failed.
	readRetry = 250 * time.Millisecond
	// overlap is how much of the stream from before a read of the sets is read as well: what
	// it tells may not be in all of them yet, where the nodes of a cluster do not write in
	// step, or writing to some had to be tried again.
	overlap = 5 * time.Second
	// echoLimit is how long it may take until this router reads back what it wrote. When
	// writing goes well and nothing comes back, it reads from the wrong server.
	echoLimit = 5 * time.Second
)

// follow reads the stream of every pool until ctx ends.
func (x *Index) follow(ctx context.Context) {
	var readers sync.WaitGroup
	defer readers.Wait()
	for {
		for _, p := range x.unfollowed() {
			readers.Go(func() { newReader(x, p).run(ctx) })
		}
		select {
		case <-ctx.Done():
			return
		case <-x.newPools:
		}
	}
}

// unfollowed returns the pools that nobody reads the stream of, once.
func (x *Index) unfollowed() []*pool {
	x.mu.Lock()
	defer x.mu.Unlock()
	var fresh []*pool
	for _, p := range x.pools {
		if !p.followed {
			p.followed = true
			fresh = append(fresh, p)
		}
	}
	return fresh
}

// reader follows the stream of one pool.
type reader struct {
	*Index

	pool  *pool
	last  string    // id of the last record that was read; "" before any
	until string    // id of the last record that there was when the reader connected
	late  late      // what the records up to that one tell, to be merged after it
	back  time.Time // when what this router wrote last came back, or reading began

	sequences sequences // of the other routers
	gap       bool      // messages have been missed since the reader connected
	promised  promised
}

func newReader(x *Index, p *pool) *reader {
	return &reader{Index: x, pool: p, late: make(late), sequences: make(sequences)}
}

// run connects and follows, over and over, until ctx ends.
func (r *reader) run(ctx context.Context) {
	select {
	case <-r.clock.ready:
	case <-ctx.Done():
	}
	for ctx.Err() == nil && !r.abandoned(r.pool) {
		r.connecting <- struct{}{}
		err := r.connect(ctx)
		<-r.connecting
		for err == nil && !r.abandoned(r.pool) {
			err = r.read(ctx)
		}
		wait(ctx, readRetry+rand.N(readRetry))
	}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

var (
	// errNoEcho says that what this router writes does not come back.
	errNoEcho = errors.New("redisindex: what is written is not read")
	// errGap says that messages have been missed.
	errGap = errors.New("redisindex: messages are missing")
)

// connect finds out where to go on reading, and has the sets read where records have been
// missed. Horizons come first: what they forget must not come back with old records.
func (r *reader) connect(ctx context.Context) error {
	var oldest, newest *redis.XMessageSliceCmd
	p := r.pool
	all := r.of(p)
	var horizons []*redis.FloatSliceCmd // of some backends each
	_, err := r.store.pipeline(ctx, func(pipe redis.Pipeliner) {
		oldest = pipe.XRangeN(ctx, p.stream, "-", "+", 1)
		newest = pipe.XRevRangeN(ctx, p.stream, "+", "-", 1)
		for some := range slices.Chunk(all, maxMembers) {
			horizons = append(horizons, pipe.ZMScore(ctx, p.horizons, labels(some)...))
		}
	})
	if err != nil {
		return err
	}
	if err := errors.Join(r.usable(ctx, p.stream, oldest.Err()), newest.Err()); err != nil {
		return err
	}
	for i, answer := range horizons {
		if answer.Err() != nil {
			return r.usable(ctx, p.horizons, answer.Err())
		}
		for j, score := range answer.Val() {
			r.moved(p, horizon{backend: all[i*maxMembers+j].label, at: momentOf(score)})
		}
	}
	first, last := idOf(oldest), idOf(newest)
	missed := true
	switch {
	case r.last == "":
		r.last = rewind(last)
	case before(last, r.last):
		r.last = "0-0" // it is another stream than before
	case before(r.last, first), r.gap:
		r.counts.gaps.Add(1)
	default:
		missed = false
	}
	if missed {
		r.restoreAll()
		if err := r.readPins(ctx); err != nil {
			r.gap = true
			return err
		}
	}
	r.gap = false
	r.until = last
	p.noted.Store(true)
	signal(r.tasks.wake)
	r.back = r.config.Now()
	return nil
}

// restoreAll has what Redis knows of the pool's backends read.
func (r *reader) restoreAll() {
	clear(r.sequences) // what is missing is read with it
	for _, b := range r.of(r.pool) {
		r.tasks.add(b, task{restore: true})
	}
}

// labels are the names of backends in Redis.
func labels(all []*backend) []string {
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = b.label
	}
	return names
}

// idOf is the id of the record that a command returned; "0-0" where there is none.
func idOf(command *redis.XMessageSliceCmd) string {
	if all := command.Val(); len(all) > 0 {
		return all[0].ID
	}
	return "0-0"
}

// before reports whether a record's id is before another one's.
func before(a, b string) bool {
	if x, y := millisOf(a), millisOf(b); x != y {
		return x < y
	}
	return sequenceOf(a) < sequenceOf(b)
}

// sequenceOf is the second part of a record's id, which tells records of one millisecond apart.
func sequenceOf(id string) uint64 {
	_, text, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// rewind returns an id that is a little earlier.
func rewind(id string) string {
	return strconv.FormatInt(max(millisOf(id)-overlap.Milliseconds(), 0), 10) + "-0"
}

// read waits for records and takes them in.
func (r *reader) read(ctx context.Context) error {
	if r.store.resting() {
		return errDenied
	}
	bounded, cancel := context.WithTimeout(ctx, readBlock+readGrace)
	defer cancel()
	streams, err := r.store.clients().streams.XRead(bounded, &redis.XReadArgs{
		Streams: []string{r.pool.stream, r.last}, Count: readRecords, Block: readBlock,
	}).Result()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, failed := r.store.note(err); failed {
		return r.usable(ctx, r.pool.stream, err)
	}
	records := 0
	for _, s := range streams {
		records += len(s.Messages)
		for _, record := range s.Messages {
			if before(r.until, record.ID) {
				r.mergeLate(r.late)
			}
			r.take(record)
			r.last = record.ID
		}
	}
	r.counts.lastRead.Store(int64(records))
	r.expire()
	if records == 0 || !before(r.last, r.until) {
		r.mergeLate(r.late)
	}
	if r.sequences.missed(r.config.Now()) {
		r.gap = true
		return errGap
	}
	if written := time.Unix(0, r.pool.written.Load()); written.Sub(r.back) > echoLimit {
		r.store.renew()
		return errNoEcho
	}
	return nil
}

// take takes in one record.
func (r *reader) take(record redis.XMessage) {
	text, _ := record.Values[streamField].(string)
	m, err := decode([]byte(text))
	if err != nil {
		r.counts.malformed.Add(1)
		return
	}
	now := r.config.Now()
	if m.replica == r.replica {
		r.back = now
		r.echoed(m.report)
		r.counts.lag.Store(int64(max(r.clock.fleetNow()-moment(millisOf(record.ID)*1000), 0)))
		return
	}
	r.pool.hearing.heardOf(now)
	r.sequences.take(m.replica, m.number, !before(r.until, record.ID), now)
	for _, h := range m.horizons {
		r.moved(r.pool, h)
	}
	for _, p := range m.pins {
		r.pinned(p)
	}
	for _, c := range m.chains {
		r.learn(c, m.replica, !before(r.until, record.ID))
	}
	for _, e := range m.ends {
		r.ended(e, m.replica)
	}
	if m.report != nil {
		r.peers.put(peerPool{m.replica, r.pool.name}, r.reportOf(m.report), m.report.whole)
	}
}

// echoed takes in that this router's own report came back; nil where there was none.
func (r *reader) echoed(own *report) {
	if clock, ok := r.clock.conversion(); ok && own != nil {
		r.pool.hearing.echoed(clock.localTime(own.at))
	}
}

// learn takes in that another router saw a backend hold a chain, or promises that it will,
// and told so before this one listened where that is late.
func (r *reader) learn(c chain, replica uint64, late bool) {
	clock, ok := r.clock.conversion()
	if !ok {
		return
	}
	r.mu.RLock()
	b := r.pool.backends[c.backend]
	r.mu.RUnlock()
	if b == nil || c.last <= moment(b.horizon.Load()) || clock.local(c.last) <= kvindex.Stamp(b.born.Load()) {
		r.counts.ignored.Add(1)
		return
	}
	if c.promise != 0 {
		if !late { // what is kept of those is told again
			r.expect(c, promiseOf{replica, c.promise}, b, clock)
		}
		return
	}
	r.counts.received.Add(1)
	if late {
		r.late.add(b, c)
		return
	}
	b.resident.Record(c.keys, clock.local(min(c.last, r.clock.fleetNow())), kvindex.Observed)
}

// moved takes in where another router has a backend's horizon.
func (x *Index) moved(p *pool, h horizon) {
	clock, ok := x.clock.conversion()
	now := x.clock.fleetNow()
	if h.at > now.after(future) { // believed, it would make everything forgotten over and over
		x.counts.malformed.Add(1)
		return
	}
	at := min(h.at, now)
	x.mu.RLock()
	b := p.backends[h.backend]
	x.mu.RUnlock()
	if !ok || b == nil || !b.raise(at) {
		return
	}
	x.counts.horizons.Add(1)
	x.fleet.PeerHorizon(p.name, b.id, clock.local(at), kvindex.Stamp(x.config.Now().UnixNano()))
}

// reportOf is a report in this router's terms.
func (r *reader) reportOf(m *report) router.PeerReport {
	clock, _ := r.clock.conversion()
	report := router.PeerReport{At: clock.localTime(m.at)}
	for _, l := range m.loads {
		one := router.Load{Pool: r.pool.name, Backend: l.backend, InFlight: l.inFlight, PrefillRate: l.rate}
		one.Backlog.Tokens = l.tokens
		one.Backlog.Began, one.Backlog.Progress = clock.localTime(l.began), clock.localTime(l.progress)
		report.Loads = append(report.Loads, one)
	}
	return report
}
