package redisindex

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/warmroute/warmroute/kvindex"
)

const (
	// taskRetry is the time after a task that failed.
	taskRetry = 500 * time.Millisecond
	// rewriteBlocks is how many blocks are written from the memory at a time, and
	// rewritePause the time from one write to the next, so that what requests publish is not
	// held up behind them.
	rewriteBlocks = 4096
	rewritePause  = 5 * time.Millisecond
)

// restore does the tasks, one after the other, until ctx ends.
func (x *Index) restore(ctx context.Context) {
	for ctx.Err() == nil {
		b, t, ok := x.tasks.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-x.tasks.wake:
			}
			continue
		}
		err := x.perform(ctx, b, t)
		if err != nil {
			x.tasks.add(b, t)
		}
		x.tasks.done()
		if err != nil {
			wait(ctx, taskRetry)
		}
	}
}

func (x *Index) perform(ctx context.Context, b *backend, t task) error {
	if t.ahead {
		if err := x.removeAhead(ctx, b); err != nil {
			return err
		}
	}
	if t.restore {
		if err := x.readSets(ctx, b); err != nil {
			return err
		}
	}
	if t.rewrite {
		return x.writeSets(ctx, b, t.since)
	}
	return nil
}

// setReader reads the sets of one backend side by side, newest first.
type setReader struct {
	*Index

	backend *backend
	bound   int    // how many blocks of one set are wanted
	cut     moment // what is as old, or older, may lack its parent
	read    [shards]int
	done    [shards]bool
	blocks  []scored
}

// readSets merges into the memory what Redis knows of a backend, as much as the memory
// takes. What lies below the newest of the old ends that were reached is left out: there,
// one set has blocks whose parents another one has not.
func (x *Index) readSets(ctx context.Context, b *backend) error {
	clock, ok := x.clock.conversion()
	if !ok {
		return errNoClock
	}
	r := &setReader{Index: x, backend: b, bound: x.setBound(b)}
	if err := r.begin(ctx, clock); err != nil {
		return err
	}
	for slices.Contains(r.done[:], false) {
		if err := r.more(ctx); err != nil {
			return err
		}
	}
	if b.gone.Load() {
		return nil
	}
	r.blocks = slices.DeleteFunc(r.blocks, func(s scored) bool { return s.last <= r.cut })
	x.counts.restored.Add(uint64(x.merge(b, r.blocks, clock)))
	x.counts.restores.Add(1)
	return nil
}

// begin finds out how old is too old.
func (r *setReader) begin(ctx context.Context, clock conversion) error {
	b := r.backend
	var listedAt, horizonAt, trimmedAt *redis.FloatCmd
	_, err := r.store.pipeline(ctx, func(p redis.Pipeliner) {
		listedAt = p.ZScore(ctx, r.names.backends(), b.listed())
		horizonAt = p.ZScore(ctx, b.home.horizons, b.label)
		trimmedAt = p.ZScore(ctx, b.home.trimmed, b.label)
	})
	if err != nil {
		return err
	}
	for key, command := range map[string]*redis.FloatCmd{r.names.backends(): listedAt, b.home.horizons: horizonAt, b.home.trimmed: trimmedAt} {
		if _, failed := failed(command.Err()); failed {
			return r.usable(ctx, key, command.Err())
		}
	}
	r.claim(b, momentOf(listedAt.Val()), clock)
	r.moved(b.home, horizon{backend: b.label, at: momentOf(horizonAt.Val())})
	now := r.clock.fleetNow()
	r.cut = max(moment(b.horizon.Load()), now.before(r.config.TTL))
	if trimmed := momentOf(trimmedAt.Val()); trimmed <= now.after(future) {
		r.cut = max(r.cut, trimmed)
		raise(&b.trimmed, trimmed)
	}
	if born := kvindex.Stamp(b.born.Load()); born != 0 {
		r.cut = max(r.cut, clock.fleet(born))
	}
	return nil
}

// more reads the next blocks of every set that is not read to its end.
func (r *setReader) more(ctx context.Context) error {
	var answers [shards]*redis.ZSliceCmd
	_, err := r.store.pipeline(ctx, func(p redis.Pipeliner) {
		for shard := range answers {
			if !r.done[shard] {
				from := r.read[shard]
				answers[shard] = p.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
					Key: r.backend.sets[shard], Start: from, Stop: from + maxMembers - 1, Rev: true,
				})
			}
		}
	})
	if err != nil {
		return err
	}
	for shard, answer := range answers {
		if answer == nil {
			continue
		}
		if _, failed := failed(answer.Err()); failed {
			return r.usable(ctx, r.backend.sets[shard], answer.Err())
		}
		r.take(shard, answer.Val())
	}
	return nil
}

// take takes in blocks of one set. Those that are used meanwhile move to its new end, and
// come by way of the stream.
func (r *setReader) take(shard int, members []redis.Z) {
	r.read[shard] += len(members)
	r.done[shard] = len(members) < maxMembers
	for _, z := range members {
		last := momentOf(z.Score)
		if last <= r.cut {
			r.done[shard] = true
			return
		}
		text, _ := z.Member.(string)
		if key, ok := parseMember(text); ok {
			r.blocks = append(r.blocks, scored{key: key, last: last})
		} else {
			r.counts.malformed.Add(1)
		}
	}
	if !r.done[shard] && r.read[shard] >= r.bound {
		r.done[shard] = true
		r.cut = max(r.cut, momentOf(members[len(members)-1].Score))
	}
}

// setBound is how many blocks one set of a backend needs to have: its part of the
// capacity, and more because no two sets are equally full.
func (x *Index) setBound(b *backend) int {
	return b.resident.Stats().Capacity/shards*11/10 + 64
}

// writeSets writes from the memory what was used at since or later.
func (x *Index) writeSets(ctx context.Context, b *backend, since kvindex.Stamp) error {
	clock, ok := x.clock.conversion()
	if !ok {
		return errNoClock
	}
	var failure error
	g := &gathered{scores: make(map[kvindex.Key]moment)}
	flush := func() bool {
		if failure = x.do(ctx, x.scoreWrites(b, g)); failure != nil || b.gone.Load() {
			return false
		}
		clear(g.scores)
		wait(ctx, rewritePause)
		return ctx.Err() == nil
	}
	last := moment(0)
	b.resident.Entries(func(entries []kvindex.Entry) bool {
		for _, e := range entries {
			// The entries of one use have one stamp, tails first.
			last = max(last+1, clock.fleet(e.LastUse))
			if e.LastUse >= since && last > moment(b.horizon.Load()) {
				g.scores[e.Key] = last
			}
		}
		return len(g.scores) < rewriteBlocks || flush()
	})
	if failure == nil && len(g.scores) > 0 {
		flush()
	}
	return failure
}
