// Package indextest is the conformance suite that every [kvindex.Index] must pass:
// named behaviours, then random operations compared with a naive map. It imports
// nothing of any implementation.
package indextest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/warmroute/warmroute/kvindex"
	"pgregory.net/rapid"
)

// Factory makes an empty index whose backends may each hold capacity blocks.
type Factory func(t testing.TB, capacity int) kvindex.Index

// Chain returns the keys of a made-up prompt: the first shared keys are common to
// all chains of the same family.
func Chain(family, member string, shared, length int) []kvindex.Key {
	const blockBytes = kvindex.MinBlockBytes
	stream := make([]byte, 0, length*blockBytes)
	for i := range length {
		owner := family
		if i >= shared {
			owner = family + "/" + member
		}
		block := make([]byte, blockBytes)
		copy(block, fmt.Sprintf("%s block %d", owner, i))
		stream = append(stream, block...)
	}
	return kvindex.AppendKeys(nil, kvindex.Scope{BlockBytes: blockBytes}.Seed(), stream, blockBytes)
}

// Run runs the suite.
func Run(t *testing.T, factory Factory) {
	for _, behaviour := range []struct {
		name string
		test func(*testing.T, Factory)
	}{
		{"match is contiguous from block 0", testMatch},
		{"match tells backends apart", testBackends},
		{"the tail goes before its head", testTailFirst},
		{"a prompt longer than the capacity keeps its head", testLongPrompt},
		{"use keeps a chain", testUse},
		{"capacity can shrink and grow", testCapacity},
		{"retract takes back what it added", testRetract},
		{"retract leaves what others use", testRetractShared},
		{"retract leaves what was observed", testRetractObserved},
		{"a receipt tells the last uses before it", testUses},
		{"forget removes up to the horizon", testForget},
		{"a dropped backend holds nothing", testDrop},
		{"numbers are dense and used again", testNumbers},
		{"more backends than a word has bits", testManyBackends},
		{"concurrent use", testConcurrent},
		{"random operations agree with a naive map", testModel},
	} {
		t.Run(behaviour.name, func(t *testing.T) { behaviour.test(t, factory) })
	}
}

func add(t testing.TB, x kvindex.Index, backend string) kvindex.Holder {
	t.Helper()
	h, err := x.Add(backend)
	if err != nil {
		t.Fatalf("Add(%q): %v", backend, err)
	}
	return h
}

// depth returns how many leading blocks of keys one backend holds.
func depth(x kvindex.Index, h kvindex.Holder, keys []kvindex.Key) int {
	depths := make([]int, x.Holders())
	x.Match(keys, depths)
	return depths[h]
}

func wantDepth(t testing.TB, x kvindex.Index, h kvindex.Holder, keys []kvindex.Key, want int) {
	t.Helper()
	if got := depth(x, h, keys); got != want {
		t.Errorf("match of backend %d: got %d blocks, want %d", h, got, want)
	}
}

func testMatch(t *testing.T, factory Factory) {
	x := factory(t, 100)
	h := add(t, x, "b1")
	first, second := Chain("f", "1", 3, 8), Chain("f", "2", 3, 5)
	wantDepth(t, x, h, first, 0)
	x.Record(h, first, 1, kvindex.Predicted)
	wantDepth(t, x, h, first, 8)
	wantDepth(t, x, h, first[:4], 4)
	wantDepth(t, x, h, second, 3)
	// A block counts only with everything before it: the tail alone is no match.
	wantDepth(t, x, h, append(slices.Clone(Chain("g", "", 0, 1)), first[1:]...), 0)
	wantDepth(t, x, h, nil, 0)
	if got := x.Stats(h).Blocks; got != 8 {
		t.Errorf("Stats.Blocks: got %d, want 8", got)
	}
}

