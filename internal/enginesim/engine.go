package enginesim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// DefaultBlockSize is the tokens in a KV block where nothing else is asked
// for, vLLM's on CUDA.
const DefaultBlockSize = 16

// Config describes an engine. Only Profile has no default.
type Config struct {
	// Profile says how fast the engine is; see [ProfileByName].
	Profile Profile
	// BlockSize is the tokens in a KV block; 0 is [DefaultBlockSize].
	BlockSize int
	// KVTokens is the KV cache's capacity in tokens, rounded down to whole
	// blocks; 0 is the profile's.
	KVTokens int
	// MaxModelLen bounds prompt and output of a request together, in tokens; 0
	// is what the KV cache holds, which bounds it in any case.
	MaxModelLen int
	// MaxBatchedTokens bounds the tokens computed in a step; 0 is the
	// profile's.
	MaxBatchedTokens int
	// MaxSeqs bounds the running batch; 0 is the profile's.
	MaxSeqs int
	// AdmitPartial admits a sequence as soon as the blocks of its first chunk
	// are free. Otherwise those of its whole prompt must be.
	AdmitPartial bool
	// RecountLookups counts a waiting sequence's cache lookup in every step
	// that fails to admit it, as vLLM did until July 2026 (#48860).
	RecountLookups bool
	// DisablePrefixCaching makes every prompt a miss.
	DisablePrefixCaching bool
	// Jitter is the relative standard deviation of step times, 0 to 0.3; 0 is
	// none.
	Jitter float64
	// Seed makes jitter repeatable.
	Seed uint64
}

// Validate reports what cannot be simulated, naming the field.
func (c *Config) Validate() error {
	var errs []error
	if err := c.Profile.Validate(); err != nil {
		errs = append(errs, err)
	}
	for _, field := range []struct {
		name  string
		value int
	}{
		{"block_size", c.BlockSize},
		{"kv_tokens", c.KVTokens},
		{"max_model_len", c.MaxModelLen},
		{"max_batched_tokens", c.MaxBatchedTokens},
		{"max_seqs", c.MaxSeqs},
	} {
		if field.value < 0 {
			errs = append(errs, fmt.Errorf("%s: must be >= 0, is %d", field.name, field.value))
		}
	}
	if c.Jitter < 0 || c.Jitter > 0.3 {
		errs = append(errs, fmt.Errorf("jitter: must be between 0 and 0.3, is %g", c.Jitter))
	}
	d := c.withDefaults()
	if len(errs) == 0 && d.KVTokens < d.BlockSize {
		errs = append(errs, fmt.Errorf("kv_tokens: must hold one block of %d tokens, is %d", d.BlockSize, d.KVTokens))
	}
	if len(errs) == 0 && d.KVTokens/d.BlockSize > maxBlocks {
		errs = append(errs, fmt.Errorf("kv_tokens: %d are more than %d blocks of %d tokens: raise block_size",
			d.KVTokens, maxBlocks, d.BlockSize))
	}
	return errors.Join(errs...)
}

// maxBlocks bounds the memory of a model to about a gigabyte.
const maxBlocks = 1 << 24

func (c *Config) withDefaults() Config {
	d := *c
	setDefault(&d.BlockSize, DefaultBlockSize)
	setDefault(&d.KVTokens, d.Profile.KVTokens)
	setDefault(&d.MaxBatchedTokens, d.Profile.MaxBatchedTokens)
	setDefault(&d.MaxSeqs, d.Profile.MaxSeqs)
	return d
}

func setDefault(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// Engine is the model of one engine: one KV cache, one batch. See the package
// comment for how it is driven.
type Engine struct {
	cfg       Config
	cache     *blockCache
	rng       *rand.Rand
	maxTokens int

	arriving seqQueue
	waiting  seqQueue
	running  []*Sequence
	batch    []*Sequence // what the step under way computes

	clock    time.Duration // the latest moment it was told
	stepping bool
	stepEnd  time.Duration
	sleeping bool
	slow     float64

	events []Event
	stats  Stats
}

// New returns an idle engine with an empty cache, at time 0.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("engine model: %w", err)
	}
	cfg = cfg.withDefaults()
	cache := newBlockCache(cfg.KVTokens/cfg.BlockSize, cfg.BlockSize)
	maxTokens := cache.total() * cfg.BlockSize
	if cfg.MaxModelLen > 0 {
		maxTokens = min(maxTokens, cfg.MaxModelLen)
	}
	return &Engine{
		cfg:       cfg,
		cache:     cache,
		rng:       rand.New(rand.NewPCG(cfg.Seed, 0x656e67696e65)),
		maxTokens: maxTokens,
		slow:      1,
		stats:     newStats(maxTokens),
	}, nil
}

