package kvindex_test

import (
	"math/rand/v2"
	"testing"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/indextest"
)

func TestMemoryRestore(t *testing.T) {
	indextest.RunRestore(t, func(_ testing.TB, capacity int) indextest.Restorer {
		return kvindex.NewMemory(kvindex.MemoryConfig{Capacity: capacity})
	})
}

// TestRestoreWithAHole: entries that lack a block in the middle of their chain break the
// contract, and the next use of the chain mends it.
func TestRestoreWithAHole(t *testing.T) {
	x := kvindex.NewMemory(kvindex.MemoryConfig{Capacity: 100})
	h, _ := x.Add("b1")
	keys := indextest.Chain("f", "", 0, 9)
	entries := indextest.Entries(keys, 1000)
	x.Resident(h).Restore(append(entries[:6:6], entries[7:]...)) // without block 2
	depths := make([]int, x.Holders())
	if x.Match(keys[:3], depths); depths[h] > 2 {
		t.Errorf("a missing block is found: depth %d", depths[h])
	}
	x.Record(h, keys, 2000, kvindex.Observed)
	for n := range keys {
		if x.Match(keys[:n], depths); depths[h] != n {
			t.Errorf("depth of %d blocks after a use: %d", n, depths[h])
		}
	}
}

// BenchmarkRestore merges a million entries into a list of a hundred thousand newer ones.
// Run it with: go test ./kvindex -run='^$' -bench=Restore -benchtime=1x
func BenchmarkRestore(b *testing.B) {
	const restored, here = 1_000_000, 100_000
	rng := rand.New(rand.NewPCG(1, 1))
	entries := make([]kvindex.Entry, restored)
	for i := range entries {
		entries[i] = kvindex.Entry{Key: kvindex.Key(rng.Uint64()), LastUse: kvindex.Stamp(i + 1)}
	}
	keys := make([]kvindex.Key, here)
	for i := range keys {
		keys[i] = kvindex.Key(rng.Uint64())
	}
	for b.Loop() {
		b.StopTimer()
		x := kvindex.NewMemory(kvindex.MemoryConfig{Capacity: 2 * restored})
		h, _ := x.Add("b1")
		x.Record(h, keys, 2*restored, kvindex.Observed)
		b.StartTimer()
		x.Resident(h).Restore(entries)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/restored, "ns/entry")
}