func testBackends(t *testing.T, factory Factory) {
	x := factory(t, 100)
	a, b, c := add(t, x, "a"), add(t, x, "b"), add(t, x, "c")
	keys := Chain("f", "1", 0, 6)
	x.Record(a, keys[:6], 1, kvindex.Observed)
	x.Record(b, keys[:2], 2, kvindex.Observed)
	depths := []int{9, 9, 9, 9, 9}
	x.Match(keys, depths)
	if got, want := []int{depths[a], depths[b], depths[c]}, []int{6, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("Match: got %v, want %v", got, want)
	}
	if depths[3] != 0 || depths[4] != 0 {
		t.Errorf("Match left %v beyond the last backend", depths[3:])
	}
}

func testTailFirst(t *testing.T, factory Factory) {
	x := factory(t, 10)
	h := add(t, x, "b1")
	old, recent := Chain("old", "", 0, 6), Chain("new", "", 0, 7)
	x.Record(h, old, 1, kvindex.Observed)
	x.Record(h, recent, 2, kvindex.Observed)
	wantDepth(t, x, h, recent, 7)
	wantDepth(t, x, h, old, 3)
	if got := x.Stats(h); got.Blocks != 10 || got.Evicted != 3 {
		t.Errorf("Stats: got %+v, want 10 blocks and 3 evicted", got)
	}
}

func testLongPrompt(t *testing.T, factory Factory) {
	x := factory(t, 10)
	h := add(t, x, "b1")
	keys := Chain("long", "", 0, 25)
	if r := x.Record(h, keys, 1, kvindex.Predicted); r.Recorded != 10 || r.Before != 0 {
		t.Errorf("Record: got %+v, want 10 blocks recorded, 0 before", r)
	}
	wantDepth(t, x, h, keys, 10)
}

func testUse(t *testing.T, factory Factory) {
	x := factory(t, 10)
	h := add(t, x, "b1")
	kept, lost, next := Chain("kept", "", 0, 4), Chain("lost", "", 0, 4), Chain("next", "", 0, 6)
	x.Record(h, kept, 1, kvindex.Observed)
	x.Record(h, lost, 2, kvindex.Observed)
	if r := x.Record(h, kept, 3, kvindex.Predicted); r.Before != 4 {
		t.Errorf("Record of what is held: Before = %d, want 4", r.Before)
	}
	x.Record(h, next, 4, kvindex.Observed)
	wantDepth(t, x, h, kept, 4)
	wantDepth(t, x, h, lost, 0)
	wantDepth(t, x, h, next, 6)
}

func testCapacity(t *testing.T, factory Factory) {
	x := factory(t, 10)
	h := add(t, x, "b1")
	keys := Chain("f", "", 0, 10)
	x.Record(h, keys, 1, kvindex.Observed)
	x.SetCapacity(h, 4)
	wantDepth(t, x, h, keys, 4)
	x.SetCapacity(h, 8)
	x.Record(h, keys, 2, kvindex.Observed)
	wantDepth(t, x, h, keys, 8)
}

func testRetract(t *testing.T, factory Factory) {
	x := factory(t, 100)
	h := add(t, x, "b1")
	keys := Chain("f", "", 0, 8)
	x.Record(h, keys[:3], 1, kvindex.Observed)
	receipt := x.Record(h, keys, 2, kvindex.Predicted)
	if receipt.Before != 3 || receipt.Recorded != 8 {
		t.Errorf("Record: got %+v, want 3 before and 8 recorded", receipt)
	}
	x.Retract(h, keys, receipt)
	wantDepth(t, x, h, keys, 3)
	x.Retract(h, keys, receipt) // once more does no harm
	wantDepth(t, x, h, keys, 3)
}

func testRetractShared(t *testing.T, factory Factory) {
	x := factory(t, 100)
	h := add(t, x, "b1")
	mine, theirs := Chain("f", "mine", 4, 8), Chain("f", "theirs", 4, 8)
	receipt := x.Record(h, mine, 5, kvindex.Predicted)
	x.Record(h, theirs, 5, kvindex.Predicted) // at the same moment
	x.Retract(h, mine, receipt)
	wantDepth(t, x, h, mine, 4)
	wantDepth(t, x, h, theirs, 8)
}

func testRetractObserved(t *testing.T, factory Factory) {
	x := factory(t, 100)
	h := add(t, x, "b1")
	keys := Chain("f", "", 0, 8)
	receipt := x.Record(h, keys, 5, kvindex.Predicted)
	x.Record(h, keys, 6, kvindex.Observed)
	x.Retract(h, keys, receipt)
	wantDepth(t, x, h, keys, 8)
}

