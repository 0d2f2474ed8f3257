package enginesim

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestChainFullBlocksOnly(t *testing.T) {
	root := Root("m", "")
	tokens := Tokenize(nil, english)
	ids := Chain(nil, root, tokens, 16)
	if want := len(tokens) / 16; len(ids) != want {
		t.Fatalf("Chain of %d tokens has %d ids, want %d", len(tokens), len(ids), want)
	}
	if got := Chain(nil, root, tokens[:15], 16); len(got) != 0 {
		t.Errorf("Chain of 15 tokens in blocks of 16 = %v, want none", got)
	}
	if got := Chain(nil, root, tokens, 0); got != nil {
		t.Errorf("Chain with block size 0 = %v, want none", got)
	}
}

// TestChainNamesAllBefore checks that ids agree exactly as far as the tokens do,
// and that a chain can be continued from its last id.
func TestChainNamesAllBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "size")
		tokens := rapid.SliceOfN(rapid.Uint32(), 1, 64).Draw(t, "tokens")
		a := make([]Token, len(tokens))
		for i, v := range tokens {
			a[i] = Token(v)
		}
		b := slices.Clone(a)
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		b[at]++
		root := Root("m", "")
		idsA, idsB := Chain(nil, root, a, size), Chain(nil, root, b, size)
		for i := range idsA {
			if equal, want := idsA[i] == idsB[i], i < at/size; equal != want {
				t.Fatalf("block %d equal = %t, want %t (difference at token %d, size %d)", i, equal, want, at, size)
			}
		}
		cut := len(idsA) / 2
		parent := root
		if cut > 0 {
			parent = idsA[cut-1]
		}
		if got := Chain(slices.Clone(idsA[:cut]), parent, a[cut*size:], size); !slices.Equal(got, idsA) {
			t.Fatalf("continued chain %v, want %v", got, idsA)
		}
	})
}

func TestRootsDiffer(t *testing.T) {
	roots := map[BlockID]string{}
	for _, r := range [][2]string{{"m", ""}, {"n", ""}, {"m", "s"}, {"m", "t"}, {"ms", ""}, {"", "ms"}} {
		id := Root(r[0], r[1])
		if other, ok := roots[id]; ok {
			t.Errorf("Root(%q, %q) = Root(%s)", r[0], r[1], other)
		}
		roots[id] = r[0] + "," + r[1]
	}
}
