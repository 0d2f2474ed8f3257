package indextest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/warmroute/warmroute/kvindex"
	"pgregory.net/rapid"
)

// Restorer is an index that what is known from elsewhere can be merged into, by way of the
// memory that it has.
type Restorer interface {
	kvindex.Index
	Resident(h kvindex.Holder) kvindex.Resident
}

// RunRestore runs the suite of what a [Restorer] does beside being an index.
func RunRestore(t *testing.T, factory func(t testing.TB, capacity int) Restorer) {
	for _, behaviour := range []struct {
		name string
		test func(*testing.T, func(testing.TB, int) Restorer)
	}{
		{"an empty index holds what is restored", testRestoreEmpty},
		{"what is newer here stays newer", testRestoreOlder},
		{"what is restored renews what is older here", testRestoreNewer},
		{"beyond the capacity the oldest go", testRestoreCapacity},
		{"what was forgotten does not come back", testRestoreForgotten},
		{"nothing that a restored block rests on is retracted", testRestoreRetract},
		{"whoever has a dropped backend's number is left alone", testRestoreDropped},
		{"entries are visited until enough", testEntries},
		{"restoring while requests run", testRestoreConcurrent},
		{"random restores agree with a naive list", testRestoreModel},
	} {
		t.Run(behaviour.name, func(t *testing.T) { behaviour.test(t, factory) })
	}
}

// Entries are the blocks of a chain as [kvindex.Resident.Restore] takes them: the head was
// last used at last, each block after it a moment earlier.
func Entries(keys []kvindex.Key, last kvindex.Stamp) []kvindex.Entry {
	entries := make([]kvindex.Entry, len(keys))
	for i, key := range keys {
		entries[len(keys)-1-i] = kvindex.Entry{Key: key, LastUse: last - kvindex.Stamp(i)}
	}
	return entries
}

// byLastUse returns entries, oldest first.
func byLastUse(last map[kvindex.Key]kvindex.Stamp) []kvindex.Entry {
	entries := make([]kvindex.Entry, 0, len(last))
	for key, stamp := range last {
		entries = append(entries, kvindex.Entry{Key: key, LastUse: stamp})
	}
	slices.SortFunc(entries, func(a, b kvindex.Entry) int { return int(a.LastUse - b.LastUse) })
	return entries
}

func testRestoreEmpty(t *testing.T, factory func(testing.TB, int) Restorer) {
	const length = 3000 // more than one step
	x := factory(t, 2*length)
	h, other := add(t, x, "b1"), add(t, x, "b2")
	keys := Chain("f", "", 0, length)
	x.Resident(h).Restore(Entries(keys, 10_000))
	wantDepth(t, x, h, keys, length)
	wantDepth(t, x, other, keys, 0)
	x.Resident(h).Restore(nil)
	receipt := x.Record(h, keys[:5], 20_000, kvindex.Predicted)
	if last, ok := receipt.LastUse(4); receipt.Before != 5 || !ok || last != 9996 {
		t.Errorf("after the restore: %d held before, block 4 last used at %d, %v, want 5 and 9996", receipt.Before, last, ok)
	}
	if got := x.Forget(h, 9996); got != length-5 {
		t.Errorf("Forget: %d entries, want those not used since, %d", got, length-5)
	}
}

func testRestoreOlder(t *testing.T, factory func(testing.TB, int) Restorer) {
	x := factory(t, 3000)
	h := add(t, x, "b1")
	here, elsewhere := Chain("f", "here", 10, 1500), Chain("f", "elsewhere", 10, 1400)
	x.Record(h, here, 10_000, kvindex.Observed)
	x.Resident(h).Restore(Entries(elsewhere, 9000))
	wantDepth(t, x, h, here, 1500)
	wantDepth(t, x, h, elsewhere, 1400)
	if got := x.Stats(h); got.Blocks != 2890 || got.Evicted != 0 {
		t.Errorf("Stats: %+v, want 2890 blocks, none evicted", got)
	}
	x.Record(h, Chain("g", "", 0, 1000), 11_000, kvindex.Observed)
	wantDepth(t, x, h, here, 1500)
	wantDepth(t, x, h, elsewhere, 510)
}

func testRestoreNewer(t *testing.T, factory func(testing.TB, int) Restorer) {
	x := factory(t, 20)
	h := add(t, x, "b1")
	old, older := Chain("old", "", 0, 8), Chain("older", "", 0, 8)
	x.Record(h, older, 1000, kvindex.Observed)
	x.Record(h, old, 2000, kvindex.Observed)
	x.Resident(h).Restore(Entries(older, 3000)) // another router has used it since
	x.Record(h, Chain("new", "", 0, 10), 4000, kvindex.Observed)
	wantDepth(t, x, h, older, 8)
	wantDepth(t, x, h, old, 2)
}

