package redisindex

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// keepEvery is the keeper's pace, and setEvery how often the keepers of all routers look
	// at each set.
	keepEvery = 250 * time.Millisecond
	setEvery  = 10 * time.Second
	// clockEvery is how often the clocks are compared, and clockAgain the same where the
	// last answer was too slow to tell well.
	clockEvery = 10 * time.Second
	clockAgain = time.Second
	// poolEvery is how often the keeper looks whether Redis has been emptied.
	poolEvery = time.Second
	// maxStream bounds a stream's records, should the server's clock be set back, by which
	// they age.
	maxStream = 100_000
)

// keeper looks after what is in Redis: that nothing grows without bound, stays for ever,
// or has to be freed by the server all at once.
type keeper struct {
	*Index

	started                 time.Time
	clockAt, poolAt, listAt time.Time // when each was last done
	settingsAt              time.Time
	pools                   int // how many there were at the last turn
	next                    int // number of the set to look at
}

// keep runs the keeper until ctx ends.
func (x *Index) keep(ctx context.Context) {
	k := &keeper{Index: x, started: x.config.Now(), next: rand.IntN(1 << 20)}
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		k.turn(ctx)
		select {
		case <-ctx.Done():
			k.leave(ctx)
			return
		case <-tick.C:
		case <-k.attention:
		}
	}
}

// leave writes what was set last, if that is quick.
func (k *keeper) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	k.shareSettings(ctx, k.config.Now())
	if k.lead.until.Swap(0) != 0 {
		k.yieldLead(ctx)
	}
}

// turn does what is due. What fails is left to the next time: one part of a cluster may be
// away, and the others are looked after all the same.
func (k *keeper) turn(ctx context.Context) {
	now := k.config.Now()
	due := func(last *time.Time, every time.Duration) bool {
		if now.Sub(*last) < every {
			return false
		}
		*last = now
		return true
	}
	pace := clockEvery
	if k.clock.rough() {
		pace = clockAgain
	}
	if due(&k.clockAt, pace) && k.compareClocks(ctx) != nil && k.clock.fleetNow() == 0 {
		k.clockAt = time.Time{} // nothing can be done without it
		return
	}
	if n := len(k.allPools()); n != k.pools {
		k.pools, k.poolAt = n, time.Time{}
	}
	if due(&k.poolAt, poolEvery) && !k.lookAtPools(ctx) {
		k.poolAt = time.Time{} // what comes back may have been emptied
	}
	if k.unlisted.Swap(false) || due(&k.listAt, listEvery) {
		if k.listAt = now; k.list(ctx) != nil {
			k.unlisted.Store(true)
		}
	}
	k.returned()
	k.release(ctx)
	k.shareSettings(ctx, now)
	k.seekLead(ctx, now)
	k.lookAtSets(ctx)
}

func (k *keeper) compareClocks(ctx context.Context) error {
	return k.store.exchange(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		step, err := k.clock.measure(ctx, client, k.names.backends())
		if step != 0 {
			k.stepped(step)
		}
		return err
	})
}

// stepped takes in that fleet time has jumped: the server's clock was set, or after a failover
// it is another one's. What this router knows in fleet time moves along, and what it has is
// written anew. What is in Redis from before lies ahead, or is too old to be believed: what
// lies ahead is removed, or nothing newer could take its place.
func (k *keeper) stepped(by time.Duration) {
	k.counts.steps.Add(1)
	k.config.Logger.Warn("redis: the server's clock was set, or another server has taken its place; the index is written anew", slog.Duration("by", by))
	for _, b := range k.all() {
		shift(&b.horizon, by)
		shift(&b.trimmed, by)
		k.tasks.add(b, task{ahead: by < 0, rewrite: true})
	}
	k.settings.shift(by)
	k.unlisted.Store(true)
}

// shift moves a moment, if there is one.
func shift(v *atomic.Int64, by time.Duration) {
	for {
		known := v.Load()
		if known == 0 || v.CompareAndSwap(known, max(int64(moment(known).after(by)), 1)) {
			return
		}
	}
}

// lookAtPools finds out whether Redis was emptied: the epoch is gone then. What this
// router knows is written again, so that one that starts finds it. It reports whether Redis
// answered.
func (k *keeper) lookAtPools(ctx context.Context) bool {
	type epoch struct {
		created *redis.BoolCmd
		value   *redis.StringCmd
	}
	epochs := make(map[*pool]epoch)
	mine := strconv.FormatUint(rand.Uint64(), 36)
	_, err := k.store.pipeline(ctx, func(p redis.Pipeliner) {
		for _, one := range k.allPools() {
			epochs[one] = epoch{
				created: p.SetNX(ctx, one.epoch, mine, k.config.TTL),
				value:   p.GetEx(ctx, one.epoch, k.config.TTL),
			}
			p.XTrimMaxLenApprox(ctx, one.stream, maxStream, 0)
		}
	})
	if err != nil {
		return false
	}
	for p, found := range epochs {
		if err := cmp.Or(found.created.Err(), found.value.Err()); err != nil {
			_ = k.usable(ctx, p.epoch, err)
			continue
		}
		before := p.known
		p.known = found.value.Val()
		if before == "" && found.created.Val() || before != "" && before != p.known {
			k.emptied(p)
		}
	}
	return true
}

// emptied takes in that there was nothing in Redis of a pool.
func (k *keeper) emptied(p *pool) {
	k.counts.emptied.Add(1)
	k.config.Logger.Info("redis: nothing was there; what this router knows is written", slog.String("pool", p.name))
	for _, r := range []*renewal{&p.renewed, &p.horizonsRenewed, &p.trimmedRenewed} {
		r.forget()
	}
	k.unlisted.Store(true)
	for _, b := range k.of(p) {
		k.renewAll(b)
		k.tasks.add(b, task{restore: true})
	}
}
