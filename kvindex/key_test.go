package kvindex_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/warmroute/warmroute/kvindex"
	"pgregory.net/rapid"
)

// goldenScopes are the scopes of the golden vectors, by name.
func goldenScopes() map[string]kvindex.Scope {
	return map[string]kvindex.Scope{
		"plain":  {BlockBytes: 256, Pool: "default", Model: "m"},
		"salted": {BlockBytes: 256, Pool: "default", Model: "m", Salt: "s"},
		"tenant": {BlockBytes: 256, Pool: "default", Model: "m", TenantID: "s"},
		"secret": {BlockBytes: 256, Pool: "default", Model: "m", Secret: "s"},
		"small":  {BlockBytes: 64, Pool: "default", Model: "m"},
		"wide":   {BlockBytes: 4096, Pool: "ø", Model: "adapter/é"},
	}
}

// TestGoldenKeys pins the keys: they are shared between routers and kept in Redis,
// so they may change only together with KeyVersion. HA-08.
func TestGoldenKeys(t *testing.T) {
	want, err := os.ReadFile("testdata/keys.golden")
	if err != nil {
		t.Fatal(err)
	}
	stream := bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog. "), 200)
	var got strings.Builder
	fmt.Fprintf(&got, "version %d\n", kvindex.KeyVersion)
	for _, name := range []string{"plain", "salted", "tenant", "secret", "small", "wide"} {
		scope := goldenScopes()[name]
		keys := kvindex.AppendKeys(nil, scope.Seed(), stream, scope.BlockBytes)
		rendezvous, _ := kvindex.RendezvousKey(keys, scope.BlockBytes, "")
		hinted, _ := kvindex.RendezvousKey(keys, scope.BlockBytes, "hint")
		fmt.Fprintf(&got, "%s: seed %016x first %016x last(%d) %016x prefix %016x rendezvous %016x hinted %016x\n",
			name, uint64(scope.Seed()), uint64(keys[0]), len(keys), uint64(keys[len(keys)-1]),
			uint64(kvindex.PrefixKey(scope.Seed(), keys, stream, scope.BlockBytes)), uint64(rendezvous), uint64(hinted))
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("keys changed without a new KeyVersion (-want +got):\n%s", diff)
	}
}

// TestScopesDoNotCollide: moving a byte from one field to the next is another scope.
func TestScopesDoNotCollide(t *testing.T) {
	seen := make(map[kvindex.Key]kvindex.Scope)
	for _, s := range []kvindex.Scope{
		{},
		{BlockBytes: 256},
		{Pool: "ab"},
		{Pool: "a", Model: "b"},
		{Model: "ab"},
		{Model: "a", Salt: "b"},
		{Salt: "ab"},
		{Salt: "a", TenantID: "b"},
		{TenantID: "ab"},
		{TenantID: "a", Secret: "b"},
		{Secret: "ab"},
		{Pool: strings.Repeat("long", 200)},
	} {
		if other, there := seen[s.Seed()]; there {
			t.Errorf("%+v and %+v have one seed", s, other)
		}
		seen[s.Seed()] = s
	}
}

// TestHA01 is the chain: a block's key depends on all before it, so the same text
// further on is another block.
func TestHA01(t *testing.T) {
	x, y := bytes.Repeat([]byte("x"), 1024), bytes.Repeat([]byte("y"), 1024)
	keysX := kvindex.AppendKeys(nil, 1, x, 256)
	keysYX := kvindex.AppendKeys(nil, 1, append(bytes.Clone(y), x...), 256)
	for _, key := range keysYX {
		for _, other := range keysX {
			if key == other {
				t.Fatalf("a block of y+x has a key of x")
			}
		}
	}
}

