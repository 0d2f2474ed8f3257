package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Facts of the Weka traces, counted over the 251 sessions of at most 128,000 tokens (9,638
// requests, 635 M prompt tokens) and all 710 (48,658 requests, 6,007 M):
//
//   - Every prompt names exactly its full blocks, ⌊in/64⌋; no block occurs twice in a prompt.
//   - New blocks are numbered on from 1 within a session, so nearly every prompt is a few runs
//     of consecutive ids: 9,676 runs in 9,638 requests. Some requests, 18 of the 251 sessions,
//     take up runs again that an earlier request had and the one before had not.
//   - The blocks that hold an answer cannot be told: a prompt that goes on from the one before
//     has fresh ids after it, and in is less than the previous in + out in a tenth of them. The
//     last, partial block of a prompt has no id either.
//   - think_time is the pause before a request, after the end of the one before:
//     t − t′ − api_time′ − think_time has a median of 0. Some are of a day.
//   - A handful of requests have no output, and sub-agents overlap where t − t′ is less than
//     api_time′; t never runs backwards.
const (
	wekaThinkMax      = 300 * time.Second
	wekaDefaultWindow = time.Hour
)

// wekaValues are the values of a request, in order.
var wekaValues = [...]string{"t", "in", "out", "api_time", "think_time", "keep", "rle"}

// WekaConfig says how a Weka trace is played. The zero value works.
type WekaConfig struct {
	// Window is the time over which sessions begin, uniformly at random. 0 is an hour.
	Window time.Duration
	// Load divides Window. 0 is 1.
	Load float64
}

// Validate names the first field that makes no sense.
func (c WekaConfig) Validate() error {
	return firstWrong(KindWeka, within("window", c.Window, 0, maxSpan), checkLoad(c.Load))
}

// wekaHeader is the first line of a Weka trace.
type wekaHeader struct {
	Block   *int     `json:"block"` // tokens
	Request []string `json:"request"`
}

// wekaLine is a session, one line.
type wekaLine struct {
	ToolTokens   *int                `json:"tool_tokens"`
	SystemTokens *int                `json:"system_tokens"`
	Requests     [][]json.RawMessage `json:"requests"`
}

// wekaSession is a session as it is kept, in the delta form of the file.
type wekaSession struct {
	// Head is the content that other sessions share, named head, headBlocks long. It is in
	// the blocks with the first ids. The rest of the content is named own.
	head, own  uint64
	headBlocks uint64
	turns      []wekaTurn
}

// wekaTurn is a request: its blocks are the first keep ones of the request before and the
// runs after them.
type wekaTurn struct {
	prompt, output int32 // tokens
	keep           int32 // blocks
	think          time.Duration
	runs           []blockRun
}

// ReadWeka reads a trace of coding agents' sessions in the form derived from Weka's, plain
// or gzip. The first line is a header, {"block", "request"}, then each line is a session,
// {"tool_tokens", "system_tokens", "requests": [[t, in, out, api_time, think_time, keep,
// rle], …]}, where rle is [start, length, …].
//
// A session is a closed loop: a request is sent when the one before has ended, answered or
// not, and its think time, of 300 s at most, has passed. Block ids count within a session;
// sessions with the same tool and system tokens have the blocks of these in common. Answers
// have no name, since the trace does not tell which blocks they are in. The error of a bad
// file is a [*LineError].
func ReadWeka(r io.Reader, c WekaConfig) (*Workload, error) {
	return Open(KindWeka, r, Options{Window: c.Window, Load: c.Load})
}

func readWeka(r io.Reader) (*wekaTrace, error) {
	var trace wekaTrace
	var kept memory
	err := eachRecord(r, func(raw []byte) error {
		if trace.block == 0 {
			return trace.readHeader(raw)
		}
		session, err := readWekaSession(raw, trace.block)
		if err != nil {
			return err
		}
		session.own = nameOf(uint64(len(trace.sessions)), ^uint64(0))
		trace.requests += len(session.turns)
		trace.sessions = append(trace.sessions, session)
		return kept.keep(session.memory())
	})
	if err != nil {
		return nil, err
	}
	if trace.requests == 0 {
		return nil, errNoRequests
	}
	return &trace, nil
}

func (t *wekaTrace) readHeader(raw []byte) error {
	var h wekaHeader
	if err := json.Unmarshal(raw, &h); err != nil {
		return fmt.Errorf("not the header of a Weka trace: %w", err)
	}
	if err := checkTokens("block", h.Block, 1); err != nil {
		return fmt.Errorf("not the header of a Weka trace: %w", err)
	}
	if !slices.Equal(h.Request, wekaValues[:]) {
		return fmt.Errorf(`"request": the values of a request must be %q, are %.100q`, wekaValues, h.Request)
	}
	t.block = *h.Block
	return nil
}

func readWekaSession(raw []byte, block int) (wekaSession, error) {
	var line wekaLine
	if err := json.Unmarshal(raw, &line); err != nil {
		return wekaSession{}, fmt.Errorf("not a session of a Weka trace: %w", err)
	}
	if err := checkTokens("tool_tokens", line.ToolTokens, 0); err != nil {
		return wekaSession{}, err
	}
	if err := checkTokens("system_tokens", line.SystemTokens, 0); err != nil {
		return wekaSession{}, err
	}
	if line.Requests == nil {
		return wekaSession{}, errors.New(`"requests" is missing`)
	}
	s := wekaSession{
		head:       nameOf(uint64(*line.ToolTokens), uint64(*line.SystemTokens)),
		headBlocks: uint64((*line.ToolTokens + *line.SystemTokens) / block),
		turns:      make([]wekaTurn, 0, len(line.Requests)),
	}
	var clock recordedClock
	blocks := 0
	for i, values := range line.Requests {
		turn, err := readWekaTurn(values, &clock, block, blocks)
		if err != nil {
			return wekaSession{}, fmt.Errorf("request %d: %w", i+1, err)
		}
		blocks = turn.blocks()
		s.turns = append(s.turns, turn)
	}
	return s, nil
}

// readWekaTurn reads a request after one of so many blocks.
func readWekaTurn(values []json.RawMessage, clock *recordedClock, block, before int) (wekaTurn, error) {
	if len(values) != len(wekaValues) {
		return wekaTurn{}, fmt.Errorf("it has %d values, want %d", len(values), len(wekaValues))
	}
	var sent, took, think *float64
	var prompt, output, keep *int
	var rle []uint64
	for i, into := range []any{&sent, &prompt, &output, &took, &think, &keep, &rle} {
		if err := json.Unmarshal(values[i], into); err != nil {
			return wekaTurn{}, fmt.Errorf("%q: %w", wekaValues[i], err)
		}
	}
	if _, err := clock.read("t", sent, time.Second); err != nil {
		return wekaTurn{}, err
	}
	pause, err := toTime("think_time", think, time.Second)
	if err != nil {
		return wekaTurn{}, err
	}
	if err := errors.Join(checkTokens("in", prompt, 1), checkTokens("out", output, 0)); err != nil {
		return wekaTurn{}, err
	}
	full := *prompt / block
	if most := min(before, full); keep == nil || *keep < 0 || *keep > most {
		return wekaTurn{}, fmt.Errorf(`"keep": %s is not in 0..%d, what this request and the one before have full blocks for`, values[5], most)
	}
	runs, err := readRuns(rle, full-*keep)
	if err != nil {
		return wekaTurn{}, fmt.Errorf(`"rle": %w`, err)
	}
	return wekaTurn{
		prompt: int32(*prompt), output: int32(max(*output, 1)), keep: int32(*keep), //nolint:gosec // checked above
		think: min(pause, wekaThinkMax), runs: runs,
	}, nil
}

// readRuns reads runs of at most so many blocks in all.
func readRuns(rle []uint64, room int) ([]blockRun, error) {
	if len(rle)%2 != 0 {
		return nil, fmt.Errorf("%d numbers are not pairs of start and length", len(rle))
	}
	runs := make([]blockRun, 0, len(rle)/2)
	for pair := range slices.Chunk(rle, 2) {
		start, length := pair[0], pair[1]
		switch {
		case start < 1 || start > math.MaxInt32:
			return nil, fmt.Errorf("block %d is not in 1..%d", start, math.MaxInt32)
		case length < 1 || length > uint64(room):
			return nil, fmt.Errorf("a run of %d blocks is not in 1..%d, the full blocks left of the prompt", length, room)
		}
		room -= int(length)
		runs = append(runs, blockRun{start, length})
	}
	return runs, nil
}

// memory is about what the session takes, in bytes.
func (s *wekaSession) memory() int {
	sum := requestMemory * (1 + len(s.turns))
	for i := range s.turns {
		sum += runMemory * len(s.turns[i].runs)
	}
	return sum
}

// blocks is how many blocks the prompt names.
func (t *wekaTurn) blocks() int {
	n := int(t.keep)
	for _, r := range t.runs {
		n += int(r.length)
	}
	return n
}
