package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// fleet is a router over 16 backends that hold 1 M index entries of other prompts.
func fleet(tb testing.TB) (*router.Router, *router.Pool) {
	tb.Helper()
	const count, entries, chain = 16, 1 << 20, 128
	r := router.New(router.Options{
		Index: kvindex.NewMemory(kvindex.MemoryConfig{Capacity: entries/count + 20_000}),
		Epoch: time.Unix(0, 0),
	})
	spec := router.PoolSpec{Name: "default", Config: router.DefaultConfig(), Ejection: backends.DefaultEjection()}
	for i := range count {
		spec.Backends = append(spec.Backends, backends.Spec{URL: fmt.Sprintf("http://10.0.0.%d:8000", i), Rank: backends.NoRank})
	}
	pool, err := r.AddPool(spec)
	if err != nil {
		tb.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	keys := make([]kvindex.Key, chain)
	for _, b := range pool.Backends() {
		for range entries / count / chain {
			for i := range keys {
				keys[i] = kvindex.Key(rng.Uint64())
			}
			complete(tb, r, &router.Request{Now: time.Unix(1, 0), Pool: pool, Model: "m", Blocks: keys, Pin: b.ID, PinRequired: true})
		}
	}
	return r, pool
}

func complete(tb testing.TB, r *router.Router, req *router.Request) {
	d, err := r.Route(req)
	if err != nil {
		tb.Fatal(err)
	}
	r.Complete(d, feedback.Outcome{Now: req.Now, Result: feedback.Success, Blame: feedback.Healthy, FirstByte: true})
}

// chat is a conversation whose body has about size bytes.
func chat(size int) []byte {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	text := strings.Repeat("The user asks, the assistant answers \"at length\", and the history grows.\n", 14)
	messages := []message{{"system", "You are a helpful assistant. " + text}}
	for n := len(text); n < size-len(text)-300; n += len(text) + 60 {
		messages = append(messages, message{[]string{"user", "assistant"}[len(messages)%2], fmt.Sprint(len(messages), text)})
	}
	body, err := json.Marshal(map[string]any{"model": "m", "stream": true, "temperature": 0.7, "messages": messages})
	if err != nil {
		panic(err)
	}
	return body
}

// decide is what the proxy does between the body and the backend.
func decide(tb testing.TB, r *router.Router, pool *router.Pool, body []byte, req *router.Request) (*prompt.Request, *router.Decision) {
	parsed, err := prompt.Parse(prompt.Chat, body)
	if err != nil {
		tb.Fatal(err)
	}
	config := pool.Config()
	keys := parsed.Hash(kvindex.Scope{BlockBytes: config.BlockBytes, Pool: pool.Name(), Model: "m", Salt: parsed.Salt()}, config.HashLength(), parsed.CacheKey())
	*req = router.Request{
		Now: time.Unix(100, 0), Pool: pool, Model: "m",
		Blocks: keys.Blocks, StreamBytes: keys.StreamBytes, HashedBytes: keys.HashedBytes,
		Prefix: keys.Prefix, Rendezvous: keys.Rendezvous, HasPrefix: keys.HasPrefix,
		N: parsed.N(), Streamed: parsed.Streaming(),
	}
	d, err := r.Route(req)
	if err != nil {
		tb.Fatal(err)
	}
	return parsed, d
}

var answered = feedback.Outcome{Now: time.Unix(101, 0), Result: feedback.Success, Blame: feedback.Healthy, FirstByte: true}

// BenchmarkDecision measures parse, hash, match, rank, slot and the record in the index
// for a chat body over 16 backends and 1 M entries, with its percentiles.
//
//	go test -run='^$' -bench=Decision ./tests/bench
func BenchmarkDecision(b *testing.B) {
	for _, kib := range []int{8, 32, 256} {
		b.Run(fmt.Sprintf("chat=%dKiB/backends=16/entries=1M", kib), func(b *testing.B) {
			r, pool := fleet(b)
			body := chat(kib << 10)
			times := hdrhistogram.New(1, int64(time.Second), 3)
			req := new(router.Request)
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				parsed, d := decide(b, r, pool, body, req)
				_ = times.RecordValue(int64(time.Since(start)))
				r.Complete(d, answered)
				parsed.Release()
			}
			b.ReportMetric(float64(times.ValueAtQuantile(50))/1e3, "p50-µs")
			b.ReportMetric(float64(times.ValueAtQuantile(99))/1e3, "p99-µs")
			b.ReportMetric(float64(times.Min())/1e3, "min-µs")
		})
	}
}
