package router

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// TestThresholdOnTheSum: with 10 in flight from another router and a threshold of 12, the
// third request of this one overflows, not the thirteenth.
func TestThresholdOnTheSum(t *testing.T) {
	r := New(Options{})
	two := spec("pool", nil, "http://b1:80", "http://b2:80")
	two.Config.ConcurrencyThreshold, two.Config.LoadFactor = 12, 0
	p, err := r.AddPool(two)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(2000, 0)
	first := play(t, r, docRequest(p, "doc", now), time.Second, feedback.Usage{})
	now = now.Add(10 * time.Second)
	r.SetPeers([]PeerReport{{At: now, Loads: []Load{{Pool: p.Name(), Backend: first.Backend.ID, InFlight: 10}}}}, now)
	for i := range 4 {
		req := docRequest(p, "doc", now)
		d, err := r.Route(req)
		if err != nil {
			t.Fatal(err)
		}
		if at, want := d.Backend == first.Backend, i < 2; at != want {
			t.Errorf("request %d: to the holder: %v, want %v (%s)", i+1, at, want, d.Explain())
		}
	}
}

func TestPeersCountUntilTheyAreSilent(t *testing.T) {
	r, p := testPool(t, DefaultConfig(), 2)
	b := p.Backends()[0]
	now := time.Unix(2000, 0)
	load := Load{Pool: p.Name(), Backend: b.ID, InFlight: 3, Backlog: feedback.Backlog{Tokens: 9000, Began: now}, PrefillRate: 3000}
	slower := load
	slower.PrefillRate = 1000
	reports := []PeerReport{
		{At: now, Loads: []Load{load}},
		{At: now.Add(-time.Second), Loads: []Load{slower, {Pool: "another", Backend: b.ID, InFlight: 50}}},
	}
	for _, tc := range []struct {
		after            time.Duration
		inFlight, queued int
	}{
		{0, 6, 18_000},
		{time.Second, 6, 17_000}, // at the slower of the rates
		{1500 * time.Millisecond, 3, 4500},
		{3 * time.Second, 0, 0},
	} {
		at := now.Add(tc.after)
		r.SetPeers(reports, at)
		s := p.Status(at)[0]
		if s.InFlight != tc.inFlight || s.PeersInFlight != tc.inFlight || s.Queued != tc.queued {
			t.Errorf("after %v: %d in flight (%d of peers), %d queued, want %d, %d", tc.after, s.InFlight, s.PeersInFlight, s.Queued, tc.inFlight, tc.queued)
		}
	}
}

func TestLoadsAreOwnAndNonZero(t *testing.T) {
	r, p := testPool(t, DefaultConfig(), 3)
	now := time.Unix(2000, 0)
	d, err := r.Route(docRequest(p, "doc", now))
	if err != nil {
		t.Fatal(err)
	}
	r.SetPeers([]PeerReport{{At: now, Loads: []Load{{Pool: p.Name(), Backend: p.Backends()[0].ID, InFlight: 5}}}}, now)
	want := []Load{{Pool: p.Name(), Backend: d.Backend.ID, InFlight: 1, Backlog: feedback.Backlog{Tokens: 6400, Began: now}}}
	if diff := cmp.Diff(want, r.Loads(nil, now)); diff != "" {
		t.Errorf("loads (-want +got):\n%s", diff)
	}
	end := now.Add(time.Second)
	r.Complete(d, feedback.Outcome{Now: end, Result: feedback.Success, FirstByte: true})
	if got := r.Loads(nil, end); len(got) != 1 || got[0].InFlight != 0 || !got[0].Backlog.Progress.Equal(end) {
		t.Errorf("progress is not told: %+v", got)
	}
	if got := r.Loads(nil, end.Add(peerSilence)); len(got) != 0 {
		t.Errorf("an idle router tells of %+v", got)
	}
}

// sharedIndex notes what the others are told.
type sharedIndex struct {
	kvindex.Index
	told []string
}

var _ kvindex.Shared = (*sharedIndex)(nil)

func (x *sharedIndex) Promise(_ kvindex.Holder, keys []kvindex.Key, _ kvindex.Stamp) kvindex.Promise {
	x.told = append(x.told, fmt.Sprintf("promised %d", len(keys)))
	return kvindex.Promise(len(x.told))
}

func (x *sharedIndex) Publish(_ kvindex.Holder, keys []kvindex.Key, _ kvindex.Stamp, kept kvindex.Promise) {
	x.told = append(x.told, fmt.Sprintf("published %d, kept %d", len(keys), kept))
}

func (x *sharedIndex) Withdraw(broken kvindex.Promise) {
	x.told = append(x.told, fmt.Sprintf("withdrawn %d", broken))
}

