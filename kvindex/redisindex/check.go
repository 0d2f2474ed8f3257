package redisindex

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is what a [Check] found.
type Server struct {
	// Version is the server's, empty where it does not say.
	Version string
	// ClockOffset is what its clock is ahead of this machine's.
	ClockOffset time.Duration
	// Warnings are what works and is not good.
	Warnings []string
}

// minVersion is the oldest version that the index is tested with.
const minVersion = 7

// Check connects once and tries what a router does. The error says in words what is wrong,
// and with which setting.
func Check(ctx context.Context, c Config) (Server, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return Server{}, err
	}
	logClient(c)
	client := c.newClient(maxConnections)
	defer client.Close()
	n := newNames(c.Namespace)
	var found Server
	clock := newClock(c.Now)
	if _, err := clock.measure(ctx, client, n.backends()); err != nil {
		return found, c.explain("connecting", err)
	}
	found.ClockOffset, _ = clock.offset()
	if err := try(ctx, client, n.prefix+"{check}:"+strconv.FormatInt(c.Now().UnixNano(), 36)); err != nil {
		return found, c.explain("writing", err)
	}
	info := facts(ctx, client)
	found.Version = info["redis_version"]
	if major, _, _ := strings.Cut(found.Version, "."); found.Version != "" {
		if number, err := strconv.Atoi(major); err == nil && number < minVersion {
			found.Warnings = append(found.Warnings, fmt.Sprintf("version %s is older than %d.0, which the index is tested with", found.Version, minVersion))
		}
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" && info["maxmemory"] != "0" {
		found.Warnings = append(found.Warnings, fmt.Sprintf("maxmemory-policy is %s: when memory is full, whole parts of the index are evicted; noeviction is better", policy))
	}
	return found, nil
}

// try does what a router does, under keys of its own that go away by themselves.
func try(ctx context.Context, client redis.UniversalClient, key string) error {
	set, stream := key+":set", key+":stream"
	answers, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAddArgs(ctx, set, redis.ZAddArgs{GT: true, Members: []redis.Z{{Score: 1, Member: "m"}}})
		p.Expire(ctx, set, MinTTL)
		p.ZRangeWithScores(ctx, set, 0, -1)
		p.ZRangeByScore(ctx, set, &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: 1})
		p.ZRemRangeByScore(ctx, set, "-inf", "0")
		p.ZScore(ctx, set, "m")
		p.ZCard(ctx, set)
		p.PTTL(ctx, set)
		p.ZRem(ctx, set, "m")
		p.SetNX(ctx, key, "1", MinTTL)
		p.GetEx(ctx, key, MinTTL)
		p.XAdd(ctx, &redis.XAddArgs{Stream: stream, MinID: "1", Approx: true, Values: []any{streamField, "x"}})
		p.Expire(ctx, stream, MinTTL)
		p.XRangeN(ctx, stream, "-", "+", 1)
		p.XRevRangeN(ctx, stream, "+", "-", 1)
		p.XRead(ctx, &redis.XReadArgs{Streams: []string{stream, "0"}, Count: 1, Block: -1})
		p.Unlink(ctx, set)
		p.Unlink(ctx, stream)
		p.Unlink(ctx, key)
		return nil
	})
	if kind, failed := failed(err); failed && kind == Unreachable {
		return err
	}
	for _, answer := range answers {
		if _, failed := failed(answer.Err()); failed {
			return fmt.Errorf("%s: %w", strings.ToUpper(answer.Name()), answer.Err())
		}
	}
	if err := client.Set(ctx, key, "1", MinTTL).Err(); err != nil {
		return err
	}
	_, err = removeForeign(ctx, client, key)
	return err
}

// facts are what a server says of itself, by name; none where it does not.
func facts(ctx context.Context, client redis.UniversalClient) map[string]string {
	all := make(map[string]string)
	for _, section := range []string{"server", "memory"} {
		text, err := client.Info(ctx, section).Result()
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			all[name] = value
		}
	}
	return all
}

// explain says what a failure means.
func (c Config) explain(doing string, err error) error {
	kind, _ := failed(err)
	hint := kind.hint()
	if c.SentinelMaster != "" && kind == Unreachable {
		hint = "do the sentinels answer, and know a primary named " + strconv.Quote(c.SentinelMaster) + " (redis.sentinel_master)?"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in time")
	}
	return fmt.Errorf("redis at %s: %s: %w: %s", strings.Join(c.Addresses, ", "), doing, err, hint)
}
