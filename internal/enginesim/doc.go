// Package enginesim models one LLM inference engine: which tokens a prompt
// becomes, which of them its KV cache already holds, in which step each request
// is computed, and how long every step takes. It needs no GPU and no weights.
//
// It owns the tokenizer, the chained block ids, the block-wise prefix cache, the
// continuous-batching scheduler, the timing profiles and the counters that a
// vLLM server would expose. Times are values: [Engine.Submit], [Engine.Step] and
// the others take the moment they happen at, as a duration since the engine
// started, so the same model runs against the wall clock in the server package
// and in virtual time in a replay.
//
//	engine, err := enginesim.New(enginesim.Config{Profile: profile})
//	engine.Submit(0, enginesim.Request{PromptTokens: 8000, OutputTokens: 200, Blocks: ids})
//	for at, ok := engine.NextStep(); ok; at, ok = engine.NextStep() {
//		for _, event := range engine.Step(at) { ... }
//	}
//
// Invariants: a block is either referenced by a sequence or on the free list,
// never both; every submitted sequence ends exactly once; equal calls with an
// equal seed give equal events.
//
// An [Engine] is not safe for concurrent use. The package must not import net,
// os, any logging or metrics library, and reads no clock.
package enginesim
