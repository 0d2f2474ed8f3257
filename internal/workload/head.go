package workload

import (
	"math/rand/v2"
	"time"
)

// HeadConfig describes the workload "head": an ordinary assistant, all of whose requests
// begin with one system prompt and then have nothing in common.
type HeadConfig struct {
	// HeadTokens is the length of the common head, OwnTokens what each prompt has after
	// it, OutputTokens the length of an answer.
	HeadTokens, OwnTokens, OutputTokens int
	// Rate is how many requests a second arrive on average, as a Poisson process, for
	// Duration.
	Rate     float64
	Duration time.Duration
	// Load multiplies Rate. 0 is 1.
	Load float64
}

// DefaultHeadConfig is a head of 6,144 tokens, 1,024 tokens of each prompt's own, and 5
// requests a second for an hour.
func DefaultHeadConfig() HeadConfig {
	return HeadConfig{HeadTokens: 6144, OwnTokens: 1024, OutputTokens: 150, Rate: 5, Duration: time.Hour}
}

// Validate names the first field that makes no sense.
func (c HeadConfig) Validate() error {
	return firstWrong(
		KindHead,
		within("head_tokens", c.HeadTokens, 0, maxTokens),
		within("own_tokens", c.OwnTokens, 1, maxTokens),
		within("output_tokens", c.OutputTokens, 1, maxTokens),
		checkArrivals(c.Rate, c.Duration, c.Load),
	)
}

// Workload returns the workload, to be played.
func (c HeadConfig) Workload() (*Workload, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Workload{Name: KindHead, Ends: c.Duration, Play: func(seed uint64) Source { return NewHead(c, seed) }}, nil
}

// Head is the workload "head". It implements [Source].
type Head struct {
	config HeadConfig
	rng    *rand.Rand
	gap    float64 // mean, in nanoseconds
	at     time.Duration
	name   uint64
	made   int
}

// NewHead returns the workload. The configuration must be valid.
func NewHead(c HeadConfig, seed uint64) *Head {
	return &Head{
		config: c, rng: rand.New(rand.NewPCG(seed, 0x68656164)), name: Mix(seed ^ 0x68656164),
		gap: float64(time.Second) / (c.Rate * loadFactor(c.Load)),
	}
}

// Next implements [Source].
func (h *Head) Next() (Request, bool) {
	h.at += time.Duration(h.rng.ExpFloat64() * h.gap)
	if h.at >= h.config.Duration {
		return Request{}, false
	}
	h.made++
	prompt := make([]Segment, 0, 2)
	if h.config.HeadTokens > 0 {
		prompt = append(prompt, Segment{ID: nameOf(h.name, 0), Tokens: h.config.HeadTokens})
	}
	return Request{
		At:           h.at,
		Prompt:       append(prompt, Segment{ID: nameOf(h.name, uint64(h.made)), Tokens: h.config.OwnTokens}),
		OutputTokens: h.config.OutputTokens,
		Session:      h.made,
	}, true
}

// Ended implements [Source].
func (h *Head) Ended(*Request, time.Duration, bool) (Request, bool) { return Request{}, false }
