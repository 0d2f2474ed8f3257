package enginesim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkSteps measures an engine under steady load: 64 sequences with 4,000
// tokens of prompt, three quarters of it shared, and 200 of output.
//
//	go test -run '^$' -bench Steps ./internal/enginesim
func BenchmarkSteps(b *testing.B) {
	profile, err := ProfileByName("llama-70b-8xh100")
	if err != nil {
		b.Fatal(err)
	}
	e, err := New(Config{Profile: profile})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	next := BlockID(1 << 32)
	submit := func(now time.Duration) {
		req := Request{PromptTokens: 4000, OutputTokens: 200}
		head := BlockID(rng.IntN(100) * 1000)
		for i := range 262 {
			if i < 188 {
				req.Blocks = append(req.Blocks, head+BlockID(i))
				continue
			}
			req.Blocks = append(req.Blocks, next)
			next++
		}
		if _, err := e.Submit(now, req); err != nil {
			b.Fatal(err)
		}
	}
	for range 64 {
		submit(0)
	}
	start := e.Counters()
	b.ReportAllocs()
	for b.Loop() {
		at, _ := e.NextStep()
		for _, ev := range e.Step(at) {
			if ev.Kind == EventFinished {
				submit(ev.At)
			}
		}
	}
	end := e.Counters()
	seconds := b.Elapsed().Seconds()
	b.ReportMetric(float64(end.Steps-start.Steps)/seconds, "steps/s")
	b.ReportMetric(float64(end.PromptTokens-start.PromptTokens)/seconds/1e6, "Mprompttokens/s")
	b.ReportMetric(float64(end.Busy-start.Busy)/float64(b.Elapsed()), "x-real-time")
}