// MaxTokens returns how many tokens prompt and output of one request may have
// together.
func (e *Engine) MaxTokens() int { return e.maxTokens }

// BlockSize returns the tokens in a KV block, the size that [Request.Blocks] is
// cut by.
func (e *Engine) BlockSize() int { return e.cfg.BlockSize }

// ErrTooLong is the reason of [Engine.Submit] for a request that no batch of
// this engine can hold.
var ErrTooLong = errors.New("longer than the engine's context")

// Submit queues a request that arrives at now. Times never run backwards: a now
// before an earlier call's counts as that call's.
func (e *Engine) Submit(now time.Duration, req Request) (*Sequence, error) {
	if req.PromptTokens < 1 {
		return nil, fmt.Errorf("request: prompt must have at least 1 token, has %d", req.PromptTokens)
	}
	if req.OutputTokens < 0 {
		return nil, fmt.Errorf("request: output tokens must be >= 0, are %d", req.OutputTokens)
	}
	if total := req.PromptTokens + req.OutputTokens; total > e.maxTokens {
		return nil, fmt.Errorf("request: %d prompt and %d output tokens are %w of %d tokens",
			req.PromptTokens, req.OutputTokens, ErrTooLong, e.maxTokens)
	}
	if full := (req.PromptTokens + req.OutputTokens) / e.cfg.BlockSize; len(req.Blocks) > full {
		return nil, fmt.Errorf("request: %d block ids for %d full blocks of %d tokens",
			len(req.Blocks), full, e.cfg.BlockSize)
	}
	if req.Finish >= FinishAbort {
		return nil, fmt.Errorf("request: cannot plan to finish by %s", req.Finish)
	}
	now = e.tick(now)
	s := &Sequence{req: req, state: StateArriving, arrived: now, ready: now + e.cfg.Profile.RequestOverhead}
	e.arriving.pushBack(s)
	e.stats.Submitted++
	return s, nil
}

// Abort ends a sequence at now and frees its blocks. It reports false if the
// sequence had ended before.
func (e *Engine) Abort(now time.Duration, s *Sequence) bool {
	now = e.tick(now)
	switch s.state {
	case StateDone:
		return false
	case StateArriving:
		e.arriving.remove(s)
	case StateWaiting:
		e.waiting.remove(s)
	case StateRunning:
		e.leaveBatch(s)
	}
	e.end(now, s, FinishAbort)
	return true
}

// ResetPrefixCache forgets all cached blocks at now. Like vLLM's it does nothing
// and reports false while a sequence holds blocks, unless preempt is set: then
// all running sequences are preempted first.
func (e *Engine) ResetPrefixCache(now time.Duration, preempt bool) bool {
	e.tick(now)
	if preempt {
		for len(e.running) > 0 {
			e.preempt(e.running[len(e.running)-1])
		}
	}
	if e.cache.free != e.cache.total() {
		return false
	}
	e.cache.reset()
	return true
}

// LoseCache forgets all cached blocks, those of running sequences included,
// which go on undisturbed: what a router sees after a restart that it did not
// notice.
func (e *Engine) LoseCache() { e.cache.reset() }

// SetSlow makes every later step take factor times as long. It must be
// positive; 1 is the profile's speed.
func (e *Engine) SetSlow(factor float64) error {
	if !(factor > 0) {
		return fmt.Errorf("slow: factor must be > 0, is %g", factor)
	}
	e.slow = factor
	return nil
}

// Sleep stops the engine after the step under way and forgets the cache;
// running sequences are preempted. Requests queue until [Engine.Wake].
func (e *Engine) Sleep(now time.Duration) {
	e.ResetPrefixCache(now, true)
	e.sleeping = true
}

// Wake ends [Engine.Sleep].
func (e *Engine) Wake(now time.Duration) {
	e.tick(now)
	e.sleeping = false
}

// tick notes that it is now and returns the later of now and what it was.
func (e *Engine) tick(now time.Duration) time.Duration {
	e.clock = max(e.clock, now)
	return e.clock
}

// leaveBatch takes a running sequence out of the running batch and frees its
// blocks.
func (e *Engine) leaveBatch(s *Sequence) {
	if i := slices.Index(e.running, s); i >= 0 {
		e.running = slices.Delete(e.running, i, i+1)
	}
	e.freeBlocks(s)
}

// freeBlocks gives back all KV blocks of a sequence.
func (e *Engine) freeBlocks(s *Sequence) {
	e.cache.release(s.table)
	s.table, s.named, s.computed, s.scheduled = s.table[:0], 0, 0, 0
}

// end marks a sequence as done. Its blocks must be free.
func (e *Engine) end(now time.Duration, s *Sequence, reason FinishReason) {
	s.state, s.finished = StateDone, now
	s.table = nil
	e.countFinished(s, reason)
}
