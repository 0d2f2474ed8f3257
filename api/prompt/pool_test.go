package prompt_test

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/kvindex"
)

func TestReleaseTwice(t *testing.T) {
	r := parse(t, prompt.Chat, `{"model":"a"}`)
	model := r.Model()
	r.Release()
	r.Release()
	parse(t, prompt.Chat, `{"model":"b"}`)
	if model != "a" {
		t.Errorf("model read before Release became %q", model)
	}
}

func TestReleaseLetsGoOfTheLarge(t *testing.T) {
	r, err := prompt.Parse(prompt.Chat, []byte(`{"messages":[{"role":"user","content":"`+strings.Repeat("x", 8<<20)+`"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Hash(small, kvindex.Unlimited, "")
	retained := r.Retained()
	if got := retained(); got < 8<<20 {
		t.Fatalf("%d bytes held for a stream of 8 MiB", got)
	}
	r.Release()
	if got := retained(); got > 1<<20 {
		t.Errorf("%d bytes held after Release, want at most 1 MiB", got)
	}
}

// Requests of many goroutines share a pool and nothing else.
func TestPoolIsShared(t *testing.T) {
	var group errgroup.Group
	for worker := range 4 {
		body := fmt.Appendf(nil, `{"model":"m%d","messages":[{"role":"user","content":"%s"}]}`, worker, long(fmt.Sprint(worker), 2000))
		want := keysOf(t, prompt.Chat, string(body))
		group.Go(func() error {
			for range 200 {
				r, err := prompt.Parse(prompt.Chat, body)
				if err != nil {
					return err
				}
				got := r.Hash(small, kvindex.Unlimited, "").Blocks
				r.Trim() // others work with its memory now
				if !slices.Equal(got, want) || r.Model() != fmt.Sprintf("m%d", worker) {
					return fmt.Errorf("worker %d: model %s, keys %x", worker, r.Model(), got)
				}
				r.Release()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// What was read outlives the tree.
func TestTrim(t *testing.T) {
	r := parse(t, prompt.Chat, `{"model":"m","cache_salt":"s","prompt_cache_key":"k","stream":true,"n":3,"messages":[{"role":"user","content":[{"type":"image_url","image_url":"`+long("i", 5000)+`"},{"type":"text","text":"`+long("x", 5000)+`"}]}]}`)
	blocks := r.Hash(small, kvindex.Unlimited, "").Blocks
	want := slices.Clone(blocks)
	r.Trim()
	r.Trim()
	keysOf(t, prompt.Chat, `{"messages":[{"role":"user","content":"`+long("other", 20000)+`"}]}`)
	if !slices.Equal(blocks, want) {
		t.Error("the keys changed")
	}
	if r.Model() != "m" || r.Salt() != "s" || r.CacheKey() != "k" || !r.Streaming() || r.N() != 3 || !r.HasBinary() || !r.NoEvidence() {
		t.Errorf("got %q %q %q %v %d %v", r.Model(), r.Salt(), r.CacheKey(), r.Streaming(), r.N(), r.HasBinary())
	}
	r.Release()
}

// tank is a budget of so many bytes.
type tank int64

func (b *tank) Take(n int64) bool {
	if int64(*b) < n {
		return false
	}
	*b -= tank(n)
	return true
}

func TestParseWithin(t *testing.T) {
	body := []byte(`{"messages":[` + strings.Repeat(`{},`, 1999) + `{}]}`)
	room := tank(40_000)
	r, err := prompt.ParseWithin(prompt.Chat, body, &room)
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
	if _, err := prompt.ParseWithin(prompt.Chat, body, &room); !errors.Is(err, prompt.ErrNoRoom) {
		t.Errorf("got %v without room", err)
	}
	for kind, body := range map[prompt.Kind][]byte{
		prompt.Completions: body,                                                          // read in place
		prompt.Chat:        []byte(`{"messages":[` + strings.Repeat(`{},`, 999) + `{}]}`), // not worth asking for
	} {
		r, err = prompt.ParseWithin(kind, body, &room)
		if err != nil {
			t.Fatalf("%v: %v", kind, err)
		}
		r.Release()
	}
}

// Offsets are 32 bits wide; the memory of such a body is never touched here.
func TestBodyBeyondOffsets(t *testing.T) {
	if bits.UintSize < 64 || raceEnabled {
		t.Skip("no such body on this machine, or the race detector would touch its memory")
	}
	_, err := prompt.Parse(prompt.Chat, make([]byte, uint64(math.MaxUint32)+1))
	if e, ok := errors.AsType[*prompt.Error](err); !ok || e.Code != prompt.CodeTooComplex {
		t.Errorf("got %v, want a refusal", err)
	}
}

// A request that waits for its answer holds its keys, not its document.
func TestTrimLetsGoOfTheTree(t *testing.T) {
	body := []byte(`{"messages":[{"role":"user","content":[` + strings.Repeat(`{},`, 100_000) + `{}]}]}`)
	heap := func() int64 {
		var m runtime.MemStats
		for range 3 { // what pools hold goes with the second
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var held []*prompt.Request
	for range 4 {
		r, err := prompt.Parse(prompt.Chat, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Hash(small, kvindex.Unlimited, "")
		r.Trim()
		held = append(held, r)
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("4 requests hold %d bytes", grown)
	}
	for _, r := range held {
		r.Release()
	}
}