func testRestoreCapacity(t *testing.T, factory func(testing.TB, int) Restorer) {
	x := factory(t, 2000)
	h := add(t, x, "b1")
	keys, here := Chain("f", "", 0, 2500), Chain("here", "", 0, 100)
	x.Record(h, here, 10_000, kvindex.Observed)
	x.Resident(h).Restore(Entries(keys, 9000))
	wantDepth(t, x, h, here, 100)
	wantDepth(t, x, h, keys, 1900)
	// A full list takes nothing older than all it has.
	x.Resident(h).Restore(Entries(Chain("older", "", 0, 50), 100))
	if got := x.Stats(h); got.Blocks != 2000 || got.Evicted != 0 {
		t.Errorf("Stats: %+v, want 2000 blocks, none evicted", got)
	}
	wantDepth(t, x, h, keys, 1900)
	wantDepth(t, x, h, Chain("older", "", 0, 50), 0)
}

func testRestoreForgotten(t *testing.T, factory func(testing.TB, int) Restorer) {
	x := factory(t, 100)
	h := add(t, x, "b1")
	keys := Chain("f", "", 0, 8)
	x.Forget(h, 995)
	x.Resident(h).Restore(Entries(keys, 1000))
	wantDepth(t, x, h, keys, 5)
}

func testRestoreRetract(t *testing.T, factory func(testing.TB, int) Restorer) {
	x := factory(t, 100)
	h := add(t, x, "b1")
	keys := Chain("f", "", 0, 8)
	receipt := x.Record(h, keys[:4], 2000, kvindex.Predicted)
	x.Resident(h).Restore(Entries(keys, 1000))
	x.Retract(h, keys[:4], receipt)
	wantDepth(t, x, h, keys, 8)
	later := Chain("later", "", 0, 3)
	receipt = x.Record(h, later, 3000, kvindex.Predicted)
	x.Retract(h, later, receipt)
	wantDepth(t, x, h, later, 0)
}

func testRestoreDropped(t *testing.T, factory func(testing.TB, int) Restorer) {
	x := factory(t, 100)
	h := add(t, x, "b1")
	dropped := x.Resident(h)
	receipt := dropped.Record(Chain("early", "", 0, 2), 500, kvindex.Predicted)
	x.Drop(h)
	other := add(t, x, "b2")
	if other != h {
		t.Fatalf("the next backend is number %d, not %d, which is free", other, h)
	}
	keys, early := Chain("f", "", 0, 8), Chain("early", "", 0, 2)
	x.Record(other, early, 500, kvindex.Predicted)
	for name, r := range map[string]kvindex.Resident{"dropped": dropped, "of a number that nobody has": x.Resident(h + 1)} {
		r.Restore(Entries(keys, 1000))
		r.Record(keys, 1000, kvindex.Observed)
		r.Retract(early, receipt)
		r.Entries(func([]kvindex.Entry) bool {
			t.Errorf("a resident that is %s has entries", name)
			return true
		})
		if got := r.Stats(); got.Blocks != 0 {
			t.Errorf("a resident that is %s: %+v", name, got)
		}
	}
	wantDepth(t, x, other, keys, 0)
	wantDepth(t, x, other, early, 2)
}

func testEntries(t *testing.T, factory func(testing.TB, int) Restorer) {
	const length = 3000
	x := factory(t, 2*length)
	h := add(t, x, "b1")
	keys := Chain("f", "", 0, length)
	x.Record(h, keys, 1000, kvindex.Observed)
	x.Record(h, Chain("g", "", 0, 5), 2000, kvindex.Predicted)
	visits := 0
	x.Resident(h).Entries(func([]kvindex.Entry) bool {
		visits++
		return false
	})
	if visits != 1 {
		t.Errorf("%d visits after the first said that it is enough", visits)
	}
	var got []kvindex.Key
	x.Resident(h).Entries(func(entries []kvindex.Entry) bool {
		for _, e := range entries {
			if e.LastUse != 1000 {
				t.Fatalf("last use %d, want 1000", e.LastUse)
			}
			got = append(got, e.Key)
		}
		return true
	})
	slices.Reverse(got)
	if diff := cmp.Diff(keys, got); diff != "" {
		t.Errorf("entries, oldest first, are not the observed chain (-want +got):\n%s", diff)
	}
	wantDepth(t, x, h, keys, length)
}

// testRestoreConcurrent restores while everything else goes on, and checks in the end that
// whoever holds a block holds its parent.
func testRestoreConcurrent(t *testing.T, factory func(testing.TB, int) Restorer) {
	x := factory(t, 4000)
	h := add(t, x, "b1")
	chains := make([][]kvindex.Key, 12)
	for i := range chains {
		chains[i] = Chain("f", fmt.Sprint(i), 40*i, 600)
	}
	// The last use of each block is that of the last chain that has it.
	last := make(map[kvindex.Key]kvindex.Stamp)
	for i, keys := range chains {
		for j, key := range keys {
			last[key] = max(last[key], kvindex.Stamp(100_000*(i+1)-j))
		}
	}
	entries := byLastUse(last)

	var wg sync.WaitGroup
	wg.Go(func() {
		for range 5 {
			x.Resident(h).Restore(entries)
			x.Resident(h).Entries(func([]kvindex.Entry) bool { return true })
		}
	})
	for worker := range 2 {
		wg.Go(func() {
			for i := range 200 {
				keys := chains[(i*5+worker)%len(chains)]
				keys = keys[:1+(i*37)%len(keys)]
				receipt := x.Record(h, keys, kvindex.Stamp(2_000_000+i), kvindex.Status(i%2))
				switch i % 4 {
				case 0:
					x.Retract(h, keys, receipt)
				case 1:
					x.Forget(h, kvindex.Stamp(1000*i))
				}
			}
		})
	}
	wg.Wait()
	held := make(map[kvindex.Key]bool)
	x.Record(h, chains[0][:1], 3_000_000, kvindex.Observed)
	x.Resident(h).Entries(func(entries []kvindex.Entry) bool {
		for _, e := range entries {
			held[e.Key] = true
		}
		return true
	})
	for i, keys := range chains {
		whole := depth(x, h, keys)
		for j, key := range keys {
			if j >= whole && held[key] {
				t.Fatalf("chain %d: block %d is held, and block %d is not", i, j, whole)
			}
		}
	}
}