func testUses(t *testing.T, factory Factory) {
	x := factory(t, 100)
	h := add(t, x, "b1")
	keys := Chain("f", "", 0, 20)
	for i := range 12 { // block i was last used at 100·(12−i), all beyond 11 never
		x.Record(h, keys[:12-i], kvindex.Stamp(100*(i+1)), kvindex.Observed)
	}
	receipt := x.Record(h, keys, 5000, kvindex.Predicted)
	for i, want := range []kvindex.Stamp{1200, 1100, 1000, 900, 800, 700, 600, 100, 100, 100, 100, 100} {
		if got, ok := receipt.LastUse(i); !ok || got != want {
			t.Errorf("last use of block %d: got %d, %v, want %d", i, got, ok, want)
		}
	}
	for _, i := range []int{-1, 12, 19} {
		if got, ok := receipt.LastUse(i); ok {
			t.Errorf("last use of block %d, which was not held: got %d", i, got)
		}
	}
	for i, want := range []int{0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 12, 19} {
		at := i
		if i == 13 {
			at = 19 // not held: a run of its own
		}
		if got := receipt.RunStart(at); got != want {
			t.Errorf("start of the run of block %d: got %d, want %d", at, got, want)
		}
	}
	again := x.Record(h, keys, 6000, kvindex.Predicted)
	if got, ok := again.LastUse(19); !ok || got != 5000 || again.Uses[0].Until != 20 {
		t.Errorf("after a whole use: got %d, %v, runs %v", got, ok, again.Uses)
	}
}

func testForget(t *testing.T, factory Factory) {
	x := factory(t, 100)
	a, b := add(t, x, "a"), add(t, x, "b")
	old, recent := Chain("old", "", 0, 4), Chain("new", "", 0, 3)
	for _, h := range []kvindex.Holder{a, b} {
		x.Record(h, old, 1000, kvindex.Observed)
		x.Record(h, recent, 3000, kvindex.Observed)
	}
	if got := x.Forget(a, 2000); got != 4 {
		t.Errorf("Forget: got %d entries, want 4", got)
	}
	wantDepth(t, x, a, old, 0)
	wantDepth(t, x, a, recent, 3)
	wantDepth(t, x, b, old, 4)
	if got := x.Stats(a); got.Evicted != 0 {
		t.Errorf("Stats.Evicted: got %d, want 0: forgetting is no eviction", got.Evicted)
	}
	if got := x.Forget(a, 3000); got != 3 {
		t.Errorf("Forget up to the last use: got %d entries, want 3", got)
	}
}

func testDrop(t *testing.T, factory Factory) {
	x := factory(t, 100)
	a, b := add(t, x, "a"), add(t, x, "b")
	keys := Chain("f", "", 0, 4)
	x.Record(a, keys, 1, kvindex.Observed)
	x.Record(b, keys, 1, kvindex.Observed)
	x.Drop(a)
	x.Drop(a)
	x.Record(a, keys, 2, kvindex.Observed) // of a request still in flight
	x.Retract(a, keys, kvindex.Receipt{Recorded: 4})
	x.SetCapacity(a, 5)
	wantDepth(t, x, a, keys, 0)
	wantDepth(t, x, b, keys, 4)
	if got := x.Stats(a); got.Blocks != 0 {
		t.Errorf("Stats of a dropped backend: got %+v", got)
	}
}

