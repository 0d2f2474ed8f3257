package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// profileFile is a profile of one's own: what it leaves out is the base's.
type profileFile struct {
	// Base names the profile that it varies.
	Base string `json:"base"`
	// Name is shown at start-up.
	Name string `json:"name"`
	// RequestOverheadMS and StepFloorMS are in milliseconds.
	RequestOverheadMS *float64 `json:"request_overhead_ms"`
	StepFloorMS       *float64 `json:"step_floor_ms"`
	// The costs are in the unit of their names.
	PrefillUSPerToken     *float64 `json:"prefill_us_per_token"`
	AttentionNSPerPair    *float64 `json:"attention_ns_per_pair"`
	DecodeUSPerSequence   *float64 `json:"decode_us_per_sequence"`
	DecodeNSPerContextTok *float64 `json:"decode_ns_per_context_token"`
	// Limits are in tokens and sequences.
	KVTokens         *int `json:"kv_tokens"`
	MaxBatchedTokens *int `json:"max_batched_tokens"`
	MaxSeqs          *int `json:"max_seqs"`
}

// readProfile reads a profile file.
func readProfile(path, base string) (*enginesim.Profile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--profile-file: %w", err)
	}
	file := profileFile{Base: base, Name: path}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		line := 1 + bytes.Count(data[:min(dec.InputOffset(), int64(len(data)))], []byte("\n"))
		return nil, fmt.Errorf("--profile-file: %s:%d: %w", path, line, err)
	}
	p, err := enginesim.ProfileByName(file.Base)
	if err != nil {
		return nil, fmt.Errorf("--profile-file: %s: base: %w", path, err)
	}
	file.vary(&p)
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("--profile-file: %s: %w", path, err)
	}
	return &p, nil
}

// vary replaces what the file states.
func (f *profileFile) vary(p *enginesim.Profile) {
	p.Name = f.Name
	setDuration(&p.RequestOverhead, f.RequestOverheadMS)
	setDuration(&p.StepFloor, f.StepFloorMS)
	setCost(&p.PrefillPerToken, f.PrefillUSPerToken, 1000)
	setCost(&p.AttentionPerPair, f.AttentionNSPerPair, 1)
	setCost(&p.PerSequence, f.DecodeUSPerSequence, 1000)
	setCost(&p.PerContextToken, f.DecodeNSPerContextTok, 1)
	setCount(&p.KVTokens, f.KVTokens)
	setCount(&p.MaxBatchedTokens, f.MaxBatchedTokens)
	setCount(&p.MaxSeqs, f.MaxSeqs)
}

func setDuration(field *time.Duration, ms *float64) {
	if ms != nil {
		*field = time.Duration(*ms * float64(time.Millisecond))
	}
}

func setCost(field, value *float64, nanoseconds float64) {
	if value != nil {
		*field = *value * nanoseconds
	}
}

func setCount(field, value *int) {
	if value != nil {
		*field = *value
	}
}
