package redisindex

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/warmroute/warmroute/kvindex"
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

// write is one command that changes something, and is tried again until it is done.
type write struct {
	key  string
	send func(ctx context.Context, p redis.Pipeliner) redis.Cmder
	// since is the oldest use that is lost with it; 0: none.
	since kvindex.Stamp
	// done gets the answer; nil where nobody wants it.
	done  func(answer redis.Cmder)
	tries int
}

// scoreWrites add blocks to the sets of a backend, or move them up.
func (x *Index) scoreWrites(b *backend, g *gathered) []write {
	var members [shards][]redis.Z
	for key, score := range g.scores {
		shard := shardOf(key)
		members[shard] = append(members[shard], redis.Z{Score: float64(score), Member: member(key)})
	}
	var writes []write
	for shard, all := range members {
		set := b.sets[shard]
		for some := range slices.Chunk(all, maxMembers) {
			writes = append(writes, write{key: set, since: g.since, send: func(ctx context.Context, p redis.Pipeliner) redis.Cmder {
				return p.ZAddArgs(ctx, set, redis.ZAddArgs{GT: true, Members: some})
			}})
		}
		if len(all) > 0 && b.renewed[shard].due(x.config.Now(), x.config.TTL) {
			writes = append(writes, x.expireWrite(set))
		}
	}
	return writes
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
func (r *renewal) forget() { r.at.Store(0) }

func (x *Index) expireWrite(key string) write {
	return write{key: key, send: func(ctx context.Context, p redis.Pipeliner) redis.Cmder {
		return p.Expire(ctx, key, x.config.TTL)
	}}
}

// horizonWrites move a backend's horizon in Redis.
func (x *Index) horizonWrites(b *backend, at moment) []write {
	key := b.home.horizons
	return []write{
		{key: key, send: func(ctx context.Context, p redis.Pipeliner) redis.Cmder {
			return p.ZAddArgs(ctx, key, redis.ZAddArgs{GT: true, Members: []redis.Z{{Score: float64(at), Member: b.label}}})
		}},
		x.expireWrite(key),
	}
}

// forgetWrites take a backend out of Redis.
func (x *Index) forgetWrites(b *backend) []write {
	writes := []write{{key: x.names.backends(), send: func(ctx context.Context, p redis.Pipeliner) redis.Cmder {
		return p.ZRem(ctx, x.names.backends(), b.listed())
	}}}
	for _, set := range b.sets {
		writes = append(writes, unlinkWrite(set))
	}
	return writes
}

// unlinkWrite removes a key, whatever is there. The server frees a large one in the background.
func unlinkWrite(key string) write {
	return write{key: key, send: func(ctx context.Context, p redis.Pipeliner) redis.Cmder {
		return p.Unlink(ctx, key)
	}}
}

// streamWrites append messages to a pool's stream.
func (x *Index) streamWrites(p *pool, messages [][]byte, since kvindex.Stamp) []write {
	var writes []write
	for _, m := range messages {
		writes = append(writes, x.streamWrite(p, m, since))
	}
	if len(writes) > 0 && p.renewed.due(x.config.Now(), x.config.TTL) {
		writes = append(writes, x.expireWrite(p.stream))
	}
	return writes
}

// streamWrite appends a message, and lets go of old records.
func (x *Index) streamWrite(p *pool, message []byte, since kvindex.Stamp) write {
	return write{
		key: p.stream, since: since,
		send: func(ctx context.Context, pipe redis.Pipeliner) redis.Cmder {
			args := &redis.XAddArgs{Stream: p.stream, Values: []any{streamField, message}}
			// By the server's own numbers, in case its clock was set.
			if newest := p.newest.Load(); newest > 0 {
				args.MinID, args.Approx = strconv.FormatInt(newest-streamKeep.Milliseconds(), 10), true
			}
			return pipe.XAdd(ctx, args)
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