// TestSharedPrefix: two streams share exactly the full blocks before they differ.
func TestSharedPrefix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		blockBytes := rapid.IntRange(64, 300).Draw(rt, "block")
		stream := rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(rt, "stream")
		keys := kvindex.AppendKeys(nil, 7, stream, blockBytes)
		if want := len(stream) / blockBytes; len(keys) != want {
			rt.Fatalf("%d bytes in blocks of %d: got %d keys, want %d", len(stream), blockBytes, len(keys), want)
		}
		if len(stream) == 0 {
			return
		}
		at := rapid.IntRange(0, len(stream)-1).Draw(rt, "at")
		other := bytes.Clone(stream)
		other[at] ^= 1
		otherKeys := kvindex.AppendKeys(nil, 7, other, blockBytes)
		for i := range keys {
			if same, want := keys[i] == otherKeys[i], i < at/blockBytes; same != want {
				rt.Fatalf("byte %d differs: block %d shared is %v, want %v", at, i, same, want)
			}
		}
		if kvindex.PrefixKey(7, keys, stream, blockBytes) == kvindex.PrefixKey(7, otherKeys, other, blockBytes) {
			rt.Fatalf("byte %d differs but the prefix keys do not", at)
		}
	})
}

func TestRendezvousKey(t *testing.T) {
	keys := kvindex.AppendKeys(nil, 1, make([]byte, 64*256), 256)
	if _, ok := kvindex.RendezvousKey(keys[:1], 256, "hint"); ok {
		t.Error("one block: got a rendezvous key, want none")
	}
	for _, tc := range []struct{ blocks, want int }{{2, 1}, {15, 14}, {16, 15}, {64, 15}} {
		got, ok := kvindex.RendezvousKey(keys[:tc.blocks], 256, "")
		if !ok || got != keys[tc.want] {
			t.Errorf("%d blocks: got %x, %v, want the key of block %d", tc.blocks, got, ok, tc.want)
		}
	}
	if got, ok := kvindex.RendezvousKey(keys[:4], 4096, ""); !ok || got != keys[0] {
		t.Errorf("blocks of 4,096 bytes: got %x, %v, want the first key", got, ok)
	}
	plain, _ := kvindex.RendezvousKey(keys, 256, "")
	a, _ := kvindex.RendezvousKey(keys, 256, "a")
	b, _ := kvindex.RendezvousKey(keys, 256, "b")
	if plain == a || a == b {
		t.Error("the hint does not change the rendezvous key")
	}
}

// build writes a stream the way api/prompt does: a framed message.
func build(limit, body int, texts ...string) *kvindex.Stream {
	s := new(kvindex.Stream)
	s.Reset(limit, body)
	for _, text := range texts {
		s.Frame(kvindex.FrameMessage)
		s.Text([]byte("user"))
		s.Frame(kvindex.FrameText)
		s.MessageText([]byte(text))
	}
	return s
}

func TestStream(t *testing.T) {
	s := build(kvindex.Unlimited, 0, "hé", "\xffllo")
	s.Binary([]byte("image"))
	s.Frame(kvindex.FrameTokens)
	s.Token(0x01020304)
	got := hex.EncodeToString(s.Bytes())
	want := "fb75736572fc68c3a9" + "fb75736572fcefbfbd6c6c6f" + "fe" // a hash follows
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "ff04030201") {
		t.Errorf("stream: got %s, want %s…ff04030201", got, want)
	}
	if s.Total() != len(s.Bytes()) || s.Cut() {
		t.Errorf("Total = %d, Cut = %v: want %d, false", s.Total(), s.Cut(), len(s.Bytes()))
	}
}

