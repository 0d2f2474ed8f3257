package recent

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// chain returns keys of which the first few are those of every chain of the same head.
func chain(head, own uint64, shared, n int) []kvindex.Key {
	keys := make([]kvindex.Key, n)
	parent := head
	for i := range keys {
		if i == shared {
			parent ^= own
		}
		parent = (parent + 1) * 0x9E3779B97F4A7C15
		parent ^= parent >> 29
		keys[i] = kvindex.Key(parent)
	}
	return keys
}

var began = time.Unix(1_700_000_000, 0)

func request(pool string, number int, keys []kvindex.Key) *Request {
	return &Request{
		Pool: pool, Keys: keys, BlockBytes: 256, StreamBytes: 256*len(keys) + 7,
		Facts: Facts{
			Arrived: began.Add(time.Duration(number) * time.Millisecond), Duration: time.Duration(number) * time.Second,
			TTFT: time.Millisecond, Result: feedback.Result(number % 3), Overflow: number%2 == 0,
			PromptTokens: number, CachedTokens: Unknown, OutputTokens: 3,
		},
	}
}

// told is a request of a window with its keys.
type told struct {
	Facts  Facts
	Stream int
	Keys   []kvindex.Key
}

// tell spells a window out, and fails where its parts do not fit together.
func tell(t interface{ Fatalf(string, ...any) }, w *Window) []told {
	var all []told
	for _, p := range w.Requests {
		var keys []kvindex.Key
		for at := p.Last; at != NoBlock; at = w.Blocks[at].Parent {
			if w.Blocks[at].Parent >= at {
				t.Fatalf("block %d stands before its parent %d", at, w.Blocks[at].Parent)
			}
			keys = append(keys, w.Blocks[at].Key)
		}
		if len(keys) != int(p.Depth) {
			t.Fatalf("%d blocks, said to be %d", len(keys), p.Depth)
		}
		slices.Reverse(keys)
		all = append(all, told{p.Facts, int(p.StreamBytes), keys})
	}
	return all
}

func everything(Prompt) bool { return true }

// check holds a store against itself: every cell is in one place, and every use is counted.
func (s *Store) check(t interface{ Fatalf(string, ...any) }) {
	seen := make(map[ref]string)
	mark := func(r ref, what string) {
		if seen[r] != "" {
			t.Fatalf("cell %d is both %s and %s", r, seen[r], what)
		}
		seen[r] = what
	}
	for r := s.free; r != 0; r = s.at(r).more {
		mark(r, "free")
	}
	uses := make(map[ref]int)
	n := 0
	for r := s.newest; r != 0; r = s.at(r).older() {
		mark(r, "a request")
		uses[s.at(r).parent]++
		n++
	}
	if n != s.held {
		t.Fatalf("%d requests, said to be %d", n, s.held)
	}
	var runs []ref
	for _, b := range s.buckets {
		for r := b; r != 0; r = ref(s.at(r).peer) {
			runs = append(runs, r)
			uses[s.at(r).parent]++
			mark(r, "a head")
			last, length := r, s.at(r).headN()
			for m := s.at(r).more; m != 0; m = s.at(m).more {
				mark(m, "more of a run")
				last, length = m, length+s.at(m).moreN()
			}
			if last != s.at(r).headLast() || length != s.at(r).length() {
				t.Fatalf("run %d ends with cell %d after %d keys, said to be %d and %d", r, last, length, s.at(r).headLast(), s.at(r).length())
			}
		}
	}
	for _, r := range runs {
		if int(s.at(r).uses) != uses[r] {
			t.Fatalf("run %d is used %d times, said to be %d", r, uses[r], s.at(r).uses)
		}
	}
	if len(seen) != int(s.fresh)-1 {
		t.Fatalf("%d of %d cells are accounted for", len(seen), s.fresh-1)
	}
}

