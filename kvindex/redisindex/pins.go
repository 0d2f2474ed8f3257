package redisindex

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

const (
	// pinTTL is how long a pin is kept that nobody uses, and maxPins how many of a pool: as
	// long, and as many, as routers remember.
	pinTTL  = 24 * time.Hour
	maxPins = 1 << 16
	// trimPins is how often a router that pins removes what is too old or too much: often
	// enough that it is little.
	trimPins = 10 * time.Second
	// maxPinned bounds the pins that wait to be written. What does not fit is not told.
	maxPinned = 16_384
)

// pin is that something belongs to a backend.
type pin struct {
	key     router.PinKey
	backend string // its label; empty: to none any more
	at      moment
}

// pinned is a pin that waits to be written.
type pinned struct {
	backend string // its label
	at      time.Time
}

// pinPlace is what is pinned, in a pool.
type pinPlace struct {
	pool *pool
	key  router.PinKey
}

// Pin tells other routers that something belongs to a backend of a pool, with its id, or to
// none any more. It returns at once.
func (x *Index) Pin(pool string, key router.PinKey, backend string, at time.Time) {
	x.mu.RLock()
	p := x.pools[pool]
	label, known := "", backend == ""
	if p != nil && !known {
		label, known = p.labelOf(backend)
	}
	x.mu.RUnlock()
	if p != nil && known && !x.queue.pin(pinPlace{p, key}, pinned{label, at}) {
		x.counts.dropped.Add(1)
	}
}

// labelOf is the label of a backend by its id. Index.mu is held.
func (p *pool) labelOf(id string) (label string, ok bool) {
	for label, b := range p.backends {
		if b.id == id {
			return label, true
		}
	}
	return "", false
}

// pin takes in a pin, in the place of one of the same that waits. It reports whether there
// was room.
func (q *queue) pin(at pinPlace, p pinned) bool {
	q.mu.Lock()
	_, waits := q.pins[at]
	fits := waits || len(q.pins) < maxPinned
	if fits {
		if q.pins == nil {
			q.pins = make(map[pinPlace]pinned)
		}
		q.pins[at] = p
	}
	q.mu.Unlock()
	signal(q.wake)
	return fits
}

// takePins returns the pins that wait.
func (q *queue) takePins() map[pinPlace]pinned {
	q.mu.Lock()
	defer q.mu.Unlock()
	pins := q.pins
	q.pins = nil
	return pins
}

// pinWrites turn the pins that wait into commands, and tell them.
func (w *writer) pinWrites(clock conversion, tell func(*pool) *encoder) []write {
	members := make(map[*pool][]redis.Z)
	for at, p := range w.queue.takePins() {
		one := pin{key: at.key, backend: p.backend, at: clock.fleetTime(p.at)}
		tell(at.pool).addPin(one)
		members[at.pool] = append(members[at.pool], redis.Z{Score: float64(one.at), Member: one.member()})
	}
	var writes []write
	for p, all := range members {
		for len(all) > 0 {
			some := all[:min(len(all), maxMembers)]
			all = all[len(some):]
			writes = append(writes, raiseWrite(p.pins, nil, some))
		}
		if p.pinsTrimmed.due(w.config.Now(), 4*trimPins) {
			writes = append(writes, trimPinsWrite(p.pins, clock.now))
		}
	}
	return writes
}

// trimPinsWrite removes the pins that are too old or too many, or of a time to come, and
// keeps the rest.
func trimPinsWrite(key string, now moment) write {
	return write{key: key, send: func(ctx context.Context, p redis.Pipeliner) {
		p.ZRemRangeByScore(ctx, key, "-inf", scoreText(now.before(pinTTL)))
		p.ZRemRangeByScore(ctx, key, "("+scoreText(now.after(future)), "+inf")
		p.ZRemRangeByRank(ctx, key, 0, -maxPins-1)
		p.Expire(ctx, key, pinTTL)
	}}
}

// member is a pin as its set keeps it: the key in eight bytes, and the backend's label.
func (p pin) member() string { return member(kvindex.Key(p.key)) + p.backend }

// parsePin reads a member; ok is false where it is none of ours.
func parsePin(z redis.Z) (p pin, ok bool) {
	text, _ := z.Member.(string)
	if len(text) < 8 || len(text) > 8+maxLabel {
		return pin{}, false
	}
	key, _ := parseMember(text[:8])
	return pin{key: router.PinKey(key), backend: text[8:], at: momentOf(z.Score)}, key != 0
}

// readPins reads what is pinned in the pool, the latest first, which then count.
func (r *reader) readPins(ctx context.Context) error {
	for from := int64(0); from < maxPins; from += maxMembers {
		var page *redis.ZSliceCmd
		_, err := r.store.pipeline(ctx, func(p redis.Pipeliner) {
			page = p.ZRevRangeWithScores(ctx, r.pool.pins, from, from+maxMembers-1)
		})
		if err != nil {
			return err
		}
		if err := r.usable(ctx, r.pool.pins, page.Err()); err != nil {
			return err
		}
		for _, z := range page.Val() {
			if p, ok := parsePin(z); ok {
				r.pinned(p)
			} else {
				r.counts.malformed.Add(1)
			}
		}
		if len(page.Val()) < maxMembers {
			return nil
		}
	}
	return nil
}

// pinned takes in what another router has pinned. Where the backend is not there, nothing
// is: it may be to come.
func (r *reader) pinned(p pin) {
	clock, ok := r.clock.conversion()
	now := r.clock.fleetNow()
	if !ok || p.at > now.after(future) {
		r.counts.malformed.Add(1)
		return
	}
	id := ""
	if p.backend != "" {
		r.mu.RLock()
		b := r.pool.backends[p.backend]
		r.mu.RUnlock()
		if b == nil {
			r.counts.ignored.Add(1)
			return
		}
		id = b.id
	}
	r.fleet.PeerPin(r.pool.name, p.key, id, clock.localTime(min(p.at, now)), r.config.Now())
}