// TestHA02 cuts at every character of text with characters of all widths: the cut
// never falls into a character, and what lies before it never changes.
func TestHA02(t *testing.T) {
	const text = "ab😀中e\u0301 plain text that is long enough to count in words é"
	whole := build(kvindex.Unlimited, 0, text).Bytes()
	for limit := 1; limit <= utf8.RuneCountInString(text); limit++ {
		s := build(limit, 1<<20, text)
		kept := s.Bytes()[len("\xfbuser\xfc"):]
		if got := utf8.RuneCount(kept); got != limit || !utf8.Valid(kept) {
			t.Errorf("limit %d: kept %d characters (%q)", limit, got, kept)
		}
		if !bytes.HasPrefix(whole, s.Bytes()) {
			t.Errorf("limit %d: %q is no prefix of the whole", limit, s.Bytes())
		}
		if s.Total() != len(whole) {
			t.Errorf("limit %d: total %d, want %d", limit, s.Total(), len(whole))
		}
		if want := limit < utf8.RuneCountInString(text); s.Cut() != want {
			t.Errorf("limit %d: cut is %v, want %v", limit, s.Cut(), want)
		}
	}
}

// TestStreamCut: what is kept is a prefix of the uncut stream, of exactly as many
// characters of message text as PrefixLength says, and the total does not change.
func TestStreamCut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		texts := rapid.SliceOfN(rapid.String(), 1, 6).Draw(rt, "texts")
		limit := rapid.IntRange(1, 80).Draw(rt, "limit")
		whole := build(kvindex.Unlimited, 0, texts...)
		cut := build(limit, 1<<20, texts...)
		if !bytes.HasPrefix(whole.Bytes(), cut.Bytes()) {
			rt.Fatalf("%q is no prefix of %q", cut.Bytes(), whole.Bytes())
		}
		if cut.Total() != whole.Total() {
			rt.Fatalf("total: got %d, want %d", cut.Total(), whole.Total())
		}
		if !bytes.Equal(cut.Kept(), whole.Bytes()) {
			rt.Fatalf("kept %q, want all of %q", cut.Kept(), whole.Bytes())
		}
		chars := 0
		for _, text := range texts {
			chars += utf8.RuneCountInString(text)
		}
		if want := chars > limit; cut.Cut() != want {
			rt.Fatalf("%d characters, limit %d: cut is %v", chars, limit, cut.Cut())
		}
		// A body no longer than the limit needs no counting.
		if short := build(limit, limit, texts...); short.Cut() {
			rt.Fatalf("a body of %d bytes was cut at %d", limit, limit)
		}
	})
}

func TestStreamRawAndTokensAreCut(t *testing.T) {
	s := new(kvindex.Stream)
	s.Reset(1024, 4096)
	s.Raw(make([]byte, 4096))
	if len(s.Bytes()) != 1024 || s.Total() != 4096 || !s.Cut() {
		t.Errorf("raw: kept %d of %d, cut %v; want 1024 of 4096, cut", len(s.Bytes()), s.Total(), s.Cut())
	}
	s.Reset(3, 4096)
	s.Frame(kvindex.FrameTokens)
	for id := range uint32(5) {
		s.Token(id)
	}
	if len(s.Bytes()) != 13 || s.Total() != 21 || !s.Cut() {
		t.Errorf("tokens: kept %d of %d, cut %v; want 13 of 21, cut", len(s.Bytes()), s.Total(), s.Cut())
	}
}

// TestStreamKeptIsBounded: beyond the cut no more is kept than KeptBytes say, whatever comes,
// and what is kept is a prefix of the whole.
func TestStreamKeptIsBounded(t *testing.T) {
	fill := func(s *kvindex.Stream) {
		s.MessageText(bytes.Repeat([]byte("a"), 3000))
		for i := range 70 {
			s.Frame(kvindex.FrameText)
			s.MessageText(bytes.Repeat([]byte("bcé"), 5000))
			s.Text([]byte("\xff name"))
			s.Binary([]byte{byte(i)})
			s.Token(uint32(i))
		}
	}
	raw := func(s *kvindex.Stream) { s.Raw(bytes.Repeat([]byte("0123"), 1<<19)) }
	for name, write := range map[string]func(*kvindex.Stream){"text": fill, "raw": raw} {
		whole := new(kvindex.Stream)
		write(whole)
		for _, limit := range []int{1024, 900_000, 1_040_000} {
			s := new(kvindex.Stream)
			s.Reset(limit, 4<<20)
			write(s)
			want := max(kvindex.KeptBytes, len(s.Bytes()))
			if len(s.Kept()) != want || !bytes.HasPrefix(whole.Bytes(), s.Kept()) || !s.Cut() {
				t.Errorf("%s, limit %d: kept %d bytes, want the first %d of %d", name, limit, len(s.Kept()), want, whole.Total())
			}
			if s.Total() != whole.Total() {
				t.Errorf("%s, limit %d: total %d, want %d", name, limit, s.Total(), whole.Total())
			}
		}
	}
}

