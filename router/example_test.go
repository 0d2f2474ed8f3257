package router_test

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

func Example() {
	r := router.New(router.Options{})
	pool, err := r.AddPool(router.PoolSpec{
		Name:     "default",
		Config:   router.DefaultConfig(),
		Ejection: backends.DefaultEjection(),
		Backends: []backends.Spec{{URL: "http://b1:8000", Rank: backends.NoRank}, {URL: "http://b2:8000", Rank: backends.NoRank}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	prompt := make([]byte, 4096)
	scope := kvindex.Scope{BlockBytes: 256, Pool: "default", Model: "llama"}
	request := router.Request{
		Now: time.Unix(1_000_000, 0), Pool: pool, Model: "llama", Streamed: true,
		Blocks:      kvindex.AppendKeys(nil, scope.Seed(), prompt, 256),
		StreamBytes: len(prompt), HashedBytes: len(prompt),
	}
	request.Rendezvous, request.HasPrefix = kvindex.RendezvousKey(request.Blocks, 256, "")
	for range 2 {
		decision, err := r.Route(&request)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(decision.Explain())
		r.Complete(decision, feedback.Outcome{Now: request.Now, Result: feedback.Success, FirstByte: true})
	}
	// Output:
	// no backend holds enough of the prompt (best 0 of 16 blocks): b2:8000 is the cheapest; 0 of 128 in flight, 0 tokens queued
	// longest match: b2:8000 holds 16 of 16 blocks; 0 of 128 in flight, 0 tokens queued
}