// A store tells what a list of the newest requests would, whatever came.
func TestStoreAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(MinBytes)
		s.most = rapid.IntRange(2, 4).Draw(t, "pages")
		var list []told
		pools := []string{"a", "b"}
		pool := map[int]string{}
		for number := range rapid.IntRange(1, 300).Draw(t, "requests") {
			n := rapid.IntRange(0, 60).Draw(t, "blocks")
			keys := chain(rapid.Uint64Range(1, 3).Draw(t, "head"), rapid.Uint64Range(0, 5).Draw(t, "own"), rapid.IntRange(0, 40).Draw(t, "shared"), n)
			q := request(rapid.SampledFrom(pools).Draw(t, "pool"), number, keys)
			pool[q.PromptTokens] = q.Pool
			s.Add(q)
			list = append(list, told{q.Facts, q.StreamBytes, keys})
			if rapid.IntRange(0, 9).Draw(t, "look") != 0 {
				continue
			}
			s.check(t)
			list = list[len(list)-s.held:]
			for _, name := range pools {
				var want []told
				for _, w := range list {
					if pool[w.Facts.PromptTokens] == name {
						want = append(want, told{w.Facts, w.Stream, append([]kvindex.Key(nil), w.Keys...)})
					}
				}
				got := tell(t, s.Window(name, everything))
				if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }), cmp.Comparer(slices.Equal[[]kvindex.Key])); diff != "" {
					t.Fatalf("pool %s (-want +got):\n%s", name, diff)
				}
			}
		}
	})
}

func TestOldestLeaveFirst(t *testing.T) {
	s := New(MinBytes)
	number := 0
	for ; s.Stats().Requests == number; number++ {
		s.Add(request("p", number, chain(1, uint64(number)<<8, 100, 128)))
	}
	s.check(t)
	w := s.Window("p", everything)
	if first := w.Requests[0].PromptTokens; first == 0 || number-first != len(w.Requests) {
		t.Errorf("of %d requests, %d from number %d on are remembered", number, len(w.Requests), first)
	}
	if got := len(w.Blocks); got != 100+28*len(w.Requests) {
		t.Errorf("%d blocks of %d requests: the head of 100 stands more than once", got, len(w.Requests))
	}
	stats := s.Stats()
	if !stats.Newest.Equal(began.Add(time.Duration(number-1)*time.Millisecond)) || stats.Oldest.Equal(began) {
		t.Errorf("from %v to %v", stats.Oldest, stats.Newest)
	}
}

func TestWindowEnds(t *testing.T) {
	s := New(MinBytes)
	if w := s.Window("p", everything); len(w.Requests) != 0 || !w.Whole {
		t.Errorf("of nothing: %+v", w)
	}
	for number := range 1000 {
		s.Add(request("p", number, chain(1, 0, 0, number%7)))
	}
	left := 10
	w := s.Window("p", func(Prompt) bool { left--; return left >= 0 })
	if len(w.Requests) != 10 || w.Requests[0].PromptTokens != 990 || w.Whole {
		t.Errorf("%d requests, whole: %v", len(w.Requests), w.Whole)
	}
	if w := s.Window("another", everything); len(w.Requests) != 0 {
		t.Errorf("%d requests of a pool that has none", len(w.Requests))
	}
}

// Keys are hashes of all before them, and yet nothing goes wrong where they are not.
func TestKeysThatAreNoHashes(t *testing.T) {
	s := New(MinBytes)
	var want [][]kvindex.Key
	for _, keys := range [][]kvindex.Key{{5, 5, 5}, {5, 5}, {5}, {6, 5}, {5, 6, 5, 6}, {5, 6, 5, 6, 5, 6, 5, 6, 5, 6, 5, 6, 5, 6}, {5, 6, 5, 6, 5, 6, 5, 6}} {
		s.Add(request("p", len(want), keys))
		want = append(want, keys)
	}
	s.check(t)
	for i, got := range tell(t, s.Window("p", everything)) {
		if !slices.Equal(got.Keys, want[i]) {
			t.Errorf("%v has become %v", want[i], got.Keys)
		}
	}
}

// What cannot be remembered is counted, and nothing else leaves for it.
func TestLeftOut(t *testing.T) {
	s := New(MinBytes)
	s.Add(request("p", 1, chain(1, 0, 0, 5)))
	s.Add(request("p", 2, chain(1, 0, 0, s.cells())))
	other := request("p", 3, chain(1, 0, 0, 5))
	other.BlockBytes = 512
	s.Add(other)
	if got := s.Stats(); got.LeftOut != 2 || got.Requests != 1 {
		t.Errorf("%+v", got)
	}
}

