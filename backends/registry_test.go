package backends_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/warmroute/warmroute/backends"
)

func registry(t testing.TB, urls ...string) *backends.Registry {
	t.Helper()
	r, err := backends.NewRegistry(backends.DefaultEjection())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Set(specs(urls...)); err != nil {
		t.Fatal(err)
	}
	return r
}

func specs(urls ...string) []backends.Spec {
	all := make([]backends.Spec, len(urls))
	for i, u := range urls {
		all[i] = backends.Spec{URL: u, Rank: backends.NoRank}
	}
	return all
}

func ids(r *backends.Registry) []string {
	var all []string
	for _, b := range r.Snapshot() {
		all = append(all, b.ID)
	}
	return all
}

func TestRegistryKeepsWhoStays(t *testing.T) {
	r := registry(t, "http://b2:80", "http://b1:80")
	b1 := r.Find("b1:80")
	var slot backends.Slot
	b1.Acquire(&slot, 1, 8)
	before := r.Snapshot()
	next := specs("http://b3:80", "http://b1:80")
	next[1].Weight, next[1].ConcurrencyThreshold = 4, 32
	if _, err := r.Set(next); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b1:80", "b3:80"}, ids(r)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if r.Find("b1:80") != b1 || b1.InFlight() != 1 || b1.Weight() != 4 || b1.ConcurrencyThreshold() != 32 {
		t.Errorf("b1: in flight %d, weight %v, threshold %d: want the same backend with 1, 4, 32",
			b1.InFlight(), b1.Weight(), b1.ConcurrencyThreshold())
	}
	if len(before) != 2 || before[0] != b1 {
		t.Error("a snapshot taken before has changed")
	}
	if r.Find("b2:80") != nil {
		t.Error("b2 is still there")
	}
}

