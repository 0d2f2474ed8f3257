package redisindex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/indextest"
	"github.com/warmroute/warmroute/router"
	"pgregory.net/rapid"
)

func TestConfigValidate(t *testing.T) {
	good := DefaultConfig()
	good.Addresses = []string{"redis:6379"}
	for _, tc := range []struct {
		change func(*Config)
		want   string // what the error begins with; empty: none
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.Addresses = nil }, "addresses: none"},
		{func(c *Config) { c.Addresses[0] = "redis" }, `addresses[0]: "redis"`},
		{func(c *Config) { c.Addresses[0] = ":6379" }, `addresses[0]: ":6379"`},
		{func(c *Config) { c.Addresses[0] = "redis://:secret@host" }, "addresses[0]: is a URL"},
		{func(c *Config) { c.Addresses[0] = "rediss://host:6379" }, "addresses[0]: is a URL"},
		{func(c *Config) { c.Addresses[0] = "user:secret@host:6379" }, "addresses[0]: is a URL, or has credentials"},
		{func(c *Config) { c.Addresses[0] = "secret@host:6379" }, "addresses[0]: is a URL, or has credentials"},
		{func(c *Config) { c.Addresses = []string{"a:1", "b:2"} }, "addresses: there are 2"},
		{func(c *Config) { c.Addresses, c.Cluster = []string{"a:1", "b:2"}, true }, ""},
		{func(c *Config) { c.Addresses, c.SentinelMaster = []string{"a:1", "b:2"}, "m" }, ""},
		{func(c *Config) { c.Cluster, c.SentinelMaster = true, "m" }, "cluster: "},
		{func(c *Config) { c.Cluster, c.DB = true, 1 }, "db: 1"},
		{func(c *Config) { c.DB = -1 }, "db: -1"},
		{func(c *Config) { c.SentinelPassword = "x" }, "sentinel_master: "},
		{func(c *Config) { c.Namespace = "a{b" }, "namespace: "},
		{func(c *Config) { c.Namespace = "" }, "namespace: "},
		{func(c *Config) { c.TTL = MinTTL }, ""},
		{func(c *Config) { c.TTL = MinTTL - 1 }, "ttl: "},
	} {
		c := good
		c.Addresses = []string{"redis:6379"}
		tc.change(&c)
		err := c.Validate()
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%+v: got %v, want %q", c, err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a password is shown: %v", err)
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, tc := range []struct {
		name      string
		want      place
		firstSet  string
		poolsKeys string
	}{
		{
			"default 10.0.0.1:8000 http://10.0.0.1:8000",
			place{"default", "10.0.0.1:8000", "10.0.0.1:8000"},
			"ns:1:{default/0}:10.0.0.1:8000", "ns:1:{default}:stream",
		},
		{
			"p b1:80#3 http://b1:80",
			place{"p", "b1:80#3", "b1:80#3"},
			"ns:1:{p/0}:b1:80#3", "ns:1:{p}:stream",
		},
		{
			"p b1:443 https://b1",
			place{"p", "b1:443", "b1:443|https://b1"},
			"ns:1:{p/0}:b1:443|https://b1", "ns:1:{p}:stream",
		},
		{
			"a{b}%c b1:80/x y http://b1/x%20y",
			place{"a{b}%c", "b1:80/x y", "b1:80/x%20y|http://b1/x%2520y"},
			"ns:1:{a%7Bb%7D%25c/0}:b1:80/x%20y|http://b1/x%2520y", "ns:1:{a%7Bb%7D%25c}:stream",
		},
		{"b1", place{"", "b1", "b1"}, "ns:1:{/0}:b1", "ns:1:{}:stream"},
	} {
		got := placeOf(tc.name)
		if got != tc.want {
			t.Errorf("%q: got %+v, want %+v", tc.name, got, tc.want)
		}
		n := newNames("ns")
		if key := n.sets(got)[0]; key != tc.firstSet {
			t.Errorf("%q: set %q, want %q", tc.name, key, tc.firstSet)
		}
		if key := n.stream(got.pool); key != tc.poolsKeys {
			t.Errorf("%q: stream %q, want %q", tc.name, key, tc.poolsKeys)
		}
	}
}

func TestMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := kvindex.Key(rapid.Uint64().Draw(t, "key"))
		if got, ok := parseMember(member(key)); !ok || got != key || len(member(key)) != 8 {
			t.Fatalf("%x came back as %x, %v", key, got, ok)
		}
	})
	for _, m := range []string{"", "1234567", "123456789"} {
		if _, ok := parseMember(m); ok {
			t.Errorf("%q is taken for a block", m)
		}
	}
}

// reply is an error reply of a server.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		err    error
		kind   Failure
		failed bool
	}{
		{nil, 0, false},
		{redis.Nil, 0, false},
		{context.DeadlineExceeded, Unreachable, true},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, Unreachable, true},
		{reply("LOADING Redis is loading the dataset in memory"), Unready, true},
		{fmt.Errorf("wrapped: %w", reply("CLUSTERDOWN Hash slot not served")), Unready, true},
		{reply("READONLY You can't write against a read only replica."), ReadOnly, true},
		{reply("OOM command not allowed"), OutOfMemory, true},
		{reply("MISCONF Redis is configured to save"), OutOfMemory, true},
		{reply("NOAUTH Authentication required."), Denied, true},
		{reply("WRONGPASS invalid username-password pair"), Denied, true},
		{reply("NOPERM this user has no permissions"), Denied, true},
		{reply("WRONGTYPE Operation against a key"), WrongType, true},
		{reply("ERR unknown command"), Refused, true},
	} {
		kind, failed := failed(tc.err)
		if failed != tc.failed || failed && kind != tc.kind {
			t.Errorf("%v: got %v, %v, want %v, %v", tc.err, kind, failed, tc.kind, tc.failed)
		}
	}
	for _, kind := range Failures() {
		if got, want := kind.passes(), kind != WrongType && kind != Refused; got != want {
			t.Errorf("%v passes by itself: %v", kind, got)
		}
	}
}

func TestQueueIsBounded(t *testing.T) {
	q, b := newQueue(), new(backend)
	long := make([]kvindex.Key, 2*maxPublished)
	fit := 0
	for q.add(b, long, 1, 0) {
		fit++
	}
	if want := maxQueuedKeys / maxPublished; fit != want {
		t.Errorf("%d long uses fit, want %d", fit, want)
	}
	for n := fit; n > 0; {
		batch, _ := q.take()
		if len(batch) != batchKeys/maxPublished && len(batch) != n {
			t.Fatalf("a batch of %d long uses, want %d", len(batch), batchKeys/maxPublished)
		}
		n -= len(batch)
	}
	short := []kvindex.Key{1}
	for i := range maxQueued {
		if !q.add(b, short, kvindex.Stamp(i), 0) {
			t.Fatalf("use %d does not fit", i)
		}
	}
	short[0] = 2 // the queue has its own
	if q.add(b, short, 0, 0) {
		t.Error("one more fits")
	}
	if got, _ := q.take(); len(got) != batchRecords || got[0].last != 0 || got[0].keys[0] != 1 {
		t.Errorf("a batch of %d, the first %+v", len(got), got[0])
	}
	if q.len() != maxQueued-batchRecords || !q.add(b, short, 0, 0) {
		t.Errorf("%d wait", q.len())
	}
}