// Windows are true while requests end at the same time.
func TestWindowBesideAdd(t *testing.T) {
	s := New(MinBytes)
	var adding sync.WaitGroup
	for pool := range 2 {
		adding.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(pool)))
			for number := range 20_000 {
				s.Add(request(fmt.Sprint(pool), number, chain(rng.Uint64N(5), rng.Uint64N(50), rng.IntN(60), rng.IntN(80))))
			}
		})
	}
	for range 30 {
		w := s.Window("0", everything)
		all := tell(t, w)
		for i := range all {
			if i > 0 && all[i].Facts.PromptTokens != all[i-1].Facts.PromptTokens+1 {
				t.Fatalf("request %d comes after %d", all[i].Facts.PromptTokens, all[i-1].Facts.PromptTokens)
			}
			if all[i].Stream != 256*len(all[i].Keys)+7 {
				t.Fatalf("%d keys of a stream of %d bytes", len(all[i].Keys), all[i].Stream)
			}
		}
	}
	adding.Wait()
	s.check(t)
}

// heap is how many bytes are in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// The bound holds whatever comes, and after traffic changed from one kind to another.
func TestMemoryIsBounded(t *testing.T) {
	const bound = 16 << 20
	before := heap()
	s := New(bound)
	number := 0
	for _, traffic := range []struct {
		name                    string
		requests, shared, total int
	}{
		{"all new", 10_000, 0, 300},
		{"no blocks", 400_000, 0, 0},
		{"mostly shared", 100_000, 128, 130},
		{"all new", 10_000, 0, 300},
		{"long", 100, 10, 15_000},
	} {
		for range traffic.requests {
			s.Add(request("p", number, chain(uint64(traffic.total), uint64(number)<<8, traffic.shared, traffic.total)))
			number++
		}
		s.check(t)
		stats := s.Stats()
		if used := heap() - before; used > bound+64<<10 || stats.Bytes > bound || used < stats.Bytes/2 {
			t.Errorf("%s: %d bytes of heap, said to be %d, at most %d", traffic.name, used, stats.Bytes, bound)
		}
		t.Logf("%s: %d requests in %d bytes", traffic.name, stats.Requests, stats.Bytes)
	}
	runtime.KeepAlive(s)
}

// Nothing is asked of the runtime once the memory is there.
func TestAddAllocates(t *testing.T) {
	s := New(MinBytes)
	number := 0
	add := func() {
		number++
		s.Add(request("p", 0, nil))
	}
	q := request("p", 1, chain(1, 1, 0, 128))
	for range 40_000 {
		add()
	}
	if n := testing.AllocsPerRun(1000, func() {
		number++
		q.Keys[100] = kvindex.Key(number)
		s.Add(q)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOf(t *testing.T) {
	keys := chain(1, 1, 0, 3)
	r := &feedback.Record{
		Start: began, Duration: 3 * time.Second, TTFT: time.Second, Streamed: true, Pool: "p", Overflow: true,
		Usage: feedback.Usage{Prompt: 200, HasPrompt: true, Cached: 0, HasCached: true},
		Keys:  keys, BlockBytes: 256, StreamBytes: 800, Result: feedback.ClientClosed,
	}
	got, ok := Of(r)
	want := Request{
		Pool: "p", Keys: keys, BlockBytes: 256, StreamBytes: 800,
		Facts: Facts{
			Arrived: began, Duration: 3 * time.Second, TTFT: time.Second, Result: feedback.ClientClosed, Overflow: true,
			PromptTokens: 200, CachedTokens: 0, OutputTokens: Unknown,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("ok %v, mismatch (-want +got):\n%s", ok, diff)
	}
	r.Streamed = false
	if got, _ := Of(r); got.TTFT != 0 {
		t.Errorf("the first token of an answer that came whole was seen after %v", got.TTFT)
	}
	r.Keys, r.BlockBytes = nil, 0
	if _, ok := Of(r); ok {
		t.Error("a request without a prompt is remembered")
	}
}
