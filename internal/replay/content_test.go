package replay

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/warmroute/warmroute/internal/workload"
	"pgregory.net/rapid"
)

// TestChainSharesPrefixes: however two prompts are cut into segments, their names agree as
// far as their content does, and no further.
func TestChainSharesPrefixes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 40).Draw(rt, "size")
		common := rapid.IntRange(1, 200).Draw(rt, "common")
		tailA := rapid.IntRange(0, 100).Draw(rt, "tail a")
		tailB := rapid.IntRange(0, 100).Draw(rt, "tail b")
		a := appendChain[uint64](nil, 7, []run{{1, common}, {2, tailA}}, size)
		b := appendChain[uint64](nil, 7, []run{{1, common}, {3, tailB}}, size)
		if len(a) != (common+tailA)/size {
			rt.Fatalf("%d names for %d full blocks", len(a), (common+tailA)/size)
		}
		same := 0
		for same < min(len(a), len(b)) && a[same] == b[same] {
			same++
		}
		if same != common/size {
			rt.Fatalf("%d names agree, and the content of %d blocks does", same, common/size)
		}
		if other := appendChain[uint64](nil, 8, []run{{1, common}}, size); len(other) > 0 && other[0] == a[0] {
			rt.Fatal("another seed gives the same name")
		}
	})
}

func TestTokenRunsDiverge(t *testing.T) {
	prompt := []workload.Segment{{ID: 1, Tokens: 100}, {ID: 2, Tokens: 50}}
	follow := []workload.Segment{{ID: 3, Tokens: 10}}
	opt := cmp.AllowUnexported(run{})
	for _, tc := range []struct {
		at   int
		want []run
	}{
		{-1, []run{{1, 100}, {2, 50}, {3, 10}}},
		{0, []run{{9, 100}, {workload.Mix(9), 50}, {workload.Mix(workload.Mix(9)), 10}}},
		{30, []run{{1, 30}, {9, 70}, {workload.Mix(9), 50}, {workload.Mix(workload.Mix(9)), 10}}},
		{100, []run{{1, 100}, {9, 50}, {workload.Mix(9), 10}}},
	} {
		got := appendTokenRuns(nil, prompt, follow, tc.at, 9)
		if diff := cmp.Diff(tc.want, got, opt); diff != "" {
			t.Errorf("diverging at %d (-want +got):\n%s", tc.at, diff)
		}
	}
}

func TestUnitsFollowContent(t *testing.T) {
	u := units{bytesPerToken: 4, spread: 0.15, seed: 3}
	sum := 0
	for id := range uint64(1000) {
		n := u.bytes(workload.Segment{ID: id, Tokens: 1000})
		if n < 3400 || n > 4600 {
			t.Fatalf("1,000 tokens are %d bytes", n)
		}
		if n != u.bytes(workload.Segment{ID: id, Tokens: 1000}) {
			t.Fatal("equal content has two lengths")
		}
		sum += n
	}
	if mean := sum / 1000; mean < 3950 || mean > 4050 {
		t.Errorf("1,000 tokens are %d bytes on average, want about 4,000", mean)
	}
}

func TestAgendaOrder(t *testing.T) {
	var a agenda
	a.add(moment{at: 2, kind: momentStep, node: 1})
	a.add(moment{at: 1, kind: momentArrival, node: 2})
	a.add(moment{at: 1, kind: momentStep, node: 3})
	a.add(moment{at: 1, kind: momentStep, node: 4})
	a.add(moment{at: 0, kind: momentScrape, node: 5})
	var got []int
	for a.work > 0 {
		m, _ := a.next()
		got = append(got, m.node)
	}
	if diff := cmp.Diff([]int{5, 3, 4, 2, 1}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	err := Config{
		StatedCapacity: 1, Noise: Noise{Aborts: 2, FaultEvery: -1}, Faults: []Fault{{Backend: 3}}, CachingOff: []int{1}, BytesPerToken: -1,
	}.Validate()
	const want = `backends: must be at least 1, are 0
bytes_per_token: must be in 0..1e+06, is -1
stated_capacity: it is read by scraping, and scrape_every is 0
noise.aborts: must be in 0..1, is 2
noise.fault_every: must not be negative, is -1
caching_off: 1 is not one of a fleet of 0
faults[0]: lose-cache of backend 3 at 0s is not one of a fleet of 0`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestValidateFactors(t *testing.T) {
	for _, tc := range []struct {
		factor float64
		valid  bool
	}{{0, true}, {0.33, true}, {1e6, true}, {-1, false}, {1.1e6, false}, {math.Inf(1), false}, {math.NaN(), false}} {
		stated, length := smallConfig(1), smallConfig(1)
		stated.StatedCapacity, length.BytesPerToken = tc.factor, tc.factor
		if got := stated.Validate() == nil; got != tc.valid {
			t.Errorf("a capacity stated × %v is valid: %v", tc.factor, got)
		}
		if got := length.Validate() == nil; got != tc.valid {
			t.Errorf("%v bytes per token are valid: %v", tc.factor, got)
		}
	}
}
