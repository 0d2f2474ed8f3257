package redisindex

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// leadFor is for how long a router leads that does not say so again, and leadEvery how often
	// it does.
	leadFor   = 15 * time.Second
	leadEvery = 4 * time.Second
	// leadMargin is how much earlier than Redis the leader takes its time to be over: clocks
	// do not go equally fast, and a reply takes a while.
	leadMargin = 3 * time.Second
)

// lead is which of several routers does what one of them should do: who has the lock.
type lead struct {
	wanted atomic.Bool
	until  atomic.Int64 // nanoseconds by this router's clock; 0 where it does not lead
	at     time.Time    // when it was last asked for; the keeper's
}

// SeekLead says whether this router is there to lead: one of those that are does, from now on or
// once the one that did is gone for [leadFor] and [leadEvery] at most.
func (x *Index) SeekLead(wanted bool) { x.lead.wanted.Store(wanted) }

// Leads reports whether this router leads. No other one does at the same time, but for [leadEvery] after
// Redis was emptied, or another server has taken its place that did not have the lock yet.
func (x *Index) Leads() bool { return x.config.Now().UnixNano() < x.lead.until.Load() }

// seekLead takes the lock, keeps it, or gives it up.
func (k *keeper) seekLead(ctx context.Context, now time.Time) {
	l := &k.lead
	if !l.wanted.Load() {
		if l.until.Swap(0) != 0 {
			k.yieldLead(ctx)
		}
		return
	}
	if now.Sub(l.at) < leadEvery {
		return
	}
	l.at = now
	key, mine, leads := k.names.lead(), strconv.FormatUint(k.replica, 36), false
	err := k.store.exchange(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		var err error
		if leads, err = client.SetNX(ctx, key, mine, leadFor).Result(); err != nil || leads {
			return err
		}
		leads, err = asHolder(ctx, client, key, mine, func(p redis.Pipeliner) error { return p.PExpire(ctx, key, leadFor).Err() })
		return err
	})
	switch {
	case err != nil: // it leads for as long as it said that it would
		_ = k.usable(ctx, key, err)
	case leads:
		l.until.Store(now.Add(leadFor - leadMargin).UnixNano())
	default:
		l.until.Store(0)
	}
}

// asHolder does something with a key as long as it holds a value, and reports whether it did.
func asHolder(ctx context.Context, client redis.UniversalClient, key, value string, do func(redis.Pipeliner) error) (done bool, err error) {
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		holds, err := tx.Get(ctx, key).Result()
		if errors.Is(err, redis.Nil) || err == nil && holds != value {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, do)
		done = err == nil
		return err
	}, key)
	if errors.Is(err, redis.TxFailedErr) { // it has changed meanwhile
		return false, nil
	}
	return done, err
}

// yieldLead lets another router lead at once, if that is quick.
func (k *keeper) yieldLead(ctx context.Context) {
	key, mine := k.names.lead(), strconv.FormatUint(k.replica, 36)
	_ = k.store.exchange(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		_, err := asHolder(ctx, client, key, mine, func(p redis.Pipeliner) error { return p.Del(ctx, key).Err() })
		return err
	})
}
