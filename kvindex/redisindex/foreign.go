package redisindex

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// usable returns an error, after it has removed what of a wrong type is kept under a key
// of ours, where that is what the error says.
func (x *Index) usable(ctx context.Context, key string, err error) error {
	if kind, failed := failed(err); !failed || kind != WrongType {
		return err
	}
	removed := false
	failure := x.store.exchange(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		var err error
		removed, err = removeForeign(ctx, client, key)
		return err
	})
	if removed {
		x.counts.replaced.Add(1)
		x.config.Logger.Warn("redis: something else was kept under a key of ours; it is removed", slog.String("key", key))
		x.repair(key)
	}
	return errors.Join(err, failure)
}

// repair has what this router knows written again to a key of ours that was somebody else's,
// with a time to live.
func (x *Index) repair(key string) {
	x.unlisted.Store(true) // what the backends are, their horizons, and what was trimmed
	for _, p := range x.allPools() {
		if key == p.stream {
			p.renewed.forget()
		}
	}
	for _, b := range x.all() {
		if shard := slices.Index(b.sets[:], key); shard >= 0 {
			b.renewed[shard].forget()
			x.tasks.add(b, task{rewrite: true})
		}
	}
}

// removeForeign removes a key if it is not of the type that it should be. Between the look
// and the removal another router may have replaced it already: then it stays.
func removeForeign(ctx context.Context, client redis.UniversalClient, key string) (removed bool, err error) {
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		kind, err := tx.Type(ctx, key).Result()
		if err != nil || kind == typeOf(key) || kind == "none" {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Unlink(ctx, key)
			return nil
		})
		removed = err == nil
		return err
	}, key)
	if errors.Is(err, redis.TxFailedErr) {
		return false, nil
	}
	return removed, err
}

// typeOf is what a key of ours should be.
func typeOf(key string) string {
	switch {
	case strings.HasSuffix(key, "}:stream"):
		return "stream"
	case strings.HasSuffix(key, "}:epoch"):
		return "string"
	}
	return "zset"
}