func testNumbers(t *testing.T, factory Factory) {
	x := factory(t, 100)
	a, b := add(t, x, "a"), add(t, x, "b")
	if a == b || int(max(a, b)) >= x.Holders() {
		t.Errorf("Add: got %d and %d of %d, want two dense numbers", a, b, x.Holders())
	}
	if again := add(t, x, "a"); again != a {
		t.Errorf("Add of a known backend: got %d, want %d", again, a)
	}
	keys := Chain("f", "", 0, 4)
	x.Record(a, keys, 1, kvindex.Observed)
	x.Drop(a)
	c := add(t, x, "c")
	if c != a {
		t.Errorf("Add after Drop: got %d, want the free number %d", c, a)
	}
	wantDepth(t, x, c, keys, 0)
	x.Drop(b)
	all, err := x.AddAll([]string{"d", "c", "e", "d"})
	if err != nil || len(all) != 4 || all[0] != b || all[1] != c || all[3] != all[0] || slices.Contains([]kvindex.Holder{b, c}, all[2]) {
		t.Errorf("AddAll: got %v, %v, want %d, %d, another, %d", all, err, b, c, b)
	}
	if again := add(t, x, "e"); again != all[2] || int(again) >= x.Holders() {
		t.Errorf("Add of one that was added with others: got %d of %d, want %d", again, x.Holders(), all[2])
	}
}

func testManyBackends(t *testing.T, factory Factory) {
	x := factory(t, 100)
	keys := Chain("f", "", 0, 50)
	const count = 150
	holders := make([]kvindex.Holder, count)
	for i := range holders {
		holders[i] = add(t, x, fmt.Sprint("b", i))
		x.Record(holders[i], keys[:i%51], kvindex.Stamp(i+1), kvindex.Observed)
	}
	depths := make([]int, x.Holders())
	x.Match(keys, depths)
	for i, h := range holders {
		if depths[h] != i%51 {
			t.Errorf("match of backend %d: got %d, want %d", i, depths[h], i%51)
		}
	}
}

func testConcurrent(t *testing.T, factory Factory) {
	x := factory(t, 64)
	var wg sync.WaitGroup
	for worker := range 4 {
		h := add(t, x, fmt.Sprint("b", worker%2))
		wg.Go(func() {
			for i := range 300 {
				keys := Chain("f", fmt.Sprint(worker, i%7), 5, 10+i%30)
				receipt := x.Record(h, keys, kvindex.Stamp(i), kvindex.Status(i%2))
				depths := make([]int, x.Holders())
				x.Match(keys, depths)
				for _, d := range depths {
					if d < 0 || d > len(keys) {
						t.Errorf("match of %d blocks: got %d", len(keys), d)
					}
				}
				switch i % 5 {
				case 0:
					x.Retract(h, keys, receipt)
				case 1:
					x.Forget(h, kvindex.Stamp(i-20))
				case 2:
					x.Stats(h)
				}
			}
		})
	}
	wg.Wait()
}

// model is the naive index: for each backend the entries in order of last use.
type model struct {
	capacity int
	held     map[string][]modelEntry // most recently used last
	clock    kvindex.Stamp
	horizon  map[string]kvindex.Stamp // up to which everything was forgotten
	restored map[string]kvindex.Stamp // when something was last restored
}

type modelEntry struct {
	key     kvindex.Key
	lastUse kvindex.Stamp
	status  kvindex.Status
}

func (m *model) find(b string, key kvindex.Key) int {
	return slices.IndexFunc(m.held[b], func(e modelEntry) bool { return e.key == key })
}

func (m *model) depth(b string, keys []kvindex.Key) int {
	for i, key := range keys {
		if m.find(b, key) < 0 {
			return i
		}
	}
	return len(keys)
}

func (m *model) record(b string, keys []kvindex.Key, now kvindex.Stamp, status kvindex.Status) kvindex.Receipt {
	keys = keys[:min(len(keys), m.capacity)]
	receipt := kvindex.Receipt{Before: m.depth(b, keys), Recorded: len(keys), Stamp: now}
	run := -1
	for i, key := range keys[:receipt.Before] {
		last := m.held[b][m.find(b, key)].lastUse
		if run < 0 || last != receipt.Uses[run].Last && run < kvindex.MaxUses-1 {
			run++
		}
		receipt.Uses[run] = kvindex.Use{Until: i + 1, Last: last}
	}
	for i := len(keys) - 1; i >= 0; i-- {
		e := modelEntry{keys[i], now, status}
		if at := m.find(b, keys[i]); at >= 0 {
			e.status = max(m.held[b][at].status, status)
			m.held[b] = slices.Delete(m.held[b], at, at+1)
		} else if len(m.held[b]) == m.capacity {
			m.held[b] = slices.Delete(m.held[b], 0, 1)
		}
		m.held[b] = append(m.held[b], e)
	}
	return receipt
}

