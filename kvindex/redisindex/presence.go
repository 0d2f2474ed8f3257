package redisindex

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

const (
	// listEvery is how often the backends are listed as present.
	listEvery = 10 * time.Second
	// departWait is how long after a router dropped a backend it looks whether another one
	// has it: those have listed it twice by then. departAlone is the same where there is no
	// other: until what was on its way to Redis has come there.
	departWait  = 2*listEvery + time.Second
	departAlone = time.Second
	// listSlack is by how much moments of two routers differ at most.
	listSlack = time.Second
)

// A backend that one router drops may be in use by others: it lost sight of it, its list is
// a newer one, the backend registered with another. So a drop takes nothing out of Redis and
// tells nobody anything. All routers list what they have; who dropped a backend looks some
// time later whether anybody has listed it since, and unlinks its sets if nobody has. Who
// gets it back looks, too: if nobody has had it since, it may be another engine, and
// nothing from before is believed.

// claim takes in when a backend was last listed, before this router lists it. Where it was
// dropped here a moment ago, nothing is known yet.
func (x *Index) claim(b *backend, listed moment, clock conversion) {
	if born := kvindex.Stamp(b.born.Load()); born != 0 {
		if x.age(born) < x.departWait() {
			return
		}
		if listed <= clock.fleet(born).after(listSlack) || listed > clock.now.after(future) {
			x.raise(b, born)
		}
		b.born.Store(0)
	}
	if !b.claimed.Swap(true) {
		x.unlisted.Store(true)
	}
}

// list notes which backends there are, up to when nothing is believed of each and its sets were
// trimmed, and lets go of what says nothing any more. It removes the backends that no router
// has had for half of the time to live.
func (k *keeper) list(ctx context.Context) error {
	now, key := k.clock.fleetNow(), k.names.backends()
	var present []redis.Z
	for _, b := range k.all() {
		if b.claimed.Load() {
			present = append(present, redis.Z{Score: float64(now), Member: b.listed()})
		}
	}
	writes := []write{rangeWrite(key, "("+scoreText(now.after(future)), "+inf")} // see noteWrites
	for some := range slices.Chunk(present, maxMembers) {
		writes = append(writes, raiseWrite(key, nil, some))
	}
	for _, p := range k.allPools() {
		writes = append(writes, k.noteWrites(p, now)...)
	}
	var stale []string
	writes = append(writes, k.expireWrite(key), write{
		key: key,
		send: func(ctx context.Context, p redis.Pipeliner) {
			p.ZRangeByScore(ctx, key, &redis.ZRangeBy{Min: "-inf", Max: scoreText(now.before(k.config.TTL / 2)), Count: maxMembers})
		},
		done: func(answer redis.Cmder) {
			if listed, ok := answer.(*redis.StringSliceCmd); ok {
				stale = listed.Val()
			}
		},
	})
	if err := k.do(ctx, writes); err != nil {
		return err
	}
	for _, listed := range stale {
		if err := k.removeListed(ctx, listed); err != nil {
			return err
		}
	}
	return nil
}

// noteWrites write what is known of a pool's horizons, and of what was trimmed. What is as old
// as the time to live says nothing: no block is believed that is as old. What lies ahead is
// from before the server's clock was set back, or of somebody else.
func (k *keeper) noteWrites(p *pool, now moment) []write {
	old := now.before(k.config.TTL)
	var horizons, trimmed []redis.Z
	for _, b := range k.of(p) {
		if at := moment(b.horizon.Load()); at > old {
			horizons = append(horizons, redis.Z{Score: float64(at), Member: b.label})
		}
		if at := moment(b.trimmed.Load()); at > old {
			trimmed = append(trimmed, redis.Z{Score: float64(at), Member: b.label})
		}
	}
	writes := []write{purgeWrite(p.horizons, old, now.after(future)), purgeWrite(p.trimmed, old, now.after(future))}
	for some := range slices.Chunk(horizons, maxMembers) {
		writes = append(writes, raiseWrite(p.horizons, &p.horizonsRenewed, some))
	}
	for some := range slices.Chunk(trimmed, maxMembers) {
		writes = append(writes, raiseWrite(p.trimmed, &p.trimmedRenewed, some))
	}
	return writes
}

