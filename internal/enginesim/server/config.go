package server

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/warmroute/warmroute/internal/enginesim"
)

const (
	// defaultProfile is the profile of a configuration that names none.
	defaultProfile = "llama-8b-h100"
	// defaultMaxModelLen bounds requests where nothing else is asked for; the
	// KV capacity bounds them in any case.
	defaultMaxModelLen = 1 << 20
	// defaultOutputTokens is the length of an answer to a request that states
	// no limit.
	defaultOutputTokens = 64
)

// Config describes a server. The zero value of every field but Model has a
// meaning; [DefaultConfig] is what cmd/enginesim starts from.
type Config struct {
	// Model are the served names. The first is the base model; the others
	// behave as LoRA adapters of it and share no cached blocks with it or with
	// each other.
	Model []string
	// Profile names the timing profile, see [enginesim.ProfileNames]; empty is
	// llama-8b-h100.
	Profile string
	// Speed is how many model seconds pass in a second; 0 is 1.
	Speed float64
	// KVTokens is the KV capacity of each engine in tokens; 0 is the profile's.
	KVTokens int
	// BlockSize is the tokens in a KV block; 0 is 16.
	BlockSize int
	// PromptTokensDetails makes usage report cached tokens, as vLLM's
	// --enable-prompt-tokens-details does.
	PromptTokensDetails bool
	// NullForZero reports a complete miss as null details, as vLLM did until
	// June 2026 (#44383).
	NullForZero bool
	// Engines is the number of data-parallel engines behind the one URL; 0 is
	// 1.
	Engines int
	// Seed varies the generated text; equal seeds give equal answers.
	Seed uint64
	// MaxModelLen bounds prompt and output of a request together, in tokens; 0
	// is 1,048,576. What the KV cache holds bounds it in any case.
	MaxModelLen int
	// MaxSeqs bounds the running batch of each engine (max_num_seqs); 0 is the
	// profile's.
	MaxSeqs int
	// MaxBatchedTokens bounds the tokens computed in a step
	// (max_num_batched_tokens); 0 is the profile's.
	MaxBatchedTokens int
	// OutputTokens is the length of an answer to a request that states no
	// limit; 0 is 64.
	OutputTokens int
	// NoPrefixCaching makes every prompt a miss.
	NoPrefixCaching bool
	// MetricsGeneration is the release whose names and labels /metrics has, see
	// [MetricsGenerations]; empty is the current one.
	MetricsGeneration string
	// Overcount makes the prefix cache's counters count a request's lookup again
	// in every step that finds no memory for it, as vLLM did until July 2026
	// (#48860).
	Overcount bool
	// Jitter is the relative standard deviation of step times, at most 0.3; 0
	// is none. It is repeatable by Seed.
	Jitter float64
	// Custom is used instead of the named profile if it is not nil.
	Custom *enginesim.Profile
	// Logger receives one debug record per generation request and a record per
	// fault; nil logs nothing.
	Logger *slog.Logger
}

// DefaultConfig returns one llama-8b-h100 engine in real time that serves the
// model "sim" and reports cached tokens.
func DefaultConfig() Config {
	return Config{
		Model:               []string{"sim"},
		Profile:             defaultProfile,
		Speed:               1,
		BlockSize:           enginesim.DefaultBlockSize,
		PromptTokensDetails: true,
		Engines:             1,
		MaxModelLen:         defaultMaxModelLen,
	}
}

// maxEngines bounds data parallelism.
const maxEngines = 256

// Validate reports everything that cannot be served, naming the fields as the
// flags of cmd/enginesim do.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Model) == 0 {
		errs = append(errs, errors.New("model: name at least one served model"))
	}
	seen := make(map[string]bool)
	for _, name := range c.Model {
		if name == "" {
			errs = append(errs, errors.New("model: a served model name is empty"))
		}
		if seen[name] {
			errs = append(errs, fmt.Errorf("model: %q is named twice", name))
		}
		seen[name] = true
	}
	if !(c.Speed >= 0 && c.Speed <= 1e6) {
		errs = append(errs, fmt.Errorf("speed: must be > 0 and at most 1000000, is %g", c.Speed))
	}
	if c.Engines < 0 || c.Engines > maxEngines {
		errs = append(errs, fmt.Errorf("engines: must be between 1 and %d, is %d", maxEngines, c.Engines))
	}
	if era, err := parseEra(c.MetricsGeneration); err != nil {
		errs = append(errs, err)
	} else if era == eraV0 && c.Engines > 1 {
		errs = append(errs, errors.New("engines: more than 1 are no part of metrics_generation v0"))
	}
	if c.OutputTokens < 0 {
		errs = append(errs, fmt.Errorf("output_tokens: must be >= 0, is %d", c.OutputTokens))
	}
	model, err := c.engine()
	if err != nil {
		errs = append(errs, fmt.Errorf("profile: %w", err))
	} else if err := model.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// engine returns the configuration of one engine model.
func (c *Config) engine() (enginesim.Config, error) {
	profile, err := c.profile()
	if err != nil {
		return enginesim.Config{}, err
	}
	maxLen := c.MaxModelLen
	if maxLen == 0 {
		maxLen = defaultMaxModelLen
	}
	return enginesim.Config{
		Profile:              profile,
		BlockSize:            c.BlockSize,
		KVTokens:             c.KVTokens,
		MaxModelLen:          maxLen,
		MaxSeqs:              c.MaxSeqs,
		MaxBatchedTokens:     c.MaxBatchedTokens,
		DisablePrefixCaching: c.NoPrefixCaching,
		RecountLookups:       c.Overcount,
		Jitter:               c.Jitter,
		Seed:                 c.Seed,
	}, nil
}

func (c *Config) profile() (enginesim.Profile, error) {
	switch {
	case c.Custom != nil:
		return *c.Custom, nil
	case c.Profile == "":
		return enginesim.ProfileByName(defaultProfile)
	default:
		return enginesim.ProfileByName(c.Profile)
	}
}

func (c *Config) withDefaults() Config {
	d := *c
	if d.Speed == 0 {
		d.Speed = 1
	}
	if d.Engines == 0 {
		d.Engines = 1
	}
	if d.OutputTokens == 0 {
		d.OutputTokens = defaultOutputTokens
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}