// TestQueuedPromises: what is promised and what has become of it are told in order, and a
// promise that has ended meanwhile is not told at all.
func TestQueuedPromises(t *testing.T) {
	q, b, keys := newQueue(), new(backend), []kvindex.Key{1, 2}
	kept, broken, open := q.promise(b, keys, 10), q.promise(b, keys, 11), q.promise(b, keys, 12)
	q.add(b, keys, 20, kept)
	q.withdraw(broken)
	uses, ends := q.take()
	if len(ends) != 0 || len(uses) != 2 || uses[0].promise != open || uses[1].promise != 0 || uses[1].last != 20 {
		t.Errorf("what ended at once: %+v, %+v", uses, ends)
	}
	q.withdraw(open)
	q.withdraw(open)
	q.withdraw(0)
	if uses, ends = q.take(); len(uses) != 0 || len(ends) != 1 || ends[0] != (ended{b, open, false}) {
		t.Errorf("then: %+v, %+v", uses, ends)
	}
	if len(q.open) != 0 || q.keys != 0 {
		t.Errorf("%d promises are open, %d keys wait", len(q.open), q.keys)
	}
	// More than a batch: no end is told before its promise may have been.
	first := q.promise(b, keys, 30)
	for range batchRecords {
		q.promise(b, keys, 31)
	}
	q.withdraw(first)
	if uses, ends = q.take(); len(uses) != batchRecords || len(ends) != 0 {
		t.Errorf("a batch of %d, %d ends", len(uses), len(ends))
	}
	if uses, ends = q.take(); len(uses) != 1 || len(ends) != 1 || ends[0].promise != first {
		t.Errorf("the rest: %d, %+v", len(uses), ends)
	}
	// What does not fit is no promise.
	for q.promise(b, keys, 40) != 0 {
	}
	if q.len() != maxQueued/2 || !q.add(b, keys, 41, 0) {
		t.Errorf("%d wait: what was seen must have room beside what is promised", q.len())
	}
}

// TestPromisedIsBounded: promises are remembered as long as there is room and they are young.
func TestPromisedIsBounded(t *testing.T) {
	var s promised
	start := time.Unix(1000, 0)
	for i := range maxPromised {
		if !s.room(1) {
			t.Fatalf("no room for promise %d", i)
		}
		s.add(&promise{promiseOf: promiseOf{7, kvindex.Promise(i + 1)}, keys: make([]kvindex.Key, 1), came: start.Add(time.Duration(i))})
	}
	if s.room(1) {
		t.Error("there is room for one more")
	}
	if s.end(promiseOf{8, 1}) != nil || s.end(promiseOf{7, 2}) == nil || s.end(promiseOf{7, 2}) != nil {
		t.Error("a promise ends once, and is the one of its router")
	}
	if !s.room(1) || s.room(maxPromisedKeys) {
		t.Error("there is room for one more, of few keys")
	}
	if old := s.old(start.Add(3)); len(old) != 2 || old[0].number != 1 || old[1].number != 3 {
		t.Errorf("the oldest are %v", old)
	}
	if old := s.old(start.Add(time.Second)); len(old) != maxPromised-3 || s.keys != 0 || len(s.order) != 0 {
		t.Errorf("%d more, %d keys are left", len(old), s.keys)
	}
}

// TestGather compares what a batch comes to with every use on its own.
func TestGather(t *testing.T) {
	chains := make([][]kvindex.Key, 0, 8)
	for member := range 8 {
		chains = append(chains, indextest.Chain("f", fmt.Sprint(member), 2+3*member, 30))
	}
	two := []*backend{{place: place{label: "a"}}, {place: place{label: "b"}}}
	gone := &backend{place: place{label: "gone"}}
	gone.gone.Store(true)
	rapid.Check(t, func(t *rapid.T) {
		want := map[*backend]map[kvindex.Key]moment{}
		memory := map[string]*kvindex.Memory{"a": kvindex.NewMemory(kvindex.MemoryConfig{}), "b": kvindex.NewMemory(kvindex.MemoryConfig{})}
		var uses []use
		for range rapid.IntRange(1, 20).Draw(t, "uses") {
			b := rapid.SampledFrom([]*backend{two[0], two[1], gone}).Draw(t, "backend")
			keys := rapid.SampledFrom(chains).Draw(t, "chain")
			keys = keys[:rapid.IntRange(1, len(keys)).Draw(t, "length")]
			last := kvindex.Stamp(rapid.IntRange(1, 50).Draw(t, "last")) * 1_000_000
			uses = append(uses, use{backend: b, keys: keys, last: last})
			if b == gone {
				continue
			}
			if want[b] == nil {
				want[b] = map[kvindex.Key]moment{}
			}
			for i, key := range keys {
				want[b][key] = max(want[b][key], scoreOf(moment(last/1000), i))
			}
		}
		all := gather(uses, conversion{now: maxMoment})
		got := map[*backend]map[kvindex.Key]moment{}
		for b, g := range all {
			got[b] = g.scores
			before := moment(0)
			for _, c := range g.chains {
				if c.last < before || c.backend != b.label {
					t.Fatalf("chain of %s at %d after %d", c.backend, c.last, before)
				}
				before = c.last
				h, _ := memory[b.label].Add("x")
				memory[b.label].Record(h, c.keys, kvindex.Stamp(c.last), kvindex.Observed)
			}
		}
		if len(want) != len(got) {
			t.Fatalf("%d backends, want %d", len(got), len(want))
		}
		for b := range want {
			if diff := cmp.Diff(want[b], got[b]); diff != "" {
				t.Fatalf("scores (-want +got):\n%s", diff)
			}
			h, _ := memory[b.label].Add("x")
			if n := memory[b.label].Stats(h).Blocks; n != len(want[b]) {
				t.Fatalf("the chains that are told have %d blocks, want %d", n, len(want[b]))
			}
		}
	})
}

