package redisindex_test

import (
	"fmt"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/redisindex"
)

// Nothing waits for Redis, not even for one that nobody listens for.
func Example() {
	x, err := redisindex.New(redisindex.Config{Addresses: []string{"127.0.0.1:1"}}, kvindex.NewMemory(kvindex.MemoryConfig{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Close() // where a router would call x.Run(ctx)

	b1, _ := x.Add("chat 10.0.0.1:8000 http://10.0.0.1:8000")
	keys := []kvindex.Key{1, 2, 3}
	x.Record(b1, keys, 1000, kvindex.Observed)
	x.Publish(b1, keys, 1000, 0) // for other routers, and for this one when it starts anew

	depths := make([]int, x.Holders())
	x.Match(keys, depths)
	s := x.Status()
	fmt.Printf("b1 holds %d of %d blocks; %v, %d waits to be written\n", depths[b1], len(keys), s.Sharing, s.Queued)
	// Output: b1 holds 3 of 3 blocks; alone, 1 waits to be written
}
