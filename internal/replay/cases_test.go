package replay

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// odd makes a part of the requests those of a tenant whose prompts the engines render
// otherwise after the first twentieth.
type odd struct{ workload.Source }

func (o odd) Next() (workload.Request, bool) {
	r, ok := o.Source.Next()
	if r.Session%5 == 0 {
		r.Tenant, r.DivergesAt = "odd", 0.05
	}
	return r, ok
}

func TestRenderingMismatch(t *testing.T) {
	c, d := beliefConfig()
	c.Backends, d.Documents, d.Rate, d.Duration = 3, 150, 1.5, 20*time.Minute
	c.Audit, c.AuditEvery = true, time.Hour
	f := mustNew(t, c)
	r := mustRun(t, f, odd{workload.NewDocs(d, c.Seed)})
	entries, capacity := 0, 0
	for i, n := range f.nodes {
		entries += f.index.Stats(n.holder).Blocks
		capacity += r.Bounds[i]
	}
	// Every request of the odd tenant finds a twentieth at most.
	var odd, even Result
	for _, sample := range r.Samples[len(r.Samples)/2:] {
		if ratio(sample.Cached, sample.Prompt) < 0.06 && sample.Expected > 0 {
			odd.Samples = append(odd.Samples, sample)
		} else {
			even.Samples = append(even.Samples, sample)
		}
	}
	expected := 0
	for _, sample := range odd.Samples {
		expected += sample.Expected
	}
	t.Logf("%s; %d entries of %d; expected of the odd tenant: %d tokens a request; precision of the others %.3f",
		r.Events(), entries, capacity, expected/max(len(odd.Samples), 1), even.Precision())
	// A fifth of the traffic claims to have lost what is there. It may move horizons, a
	// little: of what is as old as anything that is held.
	forgotten := 0
	for _, m := range r.Moves {
		if m.False() {
			forgotten += m.Forgotten
		}
	}
	t.Logf("%d false moves in %v, of %d entries", r.FalseMoves(), r.Duration, forgotten)
	if forgotten > capacity/5 {
		t.Errorf("false moves made %d entries forgotten, and all three lists hold %d", forgotten, capacity)
	}
	if entries < capacity*9/10 {
		t.Errorf("the index holds %d entries of %d", entries, capacity)
	}
	if got := even.Precision(); got < 0.95 {
		t.Errorf("the other tenants' precision is %.3f", got)
	}
}

func TestCachingOff(t *testing.T) {
	c, d := beliefConfig()
	c.Backends, d.Documents, d.Rate, d.Duration = 3, 100, 1, 10*time.Minute
	c.CachingOff = []int{1}
	r := mustRun(t, mustNew(t, c), workload.NewDocs(d, c.Seed))
	if want := map[int]bool{1: true}; !reflect.DeepEqual(r.Hopeless, want) {
		t.Errorf("hopeless: %v, want %v", r.Hopeless, want)
	}
	for _, s := range r.Samples {
		if s.Backend == 1 && s.Predicted > 0 && s.At > time.Minute {
			t.Fatalf("a hit is predicted where nothing is cached: %+v", s)
		}
	}
}

// TestForeignTrafficIsLearned: an engine holds what the router never sent there, until the
// first answer says so.
func TestForeignTrafficIsLearned(t *testing.T) {
	c := smallConfig(1)
	c.Backends = 1
	f := mustNew(t, c)
	var s script
	for n := range 20 {
		s.asks = append(s.asks, docAsk(n%10, n))
	}
	s.gap = time.Second
	s.before = func(i int, at time.Duration) {
		if i < 10 {
			f.submitForeign(at, f.nodes[0], docAsk(i, 100+i))
		}
	}
	r := mustRun(t, f, &s)
	for i, sample := range r.Samples {
		if sample.Cached < 7900 {
			t.Errorf("request %d found %d tokens cached", i, sample.Cached)
		}
		if first := i < 10; first != (sample.Expected == 0) {
			t.Errorf("request %d was expected to find %d tokens cached", i, sample.Expected)
		}
	}
	if r.Foreign != 10 {
		t.Errorf("%d foreign requests, want 10", r.Foreign)
	}
}

func TestRunsRepeat(t *testing.T) {
	play := func(seed uint64) *Result {
		c, d := noisyConfig()
		c.Backends, c.Seed, d.Documents, d.Duration = 3, seed, 150, 5*time.Minute
		c.Noise.FaultEvery = 100
		return mustRun(t, mustNew(t, c), workload.NewDocs(d, c.Seed))
	}
	first, second, other := play(1), play(1), play(2)
	if !reflect.DeepEqual(first, second) {
		t.Errorf("two runs of one seed differ:\n%s\n%s", first.Row(), second.Row())
	}
	if reflect.DeepEqual(first.Samples, other.Samples) {
		t.Error("two seeds give one run")
	}
}

func TestChat(t *testing.T) {
	c, _ := beliefConfig()
	d := workload.DefaultChatConfig()
	d.Duration, d.Rate = 10*time.Minute, 10
	r := mustRun(t, mustNew(t, c), workload.NewChat(d, 1))
	t.Log(Header)
	t.Log(r.Row())
	if got := r.HitRate(); got < 0.75 {
		t.Errorf("hit rate %.3f", got)
	}
	if got := float64(r.Requests) / d.Duration.Seconds(); got < 0.9*d.Rate || got > 1.1*d.Rate {
		t.Errorf("%.1f requests a second, want about %.1f", got, d.Rate)
	}
}

// A run has its length from its requests, and not from what befalls the fleet after them.
func TestDurationIsThatOfTheRequests(t *testing.T) {
	c := smallConfig(1)
	play := func() *Result {
		return mustRun(t, mustNew(t, c), &script{asks: []workload.Request{docAsk(1, 0), docAsk(2, 1)}, gap: time.Second})
	}
	want := play()
	last := want.Samples[1].At + want.Samples[1].TTFT
	if want.Duration <= last || want.Duration > last+2*time.Second {
		t.Errorf("the run lasts %v, the last answer begins at %v", want.Duration, last)
	}
	late := Fault{At: 5 * time.Hour, Kind: LoseCache}
	c.Faults = []Fault{late, {At: time.Second, Kind: LoseCache}}
	got := play()
	if got.Duration != want.Duration || !slices.Equal(got.Missed, []Fault{late}) {
		t.Errorf("with a fault after its end the run lasts %v and misses %v, want %v and %v", got.Duration, got.Missed, want.Duration, late)
	}
}