// TestClock: fleet time goes on with the monotonic clock, whatever the wall clock does.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		skew := 3 * time.Hour
		c := newClock(func() time.Time { return time.Now().Add(skew) })
		if _, ok := c.conversion(); ok || c.fleetNow() != 0 {
			t.Fatal("a clock that was never compared knows fleet time")
		}
		c.measured.Store(&measurement{local: c.now(), fleet: time.Now()})
		fleet := func() time.Time { return time.UnixMicro(int64(c.fleetNow())) }
		if !fleet().Equal(time.Now()) {
			t.Errorf("fleet time %v, want %v", fleet(), time.Now())
		}
		v, _ := c.conversion()
		at := c.now()
		if got := v.localTime(v.fleetTime(at)); !got.Equal(at) {
			t.Errorf("%v came back as %v", at, got)
		}
		if got := v.localTime(v.fleetTime(time.Time{})); !got.IsZero() {
			t.Errorf("no time came back as %v", got)
		}
		time.Sleep(time.Second)
		if !fleet().Equal(time.Now()) {
			t.Errorf("a second later: fleet time %v, want %v", fleet(), time.Now())
		}
	})
	for score, want := range map[float64]moment{-1: 0, 0: 0, 5: 5, 1e300: maxMoment, 1e15: 1e15} {
		if got := momentOf(score); got != want {
			t.Errorf("score %v: got %d, want %d", score, got, want)
		}
	}
}

