package e2e

import (
	"fmt"
	"testing"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// over shares the index of a router through a server.
func over(server *redistest.Server) func(*config.Config) {
	return func(c *config.Config) { c.Redis.Addresses = []string{server.Addr} }
}

// awaitShared waits until the router shares its index, and has read what there was.
func (f *fleet) awaitShared() {
	f.t.Helper()
	f.await("the index is shared", func() bool {
		return f.metric("warmroute_redis_up") == 1 && f.metric("warmroute_redis_restoring_backends") == 0
	})
}

// awaitWritten waits until what the router learned is in Redis, and others have had time to
// read it.
func (f *fleet) awaitWritten(records int) {
	f.t.Helper()
	f.await(fmt.Sprintf("%d records are written", records), func() bool {
		return f.metric("warmroute_redis_written_records_total") >= float64(records)
	})
}

// awaitReceived waits until the router has taken in what others learned.
func (f *fleet) awaitReceived(records int) {
	f.t.Helper()
	f.await(fmt.Sprintf("%d records are received", records), func() bool {
		return f.metric("warmroute_redis_received_records_total") >= float64(records)
	})
}

// conversation is the two first turns of a conversation of its own.
func conversation(i uint64) (first, second ask) {
	first = ask{messages: []message{user(prose(100+i, 6000))}, tokens: 10}
	second = ask{messages: []message{first.messages[0], {"assistant", "I see."}, user("And what then?")}, tokens: 10}
	return first, second
}

// Each turn of a conversation goes through another router, and to the engine that has it
// cached.
func TestRD10TurnsThroughDifferentRouters(t *testing.T) {
	server := redistest.Start(t)
	a := start(t, setup{engines: 3, configure: over(server)})
	b := a.twin(over(server))
	a.awaitShared()
	b.awaitShared()
	const conversations = 6
	went := make([]reply, conversations)
	for i := range went {
		first, _ := conversation(uint64(i))
		went[i] = a.mustChat(first)
	}
	b.awaitReceived(conversations)
	for i, before := range went {
		_, second := conversation(uint64(i))
		r := b.mustChat(second)
		if r.backend != before.backend || r.cached < before.prompt*9/10 {
			t.Errorf("conversation %d: the first turn went to %s, the second to %s with %d of %d tokens cached (%s)",
				i, before.backend, r.backend, r.cached, r.prompt, r.reason)
		}
	}
}

// A router that starts, in place of one that ended, finds what the fleet's engines hold.
func TestHA08RestartedRouters(t *testing.T) {
	server := redistest.Start(t)
	a := start(t, setup{engines: 3, configure: over(server)})
	a.awaitShared()
	const conversations = 6
	went := make([]reply, conversations)
	for i := range went {
		first, _ := conversation(uint64(i))
		went[i] = a.mustChat(first)
	}
	a.awaitWritten(conversations)
	a.stop()
	b := a.twin(over(server))
	b.awaitShared()
	for i, before := range went {
		_, second := conversation(uint64(i))
		r := b.mustChat(second)
		if r.backend != before.backend || r.cached < before.prompt*9/10 {
			t.Errorf("conversation %d: the first turn went to %s, the second to %s with %d of %d tokens cached (%s)",
				i, before.backend, r.backend, r.cached, r.prompt, r.reason)
		}
	}
}

// The threshold counts the requests of all routers.
func TestThresholdOfAllRouters(t *testing.T) {
	server := redistest.Start(t)
	limit := func(c *config.Config) {
		over(server)(c)
		c.Pools[0].Routing.ConcurrencyThreshold, c.Pools[0].Routing.LoadFactor = 4, 0
	}
	a := start(t, setup{engines: 2, configure: limit})
	b := a.twin(limit)
	a.awaitShared()
	b.awaitShared()
	first, second := conversation(0)
	holder := a.mustChat(first).backend
	b.awaitReceived(1)
	a.fault(a.number(holder), hangHeaders)
	answers := a.hold(4, holder, "busy")
	b.await("the other router counts them", func() bool { return b.state()[holder].InFlight == 4 })
	if r := b.mustChat(second); r.backend == holder || r.reason != "overflow" {
		t.Errorf("with 4 of 4 requests in flight from the other router, one more went to %s (%s)", r.backend, r.reason)
	}
	a.fault(a.number(holder), mended)
	for range 4 {
		if r := <-answers; r.status != 200 {
			t.Errorf("%+v", r)
		}
	}
	b.await("the other router sees that they are over", func() bool { return b.state()[holder].InFlight == 0 })
	if r := b.mustChat(second); r.backend != holder {
		t.Errorf("afterwards it went to %s (%s)", r.backend, r.reason)
	}
}

// number is the place of a backend in the setup.
func (f *fleet) number(id string) int {
	f.t.Helper()
	for i, one := range f.ids {
		if one == id {
			return i
		}
	}
	f.t.Fatalf("%s is no backend of this test", id)
	return -1
}

// An engine lost its cache, and one router saw it: the others do not send anything there
// for what is gone.
func TestLossSeenByOneRouter(t *testing.T) {
	server := redistest.Start(t)
	blind := func(c *config.Config) {
		over(server)(c)
		c.Scrape.Enabled = false // only answers tell
	}
	a := start(t, setup{engines: 2, configure: blind})
	b := a.twin(blind)
	a.awaitShared()
	b.awaitShared()
	const conversations = 8
	for i := range conversations {
		first, second := conversation(uint64(i))
		first.pin, second.pin = "b0:80", "b0:80"
		a.mustChat(first)
		a.mustChat(second) // confirms
	}
	a.awaitWritten(2 * conversations)
	b.awaitReceived(conversations) // of turns that were written together only the last is told
	a.fault(0, `{"restart":true}`)
	for i := range conversations / 2 {
		_, second := conversation(uint64(i))
		second.pin = "b0:80"
		a.mustChat(second)
	}
	if a.metric("warmroute_horizon_moves_total") == 0 {
		t.Fatal("the router that saw it did not move the horizon")
	}
	b.await("the horizon moves there as well, and both believe the same", func() bool {
		return b.metric("warmroute_horizon_moves_total", `cause="peer"`) > 0 &&
			b.state()["b0:80"].Blocks == a.state()["b0:80"].Blocks
	})
}

// Redis hangs in the middle of traffic: no request fails, and what was learned meanwhile
// is shared afterwards.
func TestRedisHangs(t *testing.T) {
	server := redistest.Start(t)
	a := start(t, setup{engines: 3, configure: over(server)})
	b := a.twin(over(server))
	a.awaitShared()
	b.awaitShared()
	a.await("they hear of each other", func() bool { return a.metric("warmroute_redis_peers") == 1 })
	server.Stop()
	t.Cleanup(server.Continue)
	first, second := conversation(1)
	before := a.mustChat(first)
	a.await("readiness says degraded, and is true", func() bool {
		var ready struct {
			Status string `json:"status"`
		}
		a.decode(a.admin+"/readyz", &ready)
		return ready.Status == "degraded" && a.metric("warmroute_redis_sharing", `state="cut"`) == 1
	})
	for i := uint64(10); i < 20; i++ {
		other, _ := conversation(i)
		a.mustChat(other)
		b.mustChat(other)
	}
	server.Continue()
	a.awaitShared()
	b.awaitShared()
	b.awaitReceived(11)
	if r := b.mustChat(second); r.backend != before.backend {
		t.Errorf("the first turn went to %s while Redis hung, the second to %s (%s)", before.backend, r.backend, r.reason)
	}
}
