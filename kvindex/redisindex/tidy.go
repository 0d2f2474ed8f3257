package redisindex

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxTrims bounds the steps in which one set is trimmed at one look.
	maxTrims = 30
	// trimGrace is how long after its start a router trims nothing for its size: it has
	// to learn the capacities of the engines first.
	trimGrace = time.Minute
)

// scoreText is a moment as a bound of scores.
func scoreText(m moment) string { return strconv.FormatInt(int64(m), 10) }

// look is what was found at one set.
type look struct {
	backend        *backend
	set            string
	found          bool // the rest is known
	size           int
	oldest, newest moment
	// last is the last use of the newest block among the oldest [maxMembers], first that of
	// the oldest among the newest; 0 where there are fewer.
	last, first moment
	ttl         time.Duration // below 0: none
}

// lookAtSets looks at the next few sets. All routers begin somewhere else and share the
// work: together they look at each set about once in [setEvery].
func (k *keeper) lookAtSets(ctx context.Context) {
	all := k.all()
	count := len(all) * shards
	round := int(setEvery) * (1 + k.peers.replicas())
	var looks []*look
	for range (count*int(keepEvery) + round - 1) / round {
		b := all[k.next%count/shards]
		looks = append(looks, &look{backend: b, set: b.sets[k.next%shards]})
		k.next++
	}
	if len(looks) == 0 || k.find(ctx, looks...) != nil {
		return
	}
	for _, l := range looks {
		if l.found {
			_ = k.tidy(ctx, l) // it is looked at again
		}
	}
}

// find reads what there is to know of some sets. It fails where that is nothing.
func (x *Index) find(ctx context.Context, looks ...*look) error {
	type answer struct {
		size                        *redis.IntCmd
		oldest, newest, last, first *redis.ZSliceCmd
		ttl                         *redis.DurationCmd
	}
	all := make([]answer, len(looks))
	_, err := x.store.pipeline(ctx, func(p redis.Pipeliner) {
		for i, l := range looks {
			all[i] = answer{
				size:   p.ZCard(ctx, l.set),
				oldest: p.ZRangeWithScores(ctx, l.set, 0, 0),
				newest: p.ZRangeWithScores(ctx, l.set, -1, -1),
				last:   p.ZRangeWithScores(ctx, l.set, maxMembers-1, maxMembers-1),
				first:  p.ZRangeWithScores(ctx, l.set, -maxMembers, -maxMembers),
				ttl:    p.PTTL(ctx, l.set),
			}
		}
	})
	if err != nil {
		return err
	}
	for i, l := range looks {
		a := all[i]
		err := cmp.Or(a.size.Err(), a.oldest.Err(), a.newest.Err(), a.last.Err(), a.first.Err(), a.ttl.Err())
		if l.found = err == nil; !l.found {
			_ = x.usable(ctx, l.set, err)
			continue
		}
		l.size, l.ttl = int(a.size.Val()), a.ttl.Val()
		l.oldest, l.newest, l.last, l.first = firstScore(a.oldest), firstScore(a.newest), firstScore(a.last), firstScore(a.first)
	}
	return nil
}

// firstScore is the score of the first member of an answer; 0 where there is none.
func firstScore(answer *redis.ZSliceCmd) moment {
	if all := answer.Val(); len(all) > 0 {
		return momentOf(all[0].Score)
	}
	return 0
}

// tidy removes from a set what nobody reads any more and what is too much, and sees to its
// time to live. A set that is idle is removed before its time to live ends, because the
// server frees in the background what is unlinked, and not what expires.
func (k *keeper) tidy(ctx context.Context, l *look) error {
	for range maxTrims {
		changed, err := k.step(ctx, l)
		if err != nil || !changed {
			return err
		}
		if err := k.find(ctx, l); err != nil || !l.found {
			return err
		}
	}
	return nil
}

// step does one thing about a set, if there is any.
func (k *keeper) step(ctx context.Context, l *look) (changed bool, err error) {
	b := l.backend
	now := k.clock.fleetNow()
	dead := max(moment(b.horizon.Load()), moment(b.trimmed.Load()), now.before(k.config.TTL))
	excess := l.size - k.setBound(b)
	switch {
	case l.size == 0:
		return false, nil
	case l.newest > now.after(future): // of whoever it is, unless this machine has slept
		if err := k.compareClocks(ctx); err != nil || k.clock.fleetNow() > now.after(future) {
			return false, err
		}
		return true, k.removeNewest(ctx, l, now.after(future))
	case l.newest <= dead:
		b.renewed[slices.Index(b.sets[:], l.set)].forget()
		return false, k.do(ctx, []write{unlinkWrite(l.set)})
	case l.oldest <= dead:
		end := l.newest
		if l.last != 0 {
			end = l.last
		}
		return true, k.do(ctx, []write{rangeWrite(l.set, "-inf", scoreText(min(end, dead)))})
	case excess > 0 && k.config.Now().Sub(k.started) >= trimGrace:
		return true, k.condemn(ctx, l, excess)
	case l.ttl < k.config.TTL*3/4:
		return false, k.do(ctx, []write{k.expireWrite(l.set)})
	}
	return false, nil
}

// rangeWrite removes the members of a set whose scores are in a range.
func rangeWrite(set, from, to string) write {
	return write{key: set, send: func(ctx context.Context, p redis.Pipeliner) { p.ZRemRangeByScore(ctx, set, from, to) }}
}

// removeNewest removes the newest blocks of a set as far as they lie beyond an end.
func (x *Index) removeNewest(ctx context.Context, l *look, end moment) error {
	from := "(" + scoreText(end)
	if l.first > end {
		from = scoreText(l.first)
	}
	return x.do(ctx, []write{rangeWrite(l.set, from, "+inf")})
}

// removeAhead removes what lies ahead from the sets of a backend.
func (x *Index) removeAhead(ctx context.Context, b *backend) error {
	for _, set := range b.sets {
		l := &look{backend: b, set: set}
		for {
			if err := x.find(ctx, l); err != nil {
				return err
			}
			end := x.clock.fleetNow().after(clockStep)
			if !l.found || l.size == 0 || l.newest <= end || b.gone.Load() {
				break
			}
			if err := x.removeNewest(ctx, l, end); err != nil {
				return err
			}
		}
	}
	return nil
}

// condemn notes that the oldest n blocks of a set are too much: the next steps remove them,
// as everything as old in the backend's other sets, where blocks may have lost their
// parents, and nobody reads either.
func (k *keeper) condemn(ctx context.Context, l *look, n int) error {
	var nth *redis.ZSliceCmd
	_, err := k.store.pipeline(ctx, func(p redis.Pipeliner) {
		nth = p.ZRangeWithScores(ctx, l.set, int64(n-1), int64(n-1))
	})
	if err != nil || len(nth.Val()) == 0 {
		return err
	}
	b, end := l.backend, momentOf(nth.Val()[0].Score)
	if err := k.do(ctx, []write{k.trimmedWrite(b, end)}); err != nil {
		return err
	}
	raise(&b.trimmed, end)
	k.counts.trimmed.Add(uint64(n))
	return nil
}