func TestTeller(t *testing.T) {
	one, two := &pool{name: "one"}, &pool{name: "two"}
	pools := map[string]*pool{"one": one, "two": two}
	busy := router.Load{Pool: "one", Backend: "b1:80", InFlight: 3, Backlog: feedback.Backlog{Tokens: 9, Began: time.UnixMicro(77)}, PrefillRate: 5}
	busier := busy
	busier.InFlight++
	var teller teller
	for _, tc := range []struct {
		at    time.Duration
		loads []router.Load
		want  map[*pool]int // loads in each report
	}{
		{0, nil, map[*pool]int{one: 0, two: 0}},
		{100, nil, map[*pool]int{}},
		{200, []router.Load{busy, {Pool: "nobody", Backend: "x"}}, map[*pool]int{one: 1}},
		{220, []router.Load{busy}, map[*pool]int{}},
		{240, []router.Load{busier}, map[*pool]int{one: 1}}, // what has changed
		{260, nil, map[*pool]int{one: 1}},                   // it went
		{280, []router.Load{busy}, map[*pool]int{one: 1}},
		{300, []router.Load{busy}, map[*pool]int{one: 1}},
		{400, nil, map[*pool]int{one: 0}}, // that it is over is told at once
		{500, nil, map[*pool]int{two: 0}},
		{600, nil, map[*pool]int{}},
		{900, nil, map[*pool]int{one: 0}},
	} {
		own := &ownReport{at: time.UnixMilli(1000).Add(tc.at * time.Millisecond), loads: tc.loads}
		all := teller.reports(own, pools, conversion{now: maxMoment})
		got := map[*pool]int{}
		for p, r := range all {
			got[p] = len(r.loads)
			if r.at != moment(own.at.UnixMicro()) {
				t.Errorf("after %v: the report is of %d", tc.at, r.at)
			}
			want := load{backend: "b1:80"}
			if len(tc.loads) > 0 {
				want = load{backend: "b1:80", inFlight: tc.loads[0].InFlight, tokens: 9, began: 77, rate: 5}
			}
			if len(r.loads) == 1 && r.loads[0] != want {
				t.Errorf("after %v: %+v, want %+v", tc.at, r.loads[0], want)
			}
			if changes := 200 < tc.at && tc.at < 300; r.whole == changes {
				t.Errorf("after %v: whole is %v", tc.at, r.whole)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("after %v ms (-want +got):\n%s", int(tc.at), diff)
		}
		if again := teller.reports(own, pools, conversion{now: maxMoment}); len(again) != 0 {
			t.Errorf("after %v: told twice", tc.at)
		}
	}
}

func TestHearing(t *testing.T) {
	var s hearing
	start := time.Unix(1000, 0)
	if got := s.sharing(start); got != router.Alone {
		t.Errorf("at first: %v", got)
	}
	s.echoed(start)
	s.echoed(start.Add(-time.Second)) // what was true before is no news
	for _, tc := range []struct {
		after time.Duration
		want  router.Sharing
	}{{0, router.Fresh}, {freshFor, router.Fresh}, {freshFor + 1, router.Alone}} {
		if got := s.sharing(start.Add(tc.after)); got != tc.want {
			t.Errorf("alone in the world, %v after the last echo: %v, want %v", tc.after, got, tc.want)
		}
	}
	s.heardOf(start)
	for _, tc := range []struct {
		after time.Duration
		want  router.Sharing
	}{{freshFor, router.Fresh}, {freshFor + 1, router.Cut}, {peersFor, router.Cut}, {peersFor + 1, router.Alone}} {
		if got := s.sharing(start.Add(tc.after)); got != tc.want {
			t.Errorf("%v after another router was heard: %v, want %v", tc.after, got, tc.want)
		}
	}
}

// TestWorstPool: an index is as well shared as the pool that is worst off, except that one
// which came a moment ago does not count yet.
func TestWorstPool(t *testing.T) {
	now := time.Unix(1000, 0)
	x, err := New(Config{Addresses: []string{"redis:6379"}, Now: func() time.Time { return now }}, kvindex.NewMemory(kvindex.MemoryConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	add := func(name string) *pool {
		if _, err := x.Add(name + " b1:80 http://b1:80"); err != nil {
			t.Fatal(err)
		}
		return x.allPools()[name]
	}
	one, two := add("one"), add("two")
	want := func(what string, worst router.Sharing, echo time.Time, behind ...string) {
		t.Helper()
		got := x.hears(now)
		names := got.behind()
		slices.Sort(names)
		if got.worst != worst || !got.echo.Equal(echo) || !slices.Equal(names, behind) {
			t.Errorf("%s: %v, the oldest echo of %v, behind: %v", what, got.worst, got.echo, names)
		}
	}
	want("at first", router.Alone, time.Time{}, "one", "two")
	one.hearing.echoed(now)
	want("one was heard, the other is new", router.Fresh, now, "two")
	now = now.Add(freshFor + 1)
	one.hearing.echoed(now)
	want("the other is not new any more", router.Alone, time.Time{}, "two")
	two.hearing.echoed(now.Add(-freshFor))
	want("both", router.Fresh, now.Add(-freshFor))
	add("three")
	want("and another one comes", router.Fresh, now.Add(-freshFor), "three")
	two.hearing.heardOf(now)
	now = now.Add(1)
	want("one of them falls behind", router.Cut, now.Add(-freshFor-1), "three", "two")
}

// TestSequences: what is missing for long was missed, and what came late was not.
func TestSequences(t *testing.T) {
	start := time.Unix(1000, 0)
	const early, live = true, false
	type came struct {
		after   time.Duration
		replica uint64
		number  uint64
		early   bool
	}
	for name, tc := range map[string]struct {
		came []came
		want bool // in the end
	}{
		"in order":               {[]came{{0, 7, 1, live}, {1, 7, 2, live}, {2, 7, 3, live}}, false},
		"one lacks":              {[]came{{0, 7, 1, live}, {1, 7, 3, live}}, true},
		"one is late":            {[]came{{0, 7, 1, live}, {1, 7, 3, live}, {2, 7, 2, live}}, false},
		"one comes twice":        {[]came{{0, 7, 1, live}, {1, 7, 2, live}, {2, 7, 1, live}, {3, 7, 3, live}}, false},
		"the middle is late":     {[]came{{0, 7, 1, live}, {1, 7, 5, live}, {2, 7, 3, live}, {3, 7, 2, live}, {4, 7, 4, live}}, false},
		"the ends are late":      {[]came{{0, 7, 1, live}, {1, 7, 5, live}, {2, 7, 4, live}, {3, 7, 2, live}}, true},
		"from the middle":        {[]came{{0, 7, 500, early}, {1, 7, 501, live}}, false},
		"the first were missed":  {[]came{{0, 7, 3, live}}, true},
		"each has its own":       {[]came{{0, 7, 1, live}, {0, 8, 1, live}, {1, 7, 2, live}, {1, 8, 2, live}}, false},
		"another one's is none":  {[]came{{0, 7, 1, live}, {0, 8, 1, live}, {1, 7, 3, live}, {1, 8, 2, live}}, true},
		"late, but not too late": {[]came{{0, 7, 1, live}, {0, 7, 3, live}, {lateFor, 7, 2, live}, {2 * lateFor, 7, 4, live}}, false},
	} {
		s := make(sequences)
		now := start
		for _, c := range tc.came {
			now = start.Add(c.after)
			s.take(c.replica, c.number, c.early, now)
			if s.missed(now) {
				t.Errorf("%s: missed after message %d already", name, c.number)
			}
		}
		if got := s.missed(now.Add(lateFor + 1)); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
		if s.missed(now.Add(2 * lateFor)) {
			t.Errorf("%s: missed twice", name)
		}
		if s.missed(now.Add(silentFor + 1)); len(s) != 0 {
			t.Errorf("%s: replicas that are gone are remembered", name)
		}
	}
	s := make(sequences)
	for i := range uint64(maxSpans + 1) {
		s.take(7, 2*i+2, live, start)
	}
	if !s.missed(start) {
		t.Error("any number of messages may lack")
	}
	for i := range uint64(2 * maxSequences) {
		s.take(i, 1, live, start)
	}
	if len(s) != maxSequences {
		t.Errorf("%d replicas are followed", len(s))
	}
}

func TestPeers(t *testing.T) {
	var s peers
	start := time.Unix(1000, 0)
	busy := router.Load{Pool: "p", Backend: "b1:80", InFlight: 2}
	other := router.Load{Pool: "p", Backend: "b2:80", InFlight: 1}
	s.put(peerPool{1, "p"}, router.PeerReport{At: start, Loads: []router.Load{busy, other}}, true)
	s.put(peerPool{1, "p"}, router.PeerReport{At: start.Add(-time.Second)}, true) // late
	s.put(peerPool{1, "q"}, router.PeerReport{At: start}, true)
	s.put(peerPool{2, "p"}, router.PeerReport{At: start.Add(reportsFor)}, true)
	s.put(peerPool{3, "p"}, router.PeerReport{At: start, Loads: []router.Load{busy}}, false) // changes of what is not known
	loads := func(now time.Time) (total map[string]int, reports int) {
		all, _ := s.latest(now, true)
		total = map[string]int{}
		for _, r := range all {
			for _, l := range r.Loads {
				total[l.Backend] += l.InFlight
			}
		}
		return total, len(all)
	}
	if got, reports := loads(start.Add(time.Second)); reports != 3 || s.replicas() != 2 || got["b1:80"] != 2 || got["b2:80"] != 1 {
		t.Errorf("%d reports of %d replicas with %v", reports, s.replicas(), got)
	}
	busy.InFlight = 5
	s.put(peerPool{1, "p"}, router.PeerReport{At: start.Add(1), Loads: []router.Load{busy, {Pool: "p", Backend: "b2:80"}}}, false)
	if _, news := s.latest(start, false); !news {
		t.Error("changes are no news")
	}
	if got, _ := loads(start); len(got) != 1 || got["b1:80"] != 5 {
		t.Errorf("after changes: %v", got)
	}
	if _, news := s.latest(start, false); news {
		t.Error("what is known is news")
	}
	if _, reports := loads(start.Add(reportsFor + 2)); reports != 1 || s.replicas() != 1 {
		t.Errorf("later, %d reports of %d replicas", reports, s.replicas())
	}
}

func TestSharingLog(t *testing.T) {
	var text strings.Builder
	start := time.Unix(1000, 0)
	l := sharingLog{logger: slog.New(slog.NewTextHandler(&text, nil)), began: start}
	s := new(store)
	said := func(worst router.Sharing, after time.Duration) string {
		text.Reset()
		l.log(state{worst: worst, pools: map[string]router.Sharing{"p": worst}}, start.Add(after), s)
		return text.String()
	}
	for _, tc := range []struct {
		state router.Sharing
		after time.Duration
		want  string
	}{
		{router.Alone, 0, ""},
		{router.Alone, freshFor, "not shared"},
		{router.Alone, 2 * freshFor, ""},
		{router.Fresh, 3 * freshFor, "is shared"},
		{router.Fresh, 4 * freshFor, ""},
		{router.Cut, 5 * freshFor, "not shared"},
		{router.Alone, 6 * freshFor, ""},
	} {
		if got := said(tc.state, tc.after); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%v after %v: %q, want %q", tc.state, tc.after, got, tc.want)
		}
	}
}

func TestClientLogIsQuiet(t *testing.T) {
	var text strings.Builder
	now := time.Unix(1000, 0)
	l := &clientLog{logger: slog.New(slog.NewTextHandler(&text, nil)), now: func() time.Time { return now }}
	for range 5 {
		l.Printf(t.Context(), "failed to dial %s", "somebody")
	}
	now = now.Add(quietFor)
	l.Printf(t.Context(), "again")
	got := text.String()
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, "failed to dial somebody") || !strings.Contains(got, "not_shown=4") {
		t.Errorf("log:\n%s", got)
	}
}

func TestIDs(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"1-0", "2-0", true},
		{"2-0", "1-0", false},
		{"10-0", "9-5", false},
		{"5-2", "5-10", true},
		{"5-2", "5-2", false},
		{"0-0", "1-1", true},
		{"garbage", "1-0", true},
	} {
		if got := before(tc.a, tc.b); got != tc.want {
			t.Errorf("%s before %s: %v", tc.a, tc.b, got)
		}
	}
	if got := rewind("9000-7"); got != "4000-0" {
		t.Errorf("rewind: %s", got)
	}
	if got := rewind("500-7"); got != "0-0" {
		t.Errorf("rewind: %s", got)
	}
}

// TestNothingLiesAhead: a router whose wall clock was an hour ahead has stamps that are, and a
// report may say anything.
func TestNothingLiesAhead(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	c := newClock(func() time.Time { return at })
	c.measured.Store(&measurement{local: at, fleet: at.Add(-7 * time.Second)})
	v, _ := c.conversion()
	now := moment(at.Add(-7 * time.Second).UnixMicro())
	ahead := kvindex.Stamp(at.Add(time.Hour).UnixNano())
	if got := v.fleet(ahead); got != now {
		t.Errorf("an hour ahead is %d, want %d", got, now)
	}
	if got := v.fleet(kvindex.Stamp(at.Add(-time.Second).UnixNano())); got != now.before(time.Second) {
		t.Errorf("a second ago is %d, now %d", got, now)
	}
	if got := v.localTime(now.after(time.Hour)); !got.Equal(at) {
		t.Errorf("a report of an hour ahead is of %v, want %v", got, at)
	}
}
