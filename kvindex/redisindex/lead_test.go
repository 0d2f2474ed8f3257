package redisindex

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// leaders counts who of some replicas leads.
func leaders(all ...*replica) (n int) {
	for _, r := range all {
		if r.Leads() {
			n++
		}
	}
	return n
}

// Of those who want to, one leads; another one does once it ends or does not want to any more.
func TestOneLeads(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, _ := sharer(t, server.Addr)
	b, _ := sharer(t, server.Addr)
	c, _ := sharer(t, server.Addr)
	if leaders(a, b, c) != 0 {
		t.Fatal("somebody leads who was not asked to")
	}
	a.SeekLead(true)
	await(t, "the first one leads", a.Leads)
	b.SeekLead(true)
	c.SeekLead(true)
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !a.Leads() || leaders(a, b, c) != 1 {
			t.Fatalf("%d lead, the first one: %v", leaders(a, b, c), a.Leads())
		}
	}
	if ttl := server.Do("PTTL", "warmroute:lead").(int64); ttl < 5000 || ttl > leadFor.Milliseconds() {
		t.Errorf("the lock stays for %d ms", ttl)
	}
	a.SeekLead(false)
	await(t, "another one leads", func() bool { return !a.Leads() && leaders(b, c) == 1 })
}

// A lock that is somebody else's is neither kept nor removed.
func TestLeadIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, _ := sharer(t, server.Addr)
	a.SeekLead(true)
	await(t, "it leads", a.Leads)
	server.Do("SET", "warmroute:lead", "another")
	await(t, "it does not lead any more", func() bool { return !a.Leads() })
	a.SeekLead(false)
	time.Sleep(2 * keepEvery)
	if got := server.Do("GET", "warmroute:lead"); got != "another" {
		t.Errorf("the lock is %v", got)
	}
	a.SeekLead(true)
	server.Do("DEL", "warmroute:lead")
	await(t, "it leads again", a.Leads)
}

// While Redis is away nobody begins to lead, and who does stops before another one could.
func TestLeadWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, _ := sharer(t, server.Addr)
	a.SeekLead(true)
	await(t, "it leads", a.Leads)
	until := time.Unix(0, a.lead.until.Load())
	server.Kill()
	b, _ := sharer(t, server.Addr)
	b.SeekLead(true)
	time.Sleep(3 * keepEvery)
	if b.Leads() {
		t.Error("somebody leads whom nobody knows")
	}
	await(t, "it does not lead any more", func() bool { return !a.Leads() })
	if late := time.Since(until); late > leadMargin {
		t.Errorf("it led for %v longer than it had said", late)
	}
}
