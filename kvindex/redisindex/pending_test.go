package redisindex

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// TestPendingIsBounded: writes that are tried again are bounded in number and in size, and so is
// what is tried at a time, oldest first.
func TestPendingIsBounded(t *testing.T) {
	var p pending
	name := func(i int) string { return fmt.Sprint(i) }
	for i := range maxPending + 5 {
		p.add(write{key: name(i), size: 1})
	}
	if over := p.excess(); len(over) != 5 || over[4].key != "4" || p.len() != maxPending {
		t.Errorf("%d of too many are given up, %d are left", len(over), p.len())
	}
	if batch := p.take(maxPending); len(batch) != maxPending || p.len() != 0 || p.bytes != 0 {
		t.Errorf("a batch of %d, %d of %d bytes are left", len(batch), p.len(), p.bytes)
	}
	const large = 300 << 10
	for i := range maxPendingBytes/large + 3 {
		p.add(write{key: name(i), size: large})
	}
	if over := p.excess(); len(over) != 3 || p.bytes > maxPendingBytes {
		t.Errorf("%d of too much are given up, %d bytes are left", len(over), p.bytes)
	}
	batch := p.take(maxPending)
	if len(batch) != batchBytes/large || batch[0].key != "3" {
		t.Errorf("a batch of %d, from %s", len(batch), batch[0].key)
	}
	p.back(batch)
	if batch = p.take(2); len(batch) != 2 || batch[0].key != "3" {
		t.Errorf("of two, %d, from %s", len(batch), batch[0].key)
	}
	p.back(batch)
	p.back([]write{{key: "huge", size: 2 * batchBytes}})
	if batch = p.take(maxPending); len(batch) != 1 || batch[0].key != "huge" {
		t.Errorf("a batch of %d, from %s", len(batch), batch[0].key)
	}
	if batch = p.take(maxPending); batch[0].key != "3" {
		t.Errorf("then from %s", batch[0].key)
	}
}

// TestRetriesBackOff: where writes fail over and over while the server answers, few are tried at
// a time, and soon after it takes them again all are done.
func TestRetriesBackOff(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	one, two := a.add("b1:80"), b.add("b1:80")
	a.awaitShared()
	b.awaitShared()
	server.Do("CONFIG", "SET", "maxmemory", "1")
	refused := func() uint64 { return a.Status().Failures[OutOfMemory] }
	await(t, "it is refused", func() bool { return refused() > 0 })
	const each = 30
	var keys [][]kvindex.Key
	ask := func() {
		for range each {
			keys = append(keys, prompt(fmt.Sprint(len(keys)), 100))
			a.see(one, keys[len(keys)-1])
			<-time.After(20 * time.Millisecond)
		}
	}
	for range 4 {
		ask()
	}
	before, tried := refused(), len(keys)
	ask()
	// What is new is tried once, in up to 16 sets and the stream, and reports are told 50 times a second.
	news := uint64(17*(len(keys)-tried) + 200)
	if got := refused() - before; got > news+10*probeWrites {
		t.Errorf("%d commands were refused while %d were new", got, news)
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	for _, one := range keys {
		b.awaitDepth(two, one, 100)
	}
	await(t, "all is written", func() bool { return size(server, "b1:80") == int64(100*len(keys)) })
}

// TestLostWhilePredicted: the queue is full when an engine begins to answer. What it holds is
// written from the memory later, although the answer has not ended by then.
func TestLostWhilePredicted(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	full := prompt("full", 3)
	for i := 0; a.Status().Dropped == 0; i++ {
		full[2] = kvindex.Key(i + 1)
		a.see(h, full)
	}
	keys, unanswered := prompt("p", 200), prompt("unanswered", 50)
	now := kvindex.Stamp(time.Now().UnixNano())
	a.Record(h, keys, now, kvindex.Predicted)
	a.Record(h, unanswered, now, kvindex.Predicted)
	a.Publish(h, keys, kvindex.Stamp(time.Now().UnixNano()), 0)
	if a.Status().Dropped < 2 {
		t.Fatal("it fits into the queue")
	}
	server.Start()
	a.awaitShared()
	await(t, "all is written that was published", func() bool {
		return size(server, "b1:80") == int64(a.Memory.Stats(h).Blocks-len(unanswered))
	})
	b := launch(t, server.Addr)
	two := b.add("b1:80")
	b.awaitDepth(two, keys, 200)
	if got := b.depth(two, unanswered); got != 0 {
		t.Errorf("%d blocks are shared that no engine has shown to hold", got)
	}
}

// TestWhatIsGivenUpIsWritten: writes that were given up are made good from the memory, but for
// what was forgotten since.
func TestWhatIsGivenUpIsWritten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	a.awaitShared()
	b := a.holder(h)
	clock, _ := a.clock.conversion()
	at := time.Now()
	given := func(keys []kvindex.Key, at time.Time) {
		now := kvindex.Stamp(at.UnixNano())
		a.Record(h, keys, now, kvindex.Predicted)
		g := gather([]use{{backend: b, keys: keys, last: now}}, clock)[b]
		w := &writer{Index: a.Index}
		for _, one := range a.scoreWrites(b, g) {
			w.giveUp(one)
		}
	}
	old, keys := prompt("old", 40), prompt("p", 60)
	a.Forget(h, kvindex.Stamp(at.Add(-time.Minute).UnixNano()))
	given(old, at.Add(-2*time.Minute))
	given(keys, at)
	a.see(h, prompt("other", 5)) // whatever is written next
	await(t, "it is written", func() bool { return size(server, "b1:80") == 65 })
	c := launch(t, server.Addr)
	two := c.add("b1:80")
	c.awaitDepth(two, keys, 60)
	if got := c.depth(two, old); got != 0 {
		t.Errorf("%d blocks are shared that were forgotten", got)
	}
}

