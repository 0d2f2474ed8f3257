package redisindex

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// TestPromises: what one router has sent to a backend another one believes at once; it stays
// where the promise is kept, and goes where it is withdrawn, but for what was used meanwhile.
func TestPromises(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := launch(t, server.Addr), launch(t, server.Addr)
	from, to := a.add("b1:80"), b.add("b1:80")
	a.awaitShared()
	b.awaitShared()

	promise := func(name string) ([]kvindex.Key, kvindex.Promise) {
		keys := prompt(name, 10)
		r := a.Record(from, keys, kvindex.Stamp(a.config.Now().UnixNano()), kvindex.Predicted)
		p := a.Promise(from, keys, r.Stamp)
		if p == 0 {
			t.Fatal("no promise was made")
		}
		b.awaitDepth(to, keys, 10)
		return keys, p
	}
	kept, p := promise("kept")
	a.Publish(from, kept, kvindex.Stamp(a.config.Now().UnixNano()), p)
	broken, p := promise("broken")
	a.Withdraw(p)
	b.awaitDepth(to, broken, 0)
	used, p := promise("used")
	b.Record(to, used[:4], kvindex.Stamp(b.config.Now().UnixNano()), kvindex.Predicted)
	a.Withdraw(p)
	b.awaitDepth(to, used, 4)
	if got := b.depth(to, kept); got != 10 {
		t.Errorf("%d blocks of what was kept are there, want 10", got)
	}
	// Nothing is in the sets that was only promised.
	c := launch(t, server.Addr)
	late := c.add("b1:80")
	c.awaitDepth(late, kept, 10)
	if got := c.depth(late, broken) + c.depth(late, used); got != 0 {
		t.Errorf("a router that comes later finds %d blocks that were only promised", got)
	}
}

// TestPromisesToldTwice: a writer that did not hear that its command was done does it again.
// What is withdrawn then goes all the same, and nothing of it is held.
func TestPromisesToldTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prepare(t, "127.0.0.1:1") // it is not run
		defer r.Close()
		h := r.add("b1:80")
		r.clock.measured.Store(&measurement{local: r.clock.now(), fleet: time.Now()})
		reads := newReader(r.Index, r.holder(h).home)
		reads.until = "0-0"
		hear := func(m *message) {
			m.replica = 7
			reads.take(redis.XMessage{ID: "1-0", Values: map[string]any{streamField: string(pack(m)[0])}})
		}
		promise := func(number kvindex.Promise, keys []kvindex.Key) *message {
			return &message{chains: []chain{{backend: "b1:80", last: moment(time.Now().UnixMicro()), keys: keys, promise: number}}}
		}
		open, twice := prompt("open", 10), prompt("twice", 10)
		hear(promise(1, open))
		hear(promise(2, twice))
		hear(promise(2, twice))
		hear(&message{ends: []end{{promise: 2}}})
		if got := r.depth(h, twice); got != 0 {
			t.Errorf("%d blocks are there that were withdrawn", got)
		}
		if reads.promised.keys != 10 {
			t.Errorf("%d keys are counted, want the 10 of the promise that is open", reads.promised.keys)
		}
		for _, p := range reads.promised.order[1:] {
			if p.keys != nil {
				t.Errorf("the keys of promise %d are held after its end", p.number)
			}
		}
	})
}

// TestPromisesOfTheDead: what nobody keeps nor withdraws is believed for a time only, and
// what comes that late is not believed at all.
func TestPromisesOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prepare(t, "127.0.0.1:1") // it is not run
		defer r.Close()
		h := r.add("b1:80")
		r.clock.measured.Store(&measurement{local: r.clock.now(), fleet: time.Now()})
		reads := newReader(r.Index, r.holder(h).home)
		reads.until = "0-0"
		hear := func(number kvindex.Promise, keys []kvindex.Key, age time.Duration) {
			m := &message{replica: 7, chains: []chain{{
				backend: "b1:80", last: moment(time.Now().Add(-age).UnixMicro()), keys: keys, promise: number,
			}}}
			reads.take(redis.XMessage{ID: "1-0", Values: map[string]any{streamField: string(pack(m)[0])}})
		}
		first, second, stale := prompt("first", 10), prompt("second", 10), prompt("stale", 10)
		hear(1, first, 0)
		hear(2, stale, promiseFor+time.Second)
		time.Sleep(promiseFor / 2)
		hear(3, second, 0)
		reads.expire()
		if r.depth(h, first) != 10 || r.depth(h, second) != 10 || r.depth(h, stale) != 0 {
			t.Errorf("%d, %d and %d blocks, want 10, 10 and 0", r.depth(h, first), r.depth(h, second), r.depth(h, stale))
		}
		time.Sleep(promiseFor/2 + time.Second)
		reads.expire()
		if r.depth(h, first) != 0 || r.depth(h, second) != 10 {
			t.Errorf("later %d and %d blocks, want 0 and 10", r.depth(h, first), r.depth(h, second))
		}
		r.Drop(h)
		time.Sleep(promiseFor)
		reads.expire() // a backend that went does no harm
		if len(reads.promised.open) != 0 {
			t.Error("promises are remembered")
		}
	})
}
