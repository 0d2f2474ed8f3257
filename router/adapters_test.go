package router

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/feedback"
)

// adapterRequest is a prompt for a LoRA adapter.
func adapterRequest(p *Pool, adapter, doc string, now time.Time) *Request {
	req := docRequest(p, doc, now)
	req.Model, req.Adapter = adapter, true
	req.Blocks = adapterKeys(doc+":100", adapter)
	req.Prefix = req.Blocks[len(req.Blocks)-1]
	return req
}

// TestAdaptersStay: without load every adapter has one backend, whatever its prompts, and
// all backends have their part of the adapters. Another router, which knows nothing, would
// choose the same.
func TestAdaptersStay(t *testing.T) {
	const adapters, requests = 40, 5
	urls := []string{"http://b1:80", "http://b2:80", "http://b3:80", "http://b4:80"}
	now := time.Unix(2000, 0)
	var routers [2]map[string]string
	for i := range routers {
		r := New(Options{Seed: uint64(i), Epoch: now})
		p, err := r.AddPool(spec("pool", nil, urls...))
		if err != nil {
			t.Fatal(err)
		}
		at := make(map[string]string)
		for n := range adapters * requests {
			adapter := fmt.Sprintf("lora-%d", n%adapters)
			d, err := r.Route(adapterRequest(p, adapter, fmt.Sprintf("doc-%d-%d", i, n), now))
			if err != nil {
				t.Fatal(err)
			}
			if first, known := at[adapter]; known && first != d.Backend.ID {
				t.Errorf("%s goes to %s and to %s", adapter, first, d.Backend.ID)
			}
			at[adapter] = d.Backend.ID
			now = now.Add(time.Second)
			r.Complete(d, feedback.Outcome{Now: now, Result: feedback.Success, FirstByte: true})
		}
		routers[i] = at
	}
	counts := make(map[string]int)
	same := 0
	for adapter, backend := range routers[0] {
		counts[backend]++
		if routers[1][adapter] == backend {
			same++
		}
	}
	if len(counts) != len(urls) {
		t.Errorf("adapters are on %v", counts)
	}
	if same < adapters*3/4 { // those that came when all slots were taken depend on what came before
		t.Errorf("two routers agree on %d of %d adapters", same, adapters)
	}
}

// TestAdaptersOverflowInside: while somebody of the set has time, nobody else gets a request,
// and with load the set grows until there is time again.
func TestAdaptersOverflowInside(t *testing.T) {
	now := time.Unix(2000, 0)
	r := New(Options{Epoch: now})
	s := spec("pool", nil, "http://b1:80", "http://b2:80", "http://b3:80", "http://b4:80")
	s.Config.ConcurrencyThreshold = 6
	p, err := r.AddPool(s)
	if err != nil {
		t.Fatal(err)
	}
	load := make(map[string]int)
	for n := range 4 * 6 {
		d, err := r.Route(adapterRequest(p, "lora", fmt.Sprint("doc-", n), now))
		if err != nil {
			t.Fatal(err)
		}
		if _, in := load[d.Backend.ID]; !in {
			for backend, there := range load { // at 5 a backend has 4 more than the mean of few
				if there < 5 {
					t.Errorf("request %d goes to %s while %s has %d of 6 in flight", n, d.Backend.ID, backend, there)
				}
			}
			if want := AdapterSpread; len(load) > 0 && d.Reason != want {
				t.Errorf("request %d: %v, want %v", n, d.Reason, want)
			}
		}
		load[d.Backend.ID]++
	}
	for _, b := range p.Backends() {
		if load[b.ID] != 6 {
			t.Errorf("%s has %d in flight, want 6", b.ID, load[b.ID])
		}
	}
	d, err := r.Route(adapterRequest(p, "lora", "one more", now))
	if err != nil || d.Reason != Saturated {
		t.Errorf("with everybody full: %v, %v", d, err)
	}
}

// TestAdapterThatMoves: a backend that leaves the pool, or fails, takes no adapter with it.
func TestAdapterThatMoves(t *testing.T) {
	now := time.Unix(2000, 0)
	r := New(Options{Epoch: now})
	p, err := r.AddPool(spec("pool", nil, "http://b1:80", "http://b2:80", "http://b3:80"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := r.Route(adapterRequest(p, "lora", "doc", now))
	if err != nil {
		t.Fatal(err)
	}
	again := adapterRequest(p, "lora", "doc", now)
	again.Tried = append(again.Tried, first.Backend)
	second, err := r.Route(again)
	if err != nil || second.Backend == first.Backend || second.Reason != AdapterPlaced {
		t.Fatalf("after a failure: %+v, %v", second, err)
	}
	first.Backend.Drain(true)
	third, err := r.Route(adapterRequest(p, "lora", "doc", now))
	if err != nil || third.Backend != second.Backend {
		t.Errorf("while the first drains: %s, want %s", third.Backend.ID, second.Backend.ID)
	}
}

// TestAdapterSetsAreBounded: names come from requests where a pool learns its models.
func TestAdapterSetsAreBounded(t *testing.T) {
	var s adapterSets
	m, now := new(member), time.Unix(2000, 0)
	for i := range 3 * maxAdapters {
		s.used(fmt.Sprint(i), m, now.Add(time.Duration(i)))
	}
	if n := s.sets.Len(); n != maxAdapters {
		t.Errorf("%d sets, want %d", n, maxAdapters)
	}
	for i := range 100 {
		s.used("one", new(member), now.Add(time.Duration(i)*adapterIdle))
	}
	if set, _ := s.sets.Peek("one"); len(set) > 2 {
		t.Errorf("%d backends in a set of which all but the last two are idle", len(set))
	}
}
