package redisindex

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
	"github.com/warmroute/warmroute/router"
)

// TestPinsAreShared: what one router pins, moves and lets go, another hears of at once, and one
// that comes later finds where it was last.
func TestPinsAreShared(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var here, there, later fleet
	a, b := launchFor(t, &here, server.Addr), launchFor(t, &there, server.Addr)
	for _, r := range []*replica{a, b} {
		r.add("b1:80")
		r.add("b2:80")
		r.awaitShared()
	}
	heard := func(f *fleet, key router.PinKey, want string) {
		t.Helper()
		await(t, "the pin is heard of", func() bool {
			got, ok := f.pinned("pool", key)
			return ok && got == want
		})
	}
	a.Pin("pool", 7, "b1:80", time.Now())
	a.Pin("pool", 8, "b1:80", time.Now())
	heard(&there, 7, "b1:80")
	a.Pin("pool", 7, "b2:80", time.Now())
	heard(&there, 7, "b2:80")
	a.Pin("pool", 8, "", time.Now())
	heard(&there, 8, "")
	a.Pin("pool", 9, "nobody:80", time.Now())
	a.Pin("nowhere", 10, "b1:80", time.Now())
	if _, told := here.pinned("pool", 7); told {
		t.Error("a router is told what it said itself")
	}

	c := launchFor(t, &later, server.Addr)
	c.add("b2:80")
	c.add("b1:80")
	heard(&later, 7, "b2:80")
	heard(&later, 8, "")
	if _, ok := later.pinned("pool", 9); ok {
		t.Error("a pin to nobody is told")
	}

	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	if ttl := client.PTTL(t.Context(), a.names.pins("pool")).Val(); ttl <= 0 || ttl > pinTTL {
		t.Errorf("the pins stay for %v", ttl)
	}
}

// TestPinsAreTrimmed: no more are kept than routers remember, nor longer.
func TestPinsAreTrimmed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	ctx, key := context.Background(), "pins"
	now := moment(time.Now().UnixMicro())
	for from := 0; from < maxPins+500; from += 1000 {
		var some []redis.Z
		for i := from; i < min(from+1000, maxPins+500); i++ {
			at := now.before(time.Duration(i) * time.Millisecond)
			if i < 100 {
				at = now.before(pinTTL + time.Minute)
			}
			some = append(some, redis.Z{Score: float64(at), Member: pin{key: router.PinKey(i + 1), backend: "b1:80"}.member()})
		}
		if err := client.ZAdd(ctx, key, some...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, key, redis.Z{Score: float64(now.after(2 * future)), Member: pin{key: 1, backend: "ahead:80"}.member()})
		trimPinsWrite(key, now).send(ctx, p)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := client.ZCard(ctx, key).Val(); n != maxPins {
		t.Errorf("%d pins are left, want %d", n, maxPins)
	}
	oldest := client.ZRangeWithScores(ctx, key, 0, 0).Val()
	if p, ok := parsePin(oldest[0]); !ok || p.at < now.before(pinTTL) {
		t.Errorf("the oldest is %+v", p)
	}
}

func TestPinsThatWaitAreBounded(t *testing.T) {
	q, p := newQueue(), new(pool)
	for i := range maxPinned {
		if !q.pin(pinPlace{p, router.PinKey(i + 1)}, pinned{backend: "b"}) {
			t.Fatalf("pin %d does not fit", i)
		}
	}
	if q.pin(pinPlace{p, maxPinned + 1}, pinned{}) || !q.pin(pinPlace{p, 1}, pinned{backend: "c"}) {
		t.Error("one more fits, or one that waits cannot move")
	}
	if all := q.takePins(); len(all) != maxPinned || all[pinPlace{p, 1}].backend != "c" || len(q.takePins()) != 0 {
		t.Errorf("%d waited", len(all))
	}
	for _, z := range []redis.Z{{}, {Member: "short"}, {Member: "\x00\x00\x00\x00\x00\x00\x00\x00b"}, {Member: string(make([]byte, maxLabel+9))}} {
		if p, ok := parsePin(z); ok {
			t.Errorf("%v is taken for %+v", z, p)
		}
	}
}