// purgeWrite removes from a sorted set what is no younger than old, and what lies beyond the
// end. There is one member for each backend, and they grow old one by one.
func purgeWrite(key string, old, end moment) write {
	return write{key: key, send: func(ctx context.Context, p redis.Pipeliner) {
		p.ZRemRangeByScore(ctx, key, "-inf", scoreText(old))
		p.ZRemRangeByScore(ctx, key, "("+scoreText(end), "+inf")
	}}
}

// departWait is how long after a drop it shows whether another router has the backend.
func (x *Index) departWait() time.Duration {
	if x.peers.replicas() == 0 && x.hears(x.config.Now()).worst == router.Fresh {
		return departAlone
	}
	return departWait
}

// age is how long ago something happened.
func (x *Index) age(at kvindex.Stamp) time.Duration {
	return x.config.Now().Sub(time.Unix(0, int64(at)))
}

// returned has those backends looked at that came back to this router, when it shows whether
// another one has had them meanwhile.
func (x *Index) returned() {
	for _, b := range x.all() {
		if born := kvindex.Stamp(b.born.Load()); born != 0 && x.age(born) >= x.departWait() {
			x.tasks.add(b, task{restore: true})
		}
	}
}

// release takes those backends out of Redis that were dropped here and that nobody else has.
func (k *keeper) release(ctx context.Context) {
	clock, ok := k.clock.conversion()
	due := k.departed()
	if !ok || len(due) == 0 {
		return
	}
	listed := make(map[place]*redis.FloatCmd)
	if _, err := k.store.pipeline(ctx, func(p redis.Pipeliner) {
		for at := range due {
			listed[at] = p.ZScore(ctx, k.names.backends(), at.listed())
		}
	}); err != nil {
		return
	}
	for at, dropped := range due {
		if _, failed := failed(listed[at].Err()); failed {
			_ = k.usable(ctx, k.names.backends(), listed[at].Err())
			continue
		}
		unused := momentOf(listed[at].Val()) <= clock.fleet(dropped).after(listSlack)
		if unused && k.removeListed(ctx, at.listed()) != nil {
			continue
		}
		k.departureSettled(at, dropped)
	}
}

// departed returns the backends about which it is time to find out whether another router has
// them, and when they were dropped.
func (x *Index) departed() map[place]kvindex.Stamp {
	wait := x.departWait()
	x.mu.Lock()
	defer x.mu.Unlock()
	due := make(map[place]kvindex.Stamp)
	for at, d := range x.dropped {
		switch age := x.age(d.at); {
		case age > x.config.TTL: // whoever looks finds nothing that old
			delete(x.dropped, at)
		case age >= wait && !d.settled:
			due[at] = d.at
		}
	}
	return due
}

// departureSettled notes that it is known what has become of a backend that was dropped. Should it have
// come back just now, its sets are written again.
func (x *Index) departureSettled(at place, dropped kvindex.Stamp) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if d, ok := x.dropped[at]; ok && d.at == dropped {
		d.settled = true
		x.dropped[at] = d
	}
	if p := x.pools[at.pool]; p != nil && p.backends[at.label] != nil {
		x.renewAll(p.backends[at.label])
		x.unlisted.Store(true)
	}
}

// renewAll has the sets of a backend written again, with a time to live.
func (x *Index) renewAll(b *backend) {
	for shard := range b.renewed {
		b.renewed[shard].forget()
	}
	x.tasks.add(b, task{rewrite: true})
}

// removeListed takes a backend out of Redis that no router has any more.
func (k *keeper) removeListed(ctx context.Context, listed string) error {
	_, err := k.store.pipeline(ctx, func(p redis.Pipeliner) {
		for _, set := range k.names.listedSets(listed) {
			p.Unlink(ctx, set)
		}
		p.ZRem(ctx, k.names.backends(), listed)
	})
	k.counts.removed.Add(1)
	return err
}

// abandoned reports whether a pool has had no backends for so long that nobody needs to follow
// its stream, and forgets it.
func (x *Index) abandoned(p *pool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(p.backends) > 0 || x.config.Now().Sub(p.empty) < x.config.TTL {
		return false
	}
	if x.pools[p.name] == p {
		delete(x.pools, p.name)
	}
	return true
}
