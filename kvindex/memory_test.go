package kvindex_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/indextest"
)

func TestMemoryConformance(t *testing.T) {
	indextest.Run(t, func(_ testing.TB, capacity int) kvindex.Index {
		return kvindex.NewMemory(kvindex.MemoryConfig{Capacity: capacity})
	})
}

func TestMemoryMaxBlocksIsSharedEqually(t *testing.T) {
	x := kvindex.NewMemory(kvindex.MemoryConfig{Capacity: 100, MaxBlocks: 120})
	keys := indextest.Chain("f", "", 0, 100)
	a, _ := x.Add("a")
	x.Record(a, keys, 1, kvindex.Observed)
	if got := x.Stats(a); got.Blocks != 100 || got.Capacity != 100 {
		t.Errorf("alone: got %+v, want 100 of 100", got)
	}
	b, _ := x.Add("b")
	x.Record(b, keys, 2, kvindex.Observed)
	for _, h := range []kvindex.Holder{a, b} {
		if got := x.Stats(h); got.Blocks != 60 || got.Capacity != 60 {
			t.Errorf("of two: got %+v, want 60 of 60", got)
		}
	}
	x.Drop(b)
	if got := x.Stats(a).Capacity; got != 100 {
		t.Errorf("alone again: capacity %d, want 100", got)
	}
}

// An index that has no room for all of a list takes none of it, and nothing from those that there
// are.
func TestMemoryIsFull(t *testing.T) {
	x := kvindex.NewMemory(kvindex.MemoryConfig{Capacity: 4096, MaxBlocks: 4096})
	h, _ := x.Add("0")
	x.Record(h, indextest.Chain("f", "", 0, 100), 1, kvindex.Observed)
	names := []string{"0"}
	for i := range 4096 {
		names = append(names, fmt.Sprint(i+1))
	}
	if all, err := x.AddAll(names); !errors.Is(err, kvindex.ErrFull) || all != nil {
		t.Errorf("AddAll of 4,097: got %d, %v, want ErrFull", len(all), err)
	}
	if got := x.Stats(h); got != (kvindex.Stats{Blocks: 100, Capacity: 4096}) || x.Holders() != 1 {
		t.Errorf("after it the first holds %+v, of %d", got, x.Holders())
	}
	all, err := x.AddAll(names[:4096])
	if err != nil || all[0] != h {
		t.Fatalf("AddAll of 4,096: %d, %v", len(all), err)
	}
	if _, err := x.Add("one more"); !errors.Is(err, kvindex.ErrFull) {
		t.Errorf("Add of backend 4,097: got %v, want ErrFull", err)
	}
	x.Drop(all[4000])
	if again, err := x.AddAll([]string{"1", "one more"}); err != nil || again[0] != all[1] || again[1] != all[4000] {
		t.Errorf("in a place that became free: %v, %v", again, err)
	}
}

