package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// Facts of the Mooncake traces.
const (
	mooncakeBlock = 512 // tokens
	// Times of anonymised traces are rounded to ticks, give or take some milliseconds.
	mooncakeTick      = 3 * time.Second
	mooncakeTickLeast = mooncakeTick - 100*time.Millisecond
)

// mooncakeLine is one line of a Mooncake trace.
type mooncakeLine struct {
	Timestamp    *float64 `json:"timestamp"` // milliseconds
	InputLength  *int     `json:"input_length"`
	OutputLength *int     `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

// ReadMooncake reads a trace of the Mooncake project, plain or gzip: one JSON object a line,
// {"timestamp", "input_length", "output_length", "hash_ids"}, in the order of the times. An
// id names a block of 512 tokens; the last block of a prompt, where it is not full, is like
// nothing else. It is played in an open loop, load times as fast as recorded (0 is 1). In a
// trace whose times come in ticks of 3 seconds, requests are spread uniformly over their
// tick: a tick's burst is of the anonymisation's making. The error of a bad file is a
// [*LineError].
func ReadMooncake(r io.Reader, load float64) (*Workload, error) {
	if err := firstWrong(KindMooncake, checkLoad(load)); err != nil {
		return nil, err
	}
	var requests []BlockRequest
	var kept memory
	err := eachRecord(r, func(raw []byte) error {
		var line mooncakeLine
		if err := json.Unmarshal(raw, &line); err != nil {
			return fmt.Errorf("not a request of a Mooncake trace: %w", err)
		}
		request, err := line.request()
		if err != nil {
			return err
		}
		if n := len(requests); n > 0 && request.At < requests[n-1].At {
			return fmt.Errorf(`"timestamp": %v is before that of the line before`, *line.Timestamp)
		}
		requests = append(requests, request)
		return kept.keep(requestMemory + idMemory*len(request.Blocks))
	})
	if err != nil {
		return nil, err
	}
	if len(requests) == 0 {
		return nil, errNoRequests
	}
	var spread time.Duration
	if ticked(requests) {
		spread = mooncakeTick
	}
	return &Workload{Name: "Mooncake trace", Requests: len(requests), Play: func(seed uint64) Source {
		return NewBlockTrace(schedule(requests, spread, load, seed), mooncakeBlock)
	}}, nil
}

func (l *mooncakeLine) request() (BlockRequest, error) {
	at, err := toTime("timestamp", l.Timestamp, time.Millisecond)
	if err != nil {
		return BlockRequest{}, err
	}
	if err := checkTokens("input_length", l.InputLength, 1); err != nil {
		return BlockRequest{}, err
	}
	if err := checkTokens("output_length", l.OutputLength, 0); err != nil {
		return BlockRequest{}, err
	}
	full := *l.InputLength / mooncakeBlock
	switch {
	case l.HashIDs == nil:
		return BlockRequest{}, fmt.Errorf("%q is missing", "hash_ids")
	case len(l.HashIDs) > full+1:
		return BlockRequest{}, fmt.Errorf(`"hash_ids": %d blocks of %d tokens are more than the %d tokens of "input_length"`,
			len(l.HashIDs), mooncakeBlock, *l.InputLength)
	}
	return BlockRequest{
		At: at, PromptTokens: *l.InputLength, OutputTokens: *l.OutputLength,
		Blocks: slices.Clone(l.HashIDs[:min(full, len(l.HashIDs))]),
	}, nil
}

// ticked reports whether the times of requests are rounded to ticks.
func ticked(requests []BlockRequest) bool {
	for i := range requests[1:] {
		if pause := requests[i+1].At - requests[i].At; pause > 0 && pause < mooncakeTickLeast {
			return false
		}
	}
	return true
}

// schedule returns the requests with the times of one play: each put off by a random part
// of spread, and all load times as fast.
func schedule(requests []BlockRequest, spread time.Duration, load float64, seed uint64) []BlockRequest {
	rng := rand.New(rand.NewPCG(seed, 0x6d6f6f6e63616b65))
	out := slices.Clone(requests)
	for i := range out {
		out[i].At = faster(out[i].At+time.Duration(rng.Float64()*float64(spread)), load)
	}
	slices.SortStableFunc(out, func(a, b BlockRequest) int { return cmp.Compare(a.At, b.At) })
	return out
}