// TestDI10: one backend listed three ways is one backend, and is told of.
func TestDI10(t *testing.T) {
	r := registry(t)
	duplicates, err := r.Set(specs("http://b1:8000", "http://b1:8000/", "HTTP://B1:8000"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b1:8000", "b1:8000"}, duplicates); diff != "" {
		t.Errorf("duplicates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b1:8000"}, ids(r)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

// TestDI04: two engines on one host, and two ranks of one engine, are told apart.
func TestDI04(t *testing.T) {
	r := registry(t, "http://127.0.0.1:8001", "http://127.0.0.1:8002")
	var slot backends.Slot
	r.Find("127.0.0.1:8001").Acquire(&slot, 1, 8)
	if got := r.Find("127.0.0.1:8002").InFlight(); got != 0 {
		t.Errorf("8002 has %d in flight that are 8001's", got)
	}
	if _, err := r.Set([]backends.Spec{{URL: "http://b1:1", Rank: 0}, {URL: "http://b1:1", Rank: 1}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b1:1#0", "b1:1#1"}, ids(r)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

func TestRegistrySetIsAllOrNothing(t *testing.T) {
	r := registry(t, "http://b1:80")
	next := specs("http://b1:80", "b2")
	next[0].Weight = 9
	if _, err := r.Set(next); err == nil || !strings.Contains(err.Error(), "backends[1]") {
		t.Errorf("Set: got %v, want an error that names backends[1]", err)
	}
	if got := r.Find("b1:80").Weight(); got != 1 {
		t.Errorf("weight of b1 after a refused list: got %v, want 1", got)
	}
}

func TestAcquire(t *testing.T) {
	b := registry(t, "http://b1:80").Snapshot()[0]
	var first, second, third backends.Slot
	if !b.Acquire(&first, 1, 2) || !b.Acquire(&second, 1, 2) {
		t.Fatal("two of two: refused")
	}
	if b.Acquire(&third, 1, 2) {
		t.Fatal("a third of two: accepted")
	}
	if !first.Release() || first.Release() {
		t.Error("Release: want true once, then false")
	}
	if got := b.InFlight(); got != 1 {
		t.Errorf("in flight: got %d, want 1", got)
	}
	if b.Acquire(&third, 2, 2) {
		t.Error("two more of two with one in flight: accepted")
	}
	second.Release()
	if !b.Acquire(&third, 5, 2) {
		t.Error("five of two on an idle backend: refused, but it could never be served")
	}
	if got := b.InFlight(); got != 5 {
		t.Errorf("in flight: got %d, want 5", got)
	}
	third.Release()
	var none backends.Slot
	if none.Release() || b.InFlight() != 0 {
		t.Error("releasing what was never acquired changed something")
	}
	b.SetPeersInFlight(2)
	if b.Acquire(&none, 1, 2) || b.InFlight() != 2 {
		t.Error("peers' requests do not count against the threshold")
	}
	if !b.Acquire(&none, 1, backends.Unbounded) {
		t.Error("without a bound: refused")
	}
}

// TestAcquireNeverOvershoots takes and gives back slots from many goroutines.
func TestAcquireNeverOvershoots(t *testing.T) {
	b := registry(t, "http://b1:80").Snapshot()[0]
	const limit = 5
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				var slot backends.Slot
				if b.Acquire(&slot, 1, limit) {
					if n := b.InFlight(); n < 1 || n > limit {
						t.Errorf("in flight: %d with a limit of %d", n, limit)
					}
					slot.Release()
				}
			}
		})
	}
	wg.Wait()
	if got := b.InFlight(); got != 0 {
		t.Errorf("in flight at the end: %d", got)
	}
}

func TestModels(t *testing.T) {
	b := registry(t, "http://b1:80").Snapshot()[0]
	if _, known := b.Models(); known || !b.Serves("anything") {
		t.Error("an engine that said nothing: want unknown models and the configuration's word")
	}
	list := []backends.Model{{ID: "base", JSON: []byte(`{"id":"base"}`)}, {ID: "lora", JSON: []byte(`{"id":"lora"}`)}}
	if !b.SetModels(list) {
		t.Error("first list: no change reported")
	}
	if b.SetModels([]backends.Model{{ID: "base", JSON: []byte(`{"id":"base"}`)}, {ID: "lora", JSON: []byte(`{"id":"lora"}`)}}) {
		t.Error("the same list: change reported")
	}
	if !b.Serves("lora") || b.Serves("anything") {
		t.Error("Serves does not follow the engine's list")
	}
	if b.SetModels([]backends.Model{{ID: "x", Adapter: true}, {ID: "x"}, {ID: "y"}}); !b.ServesAdapter("x") || b.ServesAdapter("y") || b.ServesAdapter("z") {
		t.Error("ServesAdapter does not follow the engine's list")
	}
	if !b.SetModels(nil) || b.Serves("base") {
		t.Error("an empty list: want no models")
	}
}

func TestByURL(t *testing.T) {
	r := registry(t, "http://b2:80", "http://b1:80/x")
	specs := []backends.Spec{{URL: "http://b1:80/x", Rank: backends.NoRank}}
	for _, rank := range []int{1, 0} {
		specs = append(specs, backends.Spec{URL: "http://B2:80/", Rank: rank})
	}
	if _, err := r.Set(specs); err != nil {
		t.Fatal(err)
	}
	got := make(map[string][]string)
	for url, group := range backends.ByURL(r.Snapshot()) {
		for _, b := range group {
			got[url] = append(got[url], b.ID)
		}
	}
	want := map[string][]string{"http://b1:80/x": {"b1:80/x"}, "http://b2:80": {"b2:80#0", "b2:80#1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if got := backends.ByURL(nil); len(got) != 0 {
		t.Errorf("of no backends: %v", got)
	}
}

// What discovery says of a backend changes it; another engine at its URL is another
// backend, whatever it has in common with the one before.
func TestReadinessAndInstance(t *testing.T) {
	r := registry(t)
	set := func(unready bool, instance string) *backends.Backend {
		t.Helper()
		spec := backends.Spec{URL: "http://b1:8000", Rank: backends.NoRank, Weight: 1, Unready: unready, Instance: instance}
		if _, err := r.Set([]backends.Spec{spec}); err != nil {
			t.Fatal(err)
		}
		b := r.Find("b1:8000")
		if want := map[bool]backends.State{false: backends.Up, true: backends.Unreachable}[unready]; b.State(time.Unix(0, 0)) != want {
			t.Errorf("unready %v: %v, want %v", unready, b.State(time.Unix(0, 0)), want)
		}
		return b
	}
	unknown := set(false, "")
	first := set(true, "a")
	if first != unknown {
		t.Error("a backend whose instance becomes known is another")
	}
	if set(false, "") != first || first.Spec().Instance != "a" {
		t.Error("a source that knows no instance has changed it")
	}
	first.SetUnreachable(true)
	if set(true, "a") != first || !first.Spec().Unready {
		t.Error("a backend that is not ready is another")
	}
	if set(false, "b") == first {
		t.Error("another instance is the same backend")
	}
}

// A backend that takes nothing anyway is no part of the share that may be ejected.
func TestUnreadyIsNoPartOfTheShare(t *testing.T) {
	r := registry(t)
	all := specs("http://b1:80", "http://b2:80", "http://b3:80", "http://b4:80")
	all[2].Unready, all[3].Unready = true, true
	if _, err := r.Set(all); err != nil {
		t.Fatal(err)
	}
	var ejected int
	for _, id := range []string{"b1:80", "b2:80"} {
		for range backends.DefaultEjection().Failures {
			if r.Failed(r.Find(id), time.Unix(100, 0)) {
				ejected++
			}
		}
	}
	if ejected != 1 {
		t.Errorf("%d of 2 ready backends are ejected, want 1", ejected)
	}
}