// TestReplacedKeysLive: what takes the place of something else has a time to live, and what the
// sets had is written again.
func TestReplacedKeysLive(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	keys := prompt("p", 400)
	a.see(h, keys)
	a.Forget(h, kvindex.Stamp(time.Now().Add(-time.Minute).UnixNano()))
	a.awaitShared()
	await(t, "it is written", func() bool { return size(server, "b1:80") == 400 })
	ours := append(a.holder(h).sets[:], "warmroute:1:{pool}:horizons", "warmroute:1:{pool}:stream")
	for _, key := range ours {
		server.Do("SET", key, "something")
	}
	a.see(h, prompt("other", 100)) // it is found out when something is written
	a.unlisted.Store(true)
	for _, key := range ours {
		await(t, key+" is ours again, with a time to live", func() bool {
			return server.Do("TYPE", key) != "string" && server.Do("TTL", key).(int64) > 0
		})
	}
	await(t, "all blocks are there again", func() bool { return size(server, "b1:80") == 500 })
}

// TestDroppedBackendsAreNotWritten: what waits to be written of a backend that was dropped would
// stay for ever.
func TestDroppedBackendsAreNotWritten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := launch(t, server.Addr)
	h := a.add("b1:80")
	a.awaitShared()
	b := a.holder(h)
	clock, _ := a.clock.conversion()
	g := gather([]use{{backend: b, keys: prompt("p", 100), last: kvindex.Stamp(time.Now().UnixNano())}}, clock)[b]
	writes := a.scoreWrites(b, g)
	a.Drop(h)
	if err := a.do(t.Context(), writes); err != nil {
		t.Fatal(err)
	}
	if got := size(server, "b1:80"); got != 0 {
		t.Errorf("%d blocks were written after the drop", got)
	}
	a.tasks.mu.Lock()
	defer a.tasks.mu.Unlock()
	if _, known := a.tasks.todo[b]; known || len(a.all()) != 0 {
		t.Error("the backend is still known")
	}
}

// TestManyPools: each pool's stream is waited for, however many there are, and one that is
// not in use any more is let go.
func TestManyPools(t *testing.T) {
	t.Parallel()
	const pools = maxConnections + 40
	server := redistest.Start(t)
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	var one, two []kvindex.Holder
	for i := range pools {
		name := fmt.Sprintf("pool%d b1:80 http://b1:80", i)
		h, err := a.Add(name)
		if err != nil {
			t.Fatal(err)
		}
		one = append(one, h)
		if h, err = b.Add(name); err != nil {
			t.Fatal(err)
		}
		two = append(two, h)
	}
	a.awaitShared()
	b.awaitShared()
	for i := range pools {
		keys := prompt(fmt.Sprint(i), 5)
		a.see(one[i], keys)
		b.awaitDepth(two[i], keys, 5)
	}
	if got := b.Status().LastError; strings.Contains(got, "pool timeout") {
		t.Errorf("connections are missing: %s", got)
	}
	p := a.holder(one[0]).home
	a.Drop(one[0])
	a.mu.Lock()
	p.empty = time.Now().Add(-2 * a.config.TTL)
	a.mu.Unlock()
	await(t, "the pool is let go", func() bool { return len(a.allPools()) == pools-1 })
	h, err := a.Add("pool0 b1:80 http://b1:80")
	if err != nil {
		t.Fatal(err)
	}
	keys := prompt("again", 5)
	b.see(two[0], keys)
	a.awaitDepth(h, keys, 5)
}
