package redisindex

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// sharer makes a replica that shares the settings of the pool "pool", and runs it.
func sharer(t *testing.T, address string) (*replica, <-chan string) {
	t.Helper()
	r := prepare(t, address)
	news := make(chan string, 64)
	r.ShareSettings([]string{"pool", "other"}, func(pool string) { news <- pool })
	r.run()
	return r, news
}

// backdate makes what was set here and not told yet so much older.
func (s *settings) backdate(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, changes := range s.fresh {
		for name, one := range changes {
			changes[name] = change{one.value, one.at.Add(-d)}
		}
	}
}

// awaitSettings waits until a replica has these settings.
func (r *replica) awaitSettings(want map[string]string) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("the settings are %v", want), func() bool { return maps.Equal(r.Settings("pool"), want) })
}

// Of what is set for one name the latest counts, on every router, also on one that starts
// later, whatever order it comes in.
func TestSettingsAreShared(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, _ := sharer(t, server.Addr)
	b, news := sharer(t, server.Addr)
	a.Set("pool", map[string]string{"strategy": "RANDOM", "w": "3"})
	if got := a.Settings("pool"); !maps.Equal(got, map[string]string{"strategy": "RANDOM", "w": "3"}) {
		t.Errorf("at once: %v", got)
	}
	b.awaitSettings(map[string]string{"strategy": "RANDOM", "w": "3"})
	if pool := <-news; pool != "pool" {
		t.Errorf("news of %q", pool)
	}
	b.Set("pool", map[string]string{"strategy": "PREFIX_HASH", "w": ""})
	a.awaitSettings(map[string]string{"strategy": "PREFIX_HASH"})
	a.Set("pool", map[string]string{"strategy": "RANDOM"}) // the same as once before
	b.awaitSettings(map[string]string{"strategy": "RANDOM"})
	c, _ := sharer(t, server.Addr)
	c.awaitSettings(map[string]string{"strategy": "RANDOM"})
	if got := c.Settings("other"); len(got) != 0 {
		t.Errorf("another pool has %v", got)
	}
	await(t, "what was replaced is gone", func() bool {
		return server.Do("ZCARD", "warmroute:settings:{pool}").(int64) == 2 // the strategy, and that w is not set
	})
	if ttl := server.Do("TTL", "warmroute:settings:{pool}").(int64); ttl < 29*24*3600 {
		t.Errorf("they stay for %d s", ttl)
	}
}

// Settings outlive the routers, and a Redis that is emptied as long as one router runs.
func TestSettingsOutlive(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	first, _ := sharer(t, server.Addr)
	first.awaitClock()
	first.Set("pool", map[string]string{"strategy": "RANDOM"})
	first.stop() // which writes it
	second, _ := sharer(t, server.Addr)
	second.awaitSettings(map[string]string{"strategy": "RANDOM"})
	server.Do("FLUSHALL")
	await(t, "they are written again", func() bool { return server.Do("ZCARD", "warmroute:settings:{pool}").(int64) == 1 })
}

// awaitClock waits until a replica without backends knows the time.
func (r *replica) awaitClock() {
	r.t.Helper()
	await(r.t, "it is connected", func() bool { return r.clock.fleetNow() != 0 })
}

// What is set while Redis is away holds at once, and is shared when Redis is there; what
// was set later elsewhere counts.
func TestSettingsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	a, _ := sharer(t, server.Addr)
	a.Set("pool", map[string]string{"strategy": "RANDOM", "w": "3"})
	a.settings.backdate(time.Second) // or the two are as far apart as clocks differ
	b, _ := sharer(t, server.Addr)
	b.Set("pool", map[string]string{"strategy": "PREFIX_HASH"})
	if got := b.Settings("pool"); !maps.Equal(got, map[string]string{"strategy": "PREFIX_HASH"}) {
		t.Errorf("without Redis: %v", got)
	}
	server.Start()
	both := map[string]string{"strategy": "PREFIX_HASH", "w": "3"}
	a.awaitSettings(both)
	b.awaitSettings(both)
	server.Stop()
	began := time.Now()
	b.Set("pool", map[string]string{"w": "4"})
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("it waited for Redis: %v", took)
	}
	server.Continue()
	both["w"] = "4"
	a.awaitSettings(both)
}

// What is no setting of this version, or comes from the future, is left alone and ignored;
// a key of another type gives way.
func TestForeignSettings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const key = "warmroute:settings:{pool}"
	server.Do("ZADD", key, 5, "2 strategy x y z", 6, "", 7, "1 w", "1e300", "1 w 9", "-1", "1 prefix_length 3", 8, "1 strategy RANDOM")
	server.Do("SET", "warmroute:settings:{other}", "mine")
	a, news := sharer(t, server.Addr)
	a.awaitSettings(map[string]string{"strategy": "RANDOM"})
	<-news
	a.Set("other", map[string]string{"w": "2"})
	await(t, "the foreign key has given way", func() bool { return server.Do("TYPE", "warmroute:settings:{other}") == "zset" })
	if n := server.Do("ZCARD", key).(int64); n != 6 {
		t.Errorf("%d members are left of 6", n)
	}
}

// However routers learn of settings, in whatever order and how often, they end alike.
func TestSettingsConverge(t *testing.T) {
	const pool, now = "pool", moment(1 << 40)
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Uint8()).Draw(t, "values")
		order := rapid.SliceOf(rapid.Uint8()).Draw(t, "order")
		var all []redis.Z
		for i, v := range values {
			one := setting{value: string('a' + rune(v%3)), at: moment(1 + i/2)}
			all = append(all, redis.Z{Score: float64(one.at), Member: one.member(string('x' + rune(v/3%2)))})
		}
		var a, b settings
		a.learn(pool, all, now)
		for _, i := range order {
			if len(all) > 0 {
				b.learn(pool, all[int(i)%len(all):][:1], now)
			}
		}
		for i := len(all); i > 0; i-- {
			b.learn(pool, all[i-1:i], now)
		}
		missing, _, news := b.learn(pool, all, now)
		if !maps.Equal(a.known[pool], b.known[pool]) || len(missing) > 0 || news {
			t.Errorf("one knows %v, the other %v and misses %v, news %v", a.known, b.known, missing, news)
		}
	})
}

// Whatever is read, what is taken for a setting is written the same way.
func FuzzParseSetting(f *testing.F) {
	for _, seed := range []string{"1 strategy RANDOM", "1 w ", "1  x", "2 w 3", "", "1 a b c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, value, ok := parseSetting(text)
		if !ok {
			return
		}
		if again := (setting{value: value}).member(name); again != text {
			t.Errorf("%q is written %q", text, again)
		}
	})
}