func TestHashingDoesNotAllocate(t *testing.T) {
	stream := make([]byte, 32<<10)
	keys := make([]kvindex.Key, 0, 128)
	scope := kvindex.Scope{BlockBytes: 256, Pool: "pool", Model: "model", Salt: "salt", TenantID: "tenant"}
	if got := testing.AllocsPerRun(100, func() {
		keys = kvindex.AppendKeys(keys[:0], scope.Seed(), stream, 256)
	}); got != 0 {
		t.Errorf("seed and keys: %v allocations, want 0", got)
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("hello \xff wörld"), 5)
	f.Add([]byte("中文字中文字"), 3)
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		limit = max(limit%4096, 1)
		whole, cut := build(kvindex.Unlimited, 0, string(text)), build(limit, 1<<20, string(text))
		if !bytes.HasPrefix(whole.Bytes(), cut.Bytes()) || whole.Total() != cut.Total() {
			t.Fatalf("limit %d: %q of %d bytes against %q of %d", limit, cut.Bytes(), cut.Total(), whole.Bytes(), whole.Total())
		}
		if kept := cut.Bytes()[len("\xfbuser\xfc"):]; !utf8.Valid(kept) || utf8.RuneCount(kept) > limit {
			t.Fatalf("limit %d: kept %q", limit, kept)
		}
	})
}

// TestStreamTotalOfInvalidText: invalid bytes count alike before and beyond the cut.
func TestStreamTotalOfInvalidText(t *testing.T) {
	whole, cut := build(kvindex.Unlimited, 0, "abcdef", "\xff\xfe"), build(3, 100, "abcdef", "\xff\xfe")
	if whole.Total() != cut.Total() {
		t.Errorf("total: %d whole, %d cut", whole.Total(), cut.Total())
	}
}

// go test -run='^$' -bench='Hash|StreamText' ./kvindex
func BenchmarkStreamText(b *testing.B) {
	text := bytes.Repeat([]byte("plain text with an — em dash and “quotes” now and then, as people write. "), 440)
	var s kvindex.Stream
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		s.Reset(kvindex.Unlimited, 0)
		s.MessageText(text)
	}
}

func BenchmarkHash(b *testing.B) {
	for _, kib := range []int{2, 32, 256} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			stream := make([]byte, kib<<10)
			keys := make([]kvindex.Key, 0, len(stream)/256)
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				keys = kvindex.AppendKeys(keys[:0], 1, stream, 256)
			}
		})
	}
}

// TestMT04: what one model's prompt has left on a backend is no match for another's.
func TestMT04(t *testing.T) {
	x := kvindex.NewMemory(kvindex.MemoryConfig{})
	b1, err := x.Add("b1")
	if err != nil {
		t.Fatal(err)
	}
	stream := make([]byte, 4096)
	keys := func(model string) []kvindex.Key {
		return kvindex.AppendKeys(nil, kvindex.Scope{BlockBytes: 256, Pool: "p", Model: model}.Seed(), stream, 256)
	}
	x.Record(b1, keys("a"), 1, kvindex.Observed)
	depths := make([]int, x.Holders())
	if x.Match(keys("b"), depths); depths[b1] != 0 {
		t.Errorf("model b: %d blocks match that are model a's", depths[b1])
	}
	if x.Match(keys("a"), depths); depths[b1] != 16 {
		t.Errorf("model a: %d blocks match, want 16", depths[b1])
	}
}
