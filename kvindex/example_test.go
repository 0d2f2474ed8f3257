package kvindex_test

import (
	"fmt"
	"strings"

	"github.com/warmroute/warmroute/kvindex"
)

func Example() {
	index := kvindex.NewMemory(kvindex.MemoryConfig{})
	b1, _ := index.Add("10.0.0.1:8000")
	b2, _ := index.Add("10.0.0.2:8000")

	scope := kvindex.Scope{BlockBytes: kvindex.DefaultBlockBytes, Pool: "default", Model: "llama"}
	turn1 := strings.Repeat("You are a helpful assistant. ", 40)
	turn2 := turn1 + strings.Repeat("And then the user said more. ", 20)
	keys := func(prompt string) []kvindex.Key {
		var s kvindex.Stream
		s.MessageText([]byte(prompt))
		return kvindex.AppendKeys(nil, scope.Seed(), s.Bytes(), scope.BlockBytes)
	}

	index.Record(b2, keys(turn1), 1, kvindex.Observed)
	depths := make([]int, index.Holders())
	index.Match(keys(turn2), depths)
	fmt.Println("b1 holds", depths[b1], "and b2", depths[b2], "of", len(keys(turn2)), "blocks")
	// Output: b1 holds 0 and b2 4 of 6 blocks
}
