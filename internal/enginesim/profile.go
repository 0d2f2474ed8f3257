package enginesim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Profile is how fast a model runs on some hardware and how much KV cache fits
// beside its weights.
//
// A step that computes prefill chunks and d decoding sequences with together c
// tokens of context takes
//
//	StepFloor + PerSequence·d + PerContextToken·c
//	  + Σ over chunks (PrefillPerToken·n + AttentionPerPair·(n·k + n²/2))
//
// where a chunk has n new tokens after k tokens already computed or cached.
type Profile struct {
	// Name is what [ProfileByName] finds it by.
	Name string
	// RequestOverhead passes between a request's arrival and the moment the
	// scheduler can see it: HTTP, rendering, tokenising.
	RequestOverhead time.Duration
	// StepFloor is the time of a step that does next to nothing: it reads the
	// weights once.
	StepFloor time.Duration
	// PrefillPerToken is the linear cost of one uncached prompt token, in
	// nanoseconds.
	PrefillPerToken float64
	// AttentionPerPair is the cost of one uncached prompt token attending to
	// one earlier token, in nanoseconds.
	AttentionPerPair float64
	// PerSequence is the cost of one decoding sequence in a step, in
	// nanoseconds.
	PerSequence float64
	// PerContextToken is the cost of reading one token of a decoding
	// sequence's context, in nanoseconds.
	PerContextToken float64
	// KVTokens is the capacity of the KV cache in tokens.
	KVTokens int
	// MaxBatchedTokens bounds the tokens computed in one step
	// (max_num_batched_tokens).
	MaxBatchedTokens int
	// MaxSeqs bounds the sequences in the running batch (max_num_seqs).
	MaxSeqs int
}

// The timing profiles, calibrated rather than measured here.
//
// Prefill: linear FLOPs 2·(parameters in layers) and attention FLOPs 4·d·L for
// each token pair, over the peak of the GPUs (989.5 TFLOP/s H100, 312 A100, 362
// L40S, dense BF16) times a utilisation of 0.45, 0.38 and 0.32: the roofline of
// the inference-sim project's hardware table. Parameters in layers are 68.5e9
// and 6.98e9. It gives 40 / 164 / 340 / 1650 ms for 1k / 4k / 8k / 32k tokens of
// the 70B model, and agrees with NVIDIA's published 407 ms at 5,000 tokens.
//
// Decode: the same project's fitted step, 1.36·(weight read) + 1.95·(KV read) +
// 32 µs·layers + 4.4 µs·batch + 126 µs and, over several GPUs, the all-reduce.
// It gives 9.7 / 13.5 / 17.3 ms at batch 1 / 128 / 256 and 1k tokens of context
// for the 70B model, 6.9 / 17.4 / 27.9 ms for 8B on an H100.
//
// Capacity: 327,680 and 131,072 bytes of KV a token in what 0.9 of the memory
// leaves beside weights and activations. Batch limits are vLLM's defaults for
// the GPU class. The overhead of a request is 15.6 ms everywhere.
var profiles = map[string]Profile{
	"llama-70b-8xh100": {
		StepFloor:        9670 * time.Microsecond,
		PrefillPerToken:  38430,
		AttentionPerPair: 0.736,
		PerSequence:      5500,
		PerContextToken:  23.8,
		KVTokens:         1_331_200,
		MaxBatchedTokens: 8192,
		MaxSeqs:          1024,
	},
	"llama-8b-h100": {
		StepFloor:        6820 * time.Microsecond,
		PrefillPerToken:  31350,
		AttentionPerPair: 1.178,
		PerSequence:      4400,
		PerContextToken:  76.3,
		KVTokens:         425_984,
		MaxBatchedTokens: 8192,
		MaxSeqs:          1024,
	},
	"llama-8b-a100": {
		StepFloor:        10470 * time.Microsecond,
		PrefillPerToken:  117700,
		AttentionPerPair: 4.422,
		PerSequence:      4400,
		PerContextToken:  125.4,
		KVTokens:         425_984,
		MaxBatchedTokens: 2048,
		MaxSeqs:          256,
	},
	"llama-8b-l40s": {
		StepFloor:        23200 * time.Microsecond,
		PrefillPerToken:  120500,
		AttentionPerPair: 4.526,
		PerSequence:      4400,
		PerContextToken:  295.8,
		KVTokens:         169_984,
		MaxBatchedTokens: 2048,
		MaxSeqs:          256,
	},
}

// requestOverhead is the API server's share of every TTFT.
const requestOverhead = 15600 * time.Microsecond

// ProfileByName returns a named profile. The error lists the names there are.
func ProfileByName(name string) (Profile, error) {
	p, ok := profiles[name]
	if !ok {
		return Profile{}, fmt.Errorf("unknown profile %q: use one of %s", name, strings.Join(ProfileNames(), ", "))
	}
	p.Name = name
	p.RequestOverhead = requestOverhead
	return p, nil
}

// ProfileNames returns the names of all profiles, sorted.
func ProfileNames() []string {
	return slices.Sorted(maps.Keys(profiles))
}

// PrefillTime returns how long computing n prompt tokens after k cached or
// computed ones takes, without the step's floor.
func (p *Profile) PrefillTime(n, k int) time.Duration {
	return time.Duration(p.prefill(n, k))
}

// DecodeTime returns how long a step takes that advances batch sequences which
// together hold context tokens.
func (p *Profile) DecodeTime(batch, context int) time.Duration {
	return p.StepFloor + time.Duration(p.decode(batch, context))
}

func (p *Profile) prefill(n, k int) float64 {
	fn, fk := float64(n), float64(k)
	return p.PrefillPerToken*fn + p.AttentionPerPair*(fn*fk+fn*fn/2)
}

func (p *Profile) decode(batch, context int) float64 {
	return p.PerSequence*float64(batch) + p.PerContextToken*float64(context)
}

// Validate reports the first field that cannot be simulated.
func (p *Profile) Validate() error {
	switch {
	case p.RequestOverhead < 0:
		return fmt.Errorf("profile.request_overhead: must be >= 0, is %s", p.RequestOverhead)
	case p.StepFloor <= 0:
		return fmt.Errorf("profile.step_floor: must be > 0, is %s", p.StepFloor)
	case p.PrefillPerToken < 0 || p.AttentionPerPair < 0 || p.PerSequence < 0 || p.PerContextToken < 0:
		return errors.New("profile: prefill_per_token, attention_per_pair, per_sequence and per_context_token must be >= 0")
	case p.KVTokens <= 0:
		return fmt.Errorf("profile.kv_tokens: must be > 0, is %d", p.KVTokens)
	case p.MaxBatchedTokens <= 0:
		return fmt.Errorf("profile.max_batched_tokens: must be > 0, is %d", p.MaxBatchedTokens)
	case p.MaxSeqs <= 0:
		return fmt.Errorf("profile.max_seqs: must be > 0, is %d", p.MaxSeqs)
	}
	return nil
}