func (m *model) retract(b string, keys []kvindex.Key, receipt kvindex.Receipt) {
	for i := receipt.Recorded - 1; i >= receipt.Before; i-- {
		at := m.find(b, keys[i])
		if at < 0 {
			continue
		}
		if e := m.held[b][at]; e.lastUse != receipt.Stamp || e.status != kvindex.Predicted {
			return
		}
		m.held[b] = slices.Delete(m.held[b], at, at+1)
	}
}

func (m *model) forget(b string, horizon kvindex.Stamp) int {
	before := len(m.held[b])
	m.held[b] = slices.DeleteFunc(m.held[b], func(e modelEntry) bool { return e.lastUse <= horizon })
	return before - len(m.held[b])
}

// testModel compares the index with the naive one after every random operation, and
// checks the invariant that whoever holds a block holds its parent.
func testModel(t *testing.T, factory Factory) {
	chains := make([][]kvindex.Key, 0, 24)
	for family := range 4 {
		for member := range 6 {
			chains = append(chains, Chain(fmt.Sprint(family), fmt.Sprint(member), 2+member*2, 4+3*member+family))
		}
	}
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(rt *rapid.T) {
		capacity := rapid.IntRange(1, 40).Draw(rt, "capacity")
		x := factory(t, capacity)
		naive := &model{capacity: capacity, held: make(map[string][]modelEntry)}
		holders := make(map[string]kvindex.Holder)
		for _, name := range names {
			holders[name] = add(t, x, name)
		}
		type done struct {
			backend string
			keys    []kvindex.Key
			receipt kvindex.Receipt
		}
		var receipts []done
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			name := rapid.SampledFrom(names).Draw(rt, "backend")
			h := holders[name]
			keys := rapid.SampledFrom(chains).Draw(rt, "chain")
			keys = keys[:rapid.IntRange(0, len(keys)).Draw(rt, "length")]
			switch rapid.SampledFrom([]string{"record", "record", "record", "retract", "forget", "drop"}).Draw(rt, "op") {
			case "record":
				naive.clock += 10
				status := rapid.SampledFrom([]kvindex.Status{kvindex.Predicted, kvindex.Observed}).Draw(rt, "status")
				got := x.Record(h, keys, naive.clock, status)
				if want := naive.record(name, keys, naive.clock, status); got != want {
					rt.Fatalf("Record: got %+v, want %+v", got, want)
				}
				receipts = append(receipts, done{name, keys, got})
			case "retract":
				if len(receipts) > 0 {
					r := rapid.SampledFrom(receipts).Draw(rt, "receipt")
					x.Retract(holders[r.backend], r.keys, r.receipt)
					naive.retract(r.backend, r.keys, r.receipt)
				}
			case "forget":
				horizon := kvindex.Stamp(rapid.IntRange(0, int(naive.clock)).Draw(rt, "horizon"))
				if got, want := x.Forget(h, horizon), naive.forget(name, horizon); got != want {
					rt.Fatalf("Forget: got %d, want %d", got, want)
				}
			case "drop":
				x.Drop(h)
				naive.held[name] = nil
				holders[name] = add(t, x, name)
				receipts = slices.DeleteFunc(receipts, func(r done) bool { return r.backend == name })
			}
			for _, name := range names {
				if got, want := x.Stats(holders[name]).Blocks, len(naive.held[name]); got != want {
					rt.Fatalf("Stats(%s).Blocks: got %d, want %d", name, got, want)
				}
			}
			for _, chain := range chains {
				depths := make([]int, x.Holders())
				x.Match(chain, depths)
				for _, name := range names {
					want := naive.depth(name, chain)
					if got := depths[holders[name]]; got != want {
						rt.Fatalf("match of %s: got %d, want %d", name, got, want)
					}
					for _, key := range chain[want:] {
						if naive.find(name, key) >= 0 {
							rt.Fatalf("%s holds a block without its parent", name)
						}
					}
				}
			}
		}
	})
}