// restore is what Restore does, in the naive list.
func (m *model) restore(b string, entries []kvindex.Entry) {
	for _, e := range entries {
		if e.LastUse <= m.horizon[b] {
			continue
		}
		at := m.find(b, e.Key)
		switch {
		case at < 0:
		case m.held[b][at].lastUse >= e.LastUse:
			continue
		default:
			m.held[b] = slices.Delete(m.held[b], at, at+1)
		}
		after := slices.IndexFunc(m.held[b], func(h modelEntry) bool { return h.lastUse > e.LastUse })
		if after < 0 {
			after = len(m.held[b])
		}
		m.held[b] = slices.Insert(m.held[b], after, modelEntry{e.Key, e.LastUse, kvindex.Observed})
	}
	m.held[b] = m.held[b][max(0, len(m.held[b])-m.capacity):]
	m.restored[b] = m.clock
}

// testRestoreModel lets two routers learn at random, restores to one what the other
// learned, and compares with naive lists.
func testRestoreModel(t *testing.T, factory func(testing.TB, int) Restorer) {
	chains := make([][]kvindex.Key, 0, 12)
	for family := range 3 {
		for member := range 4 {
			chains = append(chains, Chain(fmt.Sprint(family), fmt.Sprint(member), 2+member*2, 4+3*member+family))
		}
	}
	const here = "here"
	rapid.Check(t, func(rt *rapid.T) {
		capacity := rapid.IntRange(1, 60).Draw(rt, "capacity")
		x := factory(t, capacity)
		naive := &model{
			capacity: capacity, held: make(map[string][]modelEntry),
			horizon: make(map[string]kvindex.Stamp), restored: make(map[string]kvindex.Stamp),
		}
		h := add(t, x, here)
		elsewhere := make(map[kvindex.Key]kvindex.Stamp)
		var receipts []kvindex.Receipt
		var recorded [][]kvindex.Key
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			keys := rapid.SampledFrom(chains).Draw(rt, "chain")
			keys = keys[:rapid.IntRange(1, len(keys)).Draw(rt, "length")]
			status := rapid.SampledFrom([]kvindex.Status{kvindex.Predicted, kvindex.Observed}).Draw(rt, "status")
			naive.clock += 100
			switch rapid.SampledFrom([]string{"here", "here", "elsewhere", "elsewhere", "retract", "forget", "restore"}).Draw(rt, "op") {
			case "here":
				got := x.Record(h, keys, naive.clock, status)
				if want := naive.record(here, keys, naive.clock, status); got != want {
					rt.Fatalf("Record: got %+v, want %+v", got, want)
				}
				receipts, recorded = append(receipts, got), append(recorded, keys)
			case "elsewhere":
				for i, key := range keys {
					elsewhere[key] = naive.clock - kvindex.Stamp(1+i)
				}
			case "retract":
				if len(receipts) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(receipts)-1).Draw(rt, "receipt")
				x.Retract(h, recorded[i], receipts[i])
				if receipts[i].Stamp > naive.restored[here] {
					naive.retract(here, recorded[i], receipts[i])
				}
			case "forget":
				horizon := kvindex.Stamp(rapid.IntRange(0, int(naive.clock)).Draw(rt, "horizon"))
				naive.horizon[here] = max(naive.horizon[here], horizon)
				if got, want := x.Forget(h, horizon), naive.forget(here, horizon); got != want {
					rt.Fatalf("Forget: got %d, want %d", got, want)
				}
			case "restore":
				entries := byLastUse(elsewhere)
				x.Resident(h).Restore(entries)
				if len(entries) > 0 {
					naive.restore(here, entries)
				}
			}
			var want, got []kvindex.Entry
			for _, e := range naive.held[here] {
				if e.status == kvindex.Observed {
					want = append(want, kvindex.Entry{Key: e.key, LastUse: e.lastUse})
				}
			}
			x.Resident(h).Entries(func(entries []kvindex.Entry) bool {
				got = append(got, entries...)
				return true
			})
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("entries (-want +got):\n%s", diff)
			}
			for _, chain := range chains {
				if got, want := depth(x, h, chain), naive.depth(here, chain); got != want {
					rt.Fatalf("match: got %d, want %d", got, want)
				}
			}
		}
	})
}