// TestML01 teaches distinct prompts of 20 blocks, many times more than fit: the
// index levels off at its bound, counts what it let go, and keeps the prompt that is
// in use.
func TestML01(t *testing.T) {
	const prompts, blocks, bound = 100_000, 20, 200_000
	x := kvindex.NewMemory(kvindex.MemoryConfig{Capacity: bound, MaxBlocks: bound})
	h, _ := x.Add("b1")
	hot := indextest.Chain("hot", "", 0, blocks)
	keys := make([]kvindex.Key, blocks)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range prompts {
		for j := range keys {
			keys[j] = kvindex.Key(rng.Uint64())
		}
		x.Record(h, keys, kvindex.Stamp(i), kvindex.Observed)
		if i%1000 == 0 {
			x.Record(h, hot, kvindex.Stamp(i), kvindex.Observed)
		}
	}
	stats := x.Stats(h)
	if stats.Blocks != bound {
		t.Errorf("blocks: got %d, want the bound %d", stats.Blocks, bound)
	}
	if want := uint64(prompts*blocks + blocks - bound); stats.Evicted != want {
		t.Errorf("evicted: got %d, want %d", stats.Evicted, want)
	}
	depths := make([]int, x.Holders())
	if x.Match(hot, depths); depths[h] != blocks {
		t.Errorf("the prompt in use: got %d blocks, want %d", depths[h], blocks)
	}
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	if perEntry := float64(mem.HeapAlloc) / bound; perEntry > 250 {
		t.Errorf("%.0f bytes an entry on the whole heap, want at most 250", perEntry)
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	x := kvindex.NewMemory(kvindex.MemoryConfig{})
	keys := indextest.Chain("f", "", 0, 256)
	for i := range 64 {
		h, _ := x.Add(fmt.Sprint(i))
		x.Record(h, keys[:i*4], 1, kvindex.Observed)
	}
	depths := make([]int, x.Holders())
	if got := testing.AllocsPerRun(100, func() { x.Match(keys, depths) }); got != 0 {
		t.Errorf("Match: %v allocations, want 0", got)
	}
}

// filled returns an index of 1 M entries over the given number of backends, and the
// keys of a 256-block prompt that a quarter of them hold to different depths.
func filled(b *testing.B, backends int) (*kvindex.Memory, []kvindex.Holder, []kvindex.Key) {
	b.Helper()
	const entries = 1 << 20
	x := kvindex.NewMemory(kvindex.MemoryConfig{Capacity: entries/backends + 4096})
	rng := rand.New(rand.NewPCG(1, 2))
	holders := make([]kvindex.Holder, backends)
	chain := make([]kvindex.Key, 128)
	for i := range holders {
		holders[i], _ = x.Add(fmt.Sprint(i))
		for range entries / backends / len(chain) {
			for j := range chain {
				chain[j] = kvindex.Key(rng.Uint64())
			}
			x.Record(holders[i], chain, 1, kvindex.Observed)
		}
	}
	keys := indextest.Chain("f", "", 0, 256)
	for i, h := range holders {
		if i%4 == 0 {
			x.Record(h, keys[:(i*37)%257], 2, kvindex.Observed)
		}
	}
	return x, holders, keys
}

// go test -run='^$' -bench=Match ./kvindex
func BenchmarkMatch(b *testing.B) {
	for _, backends := range []int{8, 16, 64} {
		b.Run(fmt.Sprintf("blocks=256/backends=%d/entries=1M", backends), func(b *testing.B) {
			x, _, keys := filled(b, backends)
			depths := make([]int, x.Holders())
			b.ReportAllocs()
			for b.Loop() {
				x.Match(keys, depths)
			}
		})
	}
	b.Run("miss/backends=64/entries=1M", func(b *testing.B) {
		x, _, _ := filled(b, 64)
		keys := indextest.Chain("unknown", "", 0, 256)
		depths := make([]int, x.Holders())
		b.ReportAllocs()
		for b.Loop() {
			x.Match(keys, depths)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	b.Run("touch/blocks=128/entries=1M", func(b *testing.B) {
		x, holders, keys := filled(b, 16)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			x.Record(holders[0], keys[:128], kvindex.Stamp(i), kvindex.Predicted)
		}
	})
	b.Run("fresh/blocks=128/entries=1M", func(b *testing.B) {
		x, holders, _ := filled(b, 16)
		keys := make([]kvindex.Key, 128)
		rng := rand.New(rand.NewPCG(3, 4))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			for j := range keys {
				keys[j] = kvindex.Key(rng.Uint64())
			}
			x.Record(holders[i%16], keys, kvindex.Stamp(i), kvindex.Predicted)
		}
	})
}

// BenchmarkMemoryPerEntry reports what one (block, backend) costs.
func BenchmarkMemoryPerEntry(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		x, holders, _ := filled(b, 16)
		runtime.GC()
		runtime.ReadMemStats(&after)
		entries := 0
		for _, h := range holders {
			entries += x.Stats(h).Blocks
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(entries), "B/entry")
	}
}

// TestNothingWaitsForMany: a backend that has to let go of very many blocks, because its bound
// falls, because others come, or because it leaves, is never locked for long: it is seen
// on the way.
func TestNothingWaitsForMany(t *testing.T) {
	const blocks = 300_000
	for _, tc := range []struct {
		name   string
		change func(x *kvindex.Memory, h kvindex.Holder)
		left   int
	}{
		{"a lower capacity", func(x *kvindex.Memory, h kvindex.Holder) { x.SetCapacity(h, 1000) }, 1000},
		{"a smaller share", func(x *kvindex.Memory, _ kvindex.Holder) { _, _ = x.Add("b2") }, blocks / 2},
		{"a drop", func(x *kvindex.Memory, h kvindex.Holder) { x.Drop(h) }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := kvindex.NewMemory(kvindex.MemoryConfig{Capacity: blocks, MaxBlocks: blocks})
			h, _ := x.Add("b1")
			x.Record(h, indextest.Chain("f", "", 0, blocks), 1000, kvindex.Observed)
			if got := x.Stats(h).Blocks; got != blocks {
				t.Fatalf("%d blocks, want %d", got, blocks)
			}
			changed := make(chan struct{})
			go func() {
				defer close(changed)
				tc.change(x, h)
			}()
			seen := false
			for ended := false; !ended; {
				select {
				case <-changed:
					ended = true
				default:
					got := x.Stats(h).Blocks
					seen = seen || got > tc.left && got < blocks
				}
			}
			if !seen {
				t.Error("nobody got in until it was over")
			}
			if got := x.Stats(h).Blocks; got != tc.left {
				t.Errorf("%d blocks are left, want %d", got, tc.left)
			}
		})
	}
}
