package redisindex

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxMembers bounds the members of a sorted set that one command adds, reads or
	// removes: a server does nothing else meanwhile.
	maxMembers = 1000
	// streamKeep is about how long a stream's records are kept: a router that was away for
	// longer reads the sets anew.
	streamKeep = 30 * time.Second
	// streamField is the one field of a record.
	streamField = "m"
)

// write is what changes one key, and is tried again until it is done.
type write struct {
	key  string
	size int // bytes of it, about
	// send adds the command to a pipeline.
	send func(ctx context.Context, p redis.Pipeliner)
	// renewed is when the key's time to live was last set: where it is due, it is set along
	// with the command, and again where that failed. nil: it is not to be set.
	renewed *renewal
	// done gets the answer, and lost is called when it will not be done; nil where nobody
	// wants to know.
	done  func(answer redis.Cmder)
	lost  func()
	tries int // that the server refused
}

// entrySize is about what a member of a sorted set takes in a command, and in memory until
// it is sent, in bytes.
const entrySize = 48

// scoreWrites add blocks to the sets of a backend, or move them up. What cannot be done is
// lost all together.
func (x *Index) scoreWrites(b *backend, g *gathered) []write {
	var members [shards][]redis.Z
	for key, score := range g.scores {
		shard := shardOf(key)
		members[shard] = append(members[shard], redis.Z{Score: float64(score), Member: member(key)})
	}
	lost := sync.OnceFunc(func() { x.lose(b, g.uses) })
	var writes []write
	for shard, all := range members {
		set := b.sets[shard]
		for some := range slices.Chunk(all, maxMembers) {
			writes = append(writes, write{
				key: set, size: entrySize * (1 + len(some)), renewed: &b.renewed[shard], lost: lost,
				send: func(ctx context.Context, p redis.Pipeliner) {
					if !b.gone.Load() { // what is written then, nobody looks after
						p.ZAddArgs(ctx, set, redis.ZAddArgs{GT: true, Members: some})
					}
				},
			})
		}
	}
	return writes
}

// send adds a write to a pipeline, and what keeps its key alive. It adds nothing where
// there is nothing to do any more.
func (x *Index) send(ctx context.Context, p redis.Pipeliner, one write) {
	before := p.Len()
	one.send(ctx, p)
	if p.Len() > before && one.renewed != nil && one.renewed.due(x.config.Now(), x.config.TTL) {
		p.Expire(ctx, one.key, x.config.TTL)
	}
}

// outcome is what became of a write: the answers to its commands, none where it was not
// sent.
type outcome []redis.Cmder

// failure is the first error among the answers.
func (o outcome) failure() (kind Failure, err error) {
	for _, answer := range o {
		if kind, failed := failed(answer.Err()); failed {
			return kind, answer.Err()
		}
	}
	return 0, nil
}

// exchange does writes in one round trip and returns what became of each. It fails only
// where none of them was done and all are worth trying again.
func (x *Index) exchange(ctx context.Context, writes []write) ([]outcome, error) {
	ends := make([]int, len(writes))
	answers, err := x.store.pipeline(ctx, func(p redis.Pipeliner) {
		for i, one := range writes {
			x.send(ctx, p, one)
			ends[i] = p.Len()
		}
	})
	if err != nil {
		for _, one := range writes {
			one.renewed.forget()
		}
		return nil, err
	}
	outcomes := make([]outcome, len(writes))
	begin := 0
	for i, end := range ends {
		outcomes[i], begin = answers[begin:end], end
		if _, err := outcomes[i].failure(); err != nil {
			writes[i].renewed.forget()
		}
	}
	return outcomes, nil
}

// do does writes in one round trip, once.
func (x *Index) do(ctx context.Context, writes []write) error {
	outcomes, err := x.exchange(ctx, writes)
	if err != nil {
		return err
	}
	var failures []error
	for i, one := range outcomes {
		if _, err := one.failure(); err != nil {
			failures = append(failures, x.usable(ctx, writes[i].key, err))
		} else if writes[i].done != nil && len(one) > 0 {
			writes[i].done(one[0])
		}
	}
	return errors.Join(failures...)
}

// renewal is when a key's time to live was last set.
type renewal struct{ at atomic.Int64 }

// due reports whether it is to be set anew, which is soon enough once in a quarter of it.
func (r *renewal) due(now time.Time, ttl time.Duration) bool {
	last := r.at.Load()
	if last != 0 && now.UnixNano()-last < int64(ttl/4) {
		return false
	}
	r.at.Store(now.UnixNano())
	return true
}

// forget makes it due.
func (r *renewal) forget() {
	if r != nil {
		r.at.Store(0)
	}
}

// expireWrite sets a key's time to live.
func (x *Index) expireWrite(key string) write {
	return write{key: key, send: func(ctx context.Context, p redis.Pipeliner) { p.Expire(ctx, key, x.config.TTL) }}
}

// raiseWrite moves backends of a pool up in one of its sorted sets: of horizons, or of what
// was trimmed.
func raiseWrite(key string, renewed *renewal, to []redis.Z) write {
	return write{key: key, size: entrySize * (1 + len(to)), renewed: renewed, send: func(ctx context.Context, p redis.Pipeliner) {
		p.ZAddArgs(ctx, key, redis.ZAddArgs{GT: true, Members: to})
	}}
}

// horizonWrite moves a backend's horizon in Redis.
func (x *Index) horizonWrite(b *backend, at moment) write {
	return raiseWrite(b.home.horizons, &b.home.horizonsRenewed, []redis.Z{{Score: float64(at), Member: b.label}})
}

// trimmedWrite notes in Redis up to where a backend's sets were trimmed.
func (x *Index) trimmedWrite(b *backend, at moment) write {
	return raiseWrite(b.home.trimmed, &b.home.trimmedRenewed, []redis.Z{{Score: float64(at), Member: b.label}})
}

// unlinkWrite removes a set of a backend, whatever is there. The server frees a large one in
// the background.
func unlinkWrite(key string) write {
	return write{key: key, send: func(ctx context.Context, p redis.Pipeliner) { p.Unlink(ctx, key) }}
}

// streamWrite appends a message to a pool's stream, and lets go of old records. What is not
// done, others find missing (sequence.go).
func (x *Index) streamWrite(p *pool, message []byte) write {
	return write{
		key: p.stream, size: len(message), renewed: &p.renewed,
		send: func(ctx context.Context, pipe redis.Pipeliner) {
			args := &redis.XAddArgs{Stream: p.stream, Values: []any{streamField, message}}
			// By the server's own numbers, in case its clock was set.
			if newest := p.newest.Load(); newest > 0 {
				args.MinID, args.Approx = strconv.FormatInt(newest-streamKeep.Milliseconds(), 10), true
			}
			pipe.XAdd(ctx, args)
		},
		done: func(answer redis.Cmder) {
			if id, ok := answer.(*redis.StringCmd); ok {
				p.newest.Store(millisOf(id.Val()))
				p.written.Store(x.config.Now().UnixNano())
			}
		},
	}
}

// millisOf is the server's time in the id of a stream's record, in milliseconds since 1970.
func millisOf(id string) int64 {
	text, _, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return ms
}