// TestPromises: what a backend was sent is promised to the other routers, and every promise
// ends once: kept at the first token, or withdrawn when nothing came of it.
func TestPromises(t *testing.T) {
	now := time.Unix(2000, 0)
	for _, tc := range []struct {
		name    string
		token   bool
		outcome feedback.Outcome
		want    []string
	}{
		{"answered", true, feedback.Outcome{Result: feedback.Success, FirstByte: true}, []string{"promised 100", "published 100, kept 1"}},
		{"answered at once", false, feedback.Outcome{Result: feedback.Success, FirstByte: true}, []string{"promised 100", "published 100, kept 1"}},
		{"answered without a token", false, feedback.Outcome{Result: feedback.Success}, []string{"promised 100", "published 100, kept 1"}},
		{"abandoned after the first token", true, feedback.Outcome{Result: feedback.ClientClosed, FirstByte: true}, []string{"promised 100", "published 100, kept 1"}},
		{"abandoned before", false, feedback.Outcome{Result: feedback.ClientClosed}, []string{"promised 100", "withdrawn 1"}},
		{"refused", false, feedback.Outcome{Result: feedback.Unavailable}, []string{"promised 100", "withdrawn 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := &sharedIndex{Index: kvindex.NewMemory(kvindex.MemoryConfig{})}
			r := New(Options{Index: x})
			p, err := r.AddPool(spec("pool", nil, "http://b1:80"))
			if err != nil {
				t.Fatal(err)
			}
			d, err := r.Route(docRequest(p, "doc", now))
			if err != nil {
				t.Fatal(err)
			}
			if tc.token {
				r.FirstToken(d, now.Add(time.Second))
				r.FirstToken(d, now.Add(time.Second))
			}
			tc.outcome.Now = now.Add(2 * time.Second)
			r.Complete(d, tc.outcome)
			r.Complete(d, tc.outcome)
			if diff := cmp.Diff(tc.want, x.told); diff != "" {
				t.Errorf("the others are told (-want +got):\n%s", diff)
			}
			if d.Keys() != nil {
				t.Error("the keys are kept after the end")
			}
		})
	}
}

// TestPromiseOfABackendThatLeft: a promise is withdrawn although the pool has not got the
// backend any more, for others may.
func TestPromiseOfABackendThatLeft(t *testing.T) {
	now := time.Unix(2000, 0)
	x := &sharedIndex{Index: kvindex.NewMemory(kvindex.MemoryConfig{})}
	r := New(Options{Index: x})
	p, err := r.AddPool(spec("pool", nil, "http://b1:80"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Route(docRequest(p, "doc", now))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.SetBackends(nil); err != nil {
		t.Fatal(err)
	}
	r.Complete(d, feedback.Outcome{Now: now, Result: feedback.Success, FirstByte: true})
	if diff := cmp.Diff([]string{"promised 100", "withdrawn 1"}, x.told); diff != "" {
		t.Errorf("the others are told (-want +got):\n%s", diff)
	}
}

// TestPeersGiveRoomToWaiters: who waits for a slot is called when another router's requests
// leave one.
func TestPeersGiveRoomToWaiters(t *testing.T) {
	r := New(Options{})
	one := spec("pool", nil, "http://b1:80", "http://b2:80")
	one.Config.OnSaturation, one.Config.ConcurrencyThreshold = Queue, 1
	p, err := r.AddPool(one)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(2000, 0)
	var loads []Load
	for _, b := range p.Backends() {
		loads = append(loads, Load{Pool: "pool", Backend: b.ID, InFlight: 1})
	}
	r.SetPeers([]PeerReport{{At: now, Loads: loads}}, now)
	if _, err := r.Route(docRequest(p, "doc", now)); err == nil {
		t.Fatal("there is room")
	}
	w, err := p.Join("", 2, 2)
	if err != nil {
		t.Fatal("no place in the line")
	}
	if called(w) {
		t.Fatal("called before there is room")
	}
	r.SetPeers(nil, now)
	if !called(w) {
		t.Error("not called when there is room")
	}
}

// TestPeerHorizon: what another router found to be gone is gone here too, but not the
// blocks of what is in flight.
func TestPeerHorizon(t *testing.T) {
	var causes []string
	r := New(Options{Hooks: Hooks{HorizonMoved: func(_ *Pool, _ *backends.Backend, cause string, _ int) { causes = append(causes, cause) }}})
	p, err := r.AddPool(spec("pool", nil, "http://b1:80"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(2000, 0)
	play(t, r, docRequest(p, "old", now), time.Second, feedback.Usage{})
	flying, err := r.Route(docRequest(p, "new", now.Add(2*time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	horizon := kvindex.Stamp(now.Add(3 * time.Second).UnixNano())
	for range 2 { // a horizon that is known already is not news
		r.PeerHorizon("pool", flying.Backend.ID, horizon, horizon)
		r.PeerHorizon("pool", "nobody", horizon, horizon)
		r.PeerHorizon("none", flying.Backend.ID, horizon, horizon)
	}
	s := p.Status(now.Add(4 * time.Second))[0]
	if s.Index.Blocks != 100 || !s.Horizon.Equal(now.Add(3*time.Second)) {
		t.Errorf("%d blocks, horizon %v: want those in flight, and the peer's horizon", s.Index.Blocks, s.Horizon)
	}
	if diff := cmp.Diff([]string{causePeer}, causes); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
}

// TestAgreeUnheard: rendezvous order comes first only in the pools where routers do not hear
// of each other.
func TestAgreeUnheard(t *testing.T) {
	configs := map[string]Config{"one": DefaultConfig(), "several": DefaultConfig(), "other": DefaultConfig()}
	several := configs["several"]
	several.Replicas = 2
	configs["several"] = several
	for _, tc := range []struct {
		sharing      Sharing
		one, several bool
	}{
		{Alone, false, true},
		{Fresh, false, false},
		{Cut, true, true},
	} {
		r := New(Options{})
		for name, config := range configs {
			if _, err := r.AddPool(PoolSpec{Name: name, Config: config, Ejection: backends.DefaultEjection()}); err != nil {
				t.Fatal(err)
			}
		}
		r.SetSharing("one", tc.sharing)
		r.SetSharing("several", tc.sharing)
		r.SetSharing("nobody", Cut)
		for name, want := range map[string]bool{"one": tc.one, "several": tc.several, "other": false} {
			if got := r.Find(name).agreeUnheard(); got != want {
				t.Errorf("%v, pool %s: %v", tc.sharing, name, got)
			}
		}
	}
}
