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
// nothing else. It is played in an open loop, load times as fast as recorded (0 is 1), from
// the time of the first request on. In a trace whose times come in ticks of 3 seconds,
// requests are spread uniformly over their tick: a tick's burst is of the anonymisation's
// making. The error of a bad file is a [*LineError].
func ReadMooncake(r io.Reader, load float64) (*Workload, error) {
	return Open(KindMooncake, r, Options{Load: load})
}

// mooncakeTrace is a trace as it is kept. It does not change.
type mooncakeTrace struct {
	requests []BlockRequest // from 0 on
	spread   time.Duration  // of the requests of one time
}

func readMooncake(r io.Reader) (*mooncakeTrace, error) {
	var t mooncakeTrace
	var kept memory
	var clock recordedClock
	err := eachRecord(r, func(raw []byte) error {
		var line mooncakeLine
		if err := json.Unmarshal(raw, &line); err != nil {
			return fmt.Errorf("not a request of a Mooncake trace: %w", err)
		}
		request, err := line.request(&clock)
		if err != nil {
			return err
		}
		t.requests = append(t.requests, request)
		return kept.keep(requestMemory + idMemory*len(request.Blocks))
	})
	if err != nil {
		return nil, err
	}
	if len(t.requests) == 0 {
		return nil, errNoRequests
	}
	if ticked(t.requests) {
		t.spread = mooncakeTick
	}
	return &t, nil
}

func (t *mooncakeTrace) workload(load float64) *Workload {
	return &Workload{
		Name: "Mooncake trace", Requests: len(t.requests),
		Ends: faster(t.requests[len(t.requests)-1].At+t.spread, load),
		Play: func(seed uint64) Source {
			return NewBlockTrace(schedule(t.requests, t.spread, load, seed), mooncakeBlock)
		},
	}
}

func (l *mooncakeLine) request(clock *recordedClock) (BlockRequest, error) {
	at, err := clock.read("timestamp", l.Timestamp, time.Millisecond)
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
