package router

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/backends"
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

// TestAdaptersThatAreLoadedOnDemand: an engine that has loaded an adapter lists it from then
// on. The others may be asked for it all the same, when that one is busy or away.
func TestAdaptersThatAreLoadedOnDemand(t *testing.T) {
	now := time.Unix(2000, 0)
	r := New(Options{Epoch: now})
	s := spec("pool", []ModelSpec{{Name: "m"}, {Name: "lora", Adapter: true}}, "http://b1:80", "http://b2:80", "http://b3:80")
	s.Config.ConcurrencyThreshold = 6
	p, err := r.AddPool(s)
	if err != nil {
		t.Fatal(err)
	}
	base := backends.Model{ID: "m"}
	for _, b := range p.Backends() {
		b.SetModels([]backends.Model{base})
	}
	p.Backends()[2].SetModels([]backends.Model{base, {ID: "lora", Adapter: true}})
	learned := adapterRequest(p, "lora", "doc", now)
	learned.Adapter = false // it is not configured as one: who does not list it has not got it
	learned.Alternatives = 3
	d, err := r.Route(learned)
	if err != nil {
		t.Fatal(err)
	}
	r.Complete(d, feedback.Outcome{Now: now, Result: feedback.RouterError})
	if d.Backend.ID != "b3:80" || len(d.Alternatives) != 0 {
		t.Errorf("an adapter that is not loaded on demand went to %s, and may go to %v", d.Backend.ID, ids(d.Alternatives))
	}
	load := make(map[string]int)
	for n := range 3 * 6 {
		d, err := r.Route(adapterRequest(p, "lora", fmt.Sprint("doc-", n), now))
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 && d.Backend.ID != "b3:80" {
			t.Errorf("the first goes to %s, which does not list the adapter", d.Backend.ID)
		}
		load[d.Backend.ID]++
	}
	for _, b := range p.Backends() {
		if load[b.ID] != 6 {
			t.Errorf("%s has %d in flight, want 6", b.ID, load[b.ID])
		}
	}
	for _, b := range p.Backends()[1:] {
		b.Drain(true)
	}
	if d, err := r.Route(adapterRequest(p, "lora", "doc", now)); err != nil || d.Backend.ID != "b1:80" {
		t.Errorf("while those that list it drain: %v, %v", d, err)
	}
}

// TestAdapterThatIsRefused: who answers that it does not know an adapter is out of the set, and
// is asked again only where nobody knows it.
func TestAdapterThatIsRefused(t *testing.T) {
	now := time.Unix(2000, 0)
	r := New(Options{Epoch: now})
	s := spec("pool", nil, "http://b1:80", "http://b2:80", "http://b3:80")
	s.Config.ConcurrencyThreshold = 6
	p, err := r.AddPool(s)
	if err != nil {
		t.Fatal(err)
	}
	send := func() *Decision {
		t.Helper()
		now = now.Add(time.Second)
		d, err := r.Route(adapterRequest(p, "lora", "doc", now))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	end := func(d *Decision, result feedback.Result) {
		r.Complete(d, feedback.Outcome{Now: now, Result: result, Blame: feedback.Healthy})
	}
	asked := make(map[string]int)
	for range 3 {
		d := send()
		asked[d.Backend.ID]++
		end(d, feedback.NotFound)
	}
	if len(asked) != 3 {
		t.Errorf("asked after refusals: %v, want one after the other", asked)
	}
	end(send(), feedback.NotFound) // they all have refused it, and are asked all the same
	p.Backends()[0].SetModels([]backends.Model{{ID: "lora", Adapter: true}})
	var open []*Decision
	for range 6 {
		d := send()
		if d.Backend.ID != "b1:80" {
			t.Errorf("%s is asked, which has refused it lately; b1 lists it", d.Backend.ID)
		}
		open = append(open, d)
	}
	for _, d := range open {
		end(d, feedback.Success)
	}
	now = now.Add(adapterIdle)
	busy := p.Backends()[0]
	if !busy.Acquire(new(backends.Slot), 6, backends.Unbounded) {
		t.Fatal("no slot")
	}
	if d := send(); d.Backend == busy {
		t.Error("the others are not asked again after some time")
	}
}

// TestAdapterUsesAreBounded: names come from requests where a pool learns its models.
func TestAdapterUsesAreBounded(t *testing.T) {
	var u adapterUses
	now := time.Unix(2000, 0)
	if n, _ := u.number(now); n != 0 || u.has("0", now) {
		t.Errorf("%d adapters before any", n)
	}
	for i := range 3 * maxAdapters {
		u.add(fmt.Sprint(i), now.Add(time.Duration(i)))
	}
	if n, oldest := u.number(now); n != maxAdapters || !oldest.Equal(now.Add(2*maxAdapters)) {
		t.Errorf("%d adapters, the oldest of %v", n, oldest)
	}
	if u.has("0", now) || !u.has(fmt.Sprint(2*maxAdapters), now) {
		t.Error("the last used are not those that are remembered")
	}
	later := now.Add(adapterIdle + 3*maxAdapters - 2)
	if u.has(fmt.Sprint(3*maxAdapters-3), later) || !u.has(fmt.Sprint(3*maxAdapters-1), later) {
		t.Error("the idle are not those that are forgotten")
	}
	if n, _ := u.number(later); n != 2 {
		t.Errorf("%d adapters are not idle, want 2", n)
	}
}

// BenchmarkAdaptersListed is a request for the last of many adapters that all of 16 backends
// list. What that costs must not grow with how many there are.
func BenchmarkAdaptersListed(b *testing.B) {
	for _, adapters := range []int{1, 1000} {
		b.Run(fmt.Sprintf("adapters=%d", adapters), func(b *testing.B) {
			r, req := benchPool(b)
			models := []backends.Model{{ID: "m"}}
			for i := range adapters {
				models = append(models, backends.Model{ID: fmt.Sprintf("lora-%05d", i), Adapter: true})
			}
			req.Model = models[adapters].ID
			for _, backend := range req.Pool.Backends() {
				backend.SetModels(models)
			}
			b.ReportAllocs()
			for b.Loop() {
				d, err := r.Route(req)
				if err != nil {
					b.Fatal(err)
				}
				r.Complete(d, feedback.Outcome{Now: req.Now, Result: feedback.Success, FirstByte: true})
			}
		})
	}
}

// BenchmarkAdapterPlaced is a request for an adapter that nobody has, on 64 backends of which
// each has some. What that costs must not grow with how many adapters there are.
func BenchmarkAdapterPlaced(b *testing.B) {
	for _, adapters := range []int{0, 100, 4000} {
		b.Run(fmt.Sprintf("adapters=%d", adapters), func(b *testing.B) {
			now := time.Unix(2000, 0)
			r := New(Options{Epoch: now})
			var urls []string
			for i := range 64 {
				urls = append(urls, fmt.Sprintf("http://b%d:80", i))
			}
			p, err := r.AddPool(spec("pool", nil, urls...))
			if err != nil {
				b.Fatal(err)
			}
			members := *p.members.Load()
			for i := range adapters {
				for j := range 3 {
					members[(i+j)%len(members)].adapters.add(fmt.Sprint("lora-", i), now)
				}
			}
			req := adapterRequest(p, "new", "doc", now)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(adapterIdle / 10_000)
				req.Model, req.Now = fmt.Sprint("new-", now.UnixNano()), now
				d, err := r.Route(req)
				if err != nil || d.Reason != AdapterPlaced {
					b.Fatal(d, err)
				}
				r.Complete(d, feedback.Outcome{Now: now, Result: feedback.Success, FirstByte: true})
			}
		})
	}
}
