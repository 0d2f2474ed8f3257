package workload

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/warmroute/warmroute/kvindex"
)

// ReadRequestLog reads a request log, plain or gzip, and plays the requests of some pools,
// or of all, in an open loop at the recorded times, load times as fast (0 is 1). How they
// ended does not matter. The error of a bad file is a [*LineError].
//
// Block keys name the content. How many tokens a block has is settled by the earliest
// request that has it: its prompt's tokens, evenly over its bytes, less those of the blocks
// known before. What an answer did not report is reckoned: a prompt at the log's own bytes
// per token, an answer at the mean length. A prompt that goes on with an earlier answer finds it
// where that was given. Plays do not depend on the seed.
func ReadRequestLog(r io.Reader, load float64, pools ...string) (*Workload, error) {
	return Open(KindRequestLog, r, Options{Load: load, Pools: pools})
}

// ScanRequestLog reads a request log, plain or gzip, line by line. The error of a bad file, or
// of use, is a [*LineError].
func ScanRequestLog(r io.Reader, use func(*LoggedRequest) error) error {
	return eachRecord(r, func(line []byte) error {
		request, err := ParseLoggedRequest(line)
		if err != nil {
			return err
		}
		return use(&request)
	})
}

func readRequestLog(r io.Reader, pools []string) (*loggedBlocks, error) {
	reading := logReading{known: make(map[kvindex.Key]int32)}
	others := make(map[string]bool) // pools that are not played
	err := ScanRequestLog(r, func(request *LoggedRequest) error {
		if len(pools) > 0 && !slices.Contains(pools, request.Pool) {
			others[request.Pool] = true
			return nil
		}
		return reading.add(request)
	})
	if err != nil {
		return nil, err
	}
	if len(reading.requests) == 0 && len(others) > 0 {
		return nil, fmt.Errorf("the file holds no requests of the pools %q, only of %q", pools, slices.Sorted(maps.Keys(others)))
	}
	if len(reading.requests) == 0 {
		return nil, errNoRequests
	}
	return reading.settle(), nil
}

func (l *loggedBlocks) workload(load float64) *Workload {
	return &Workload{
		Name: "request log", Requests: len(l.requests),
		Ends: faster(l.requests[len(l.requests)-1].at, load),
		Play: func(uint64) Source { return &logPlay{log: l, load: load} },
	}
}

// loggedBlocks is the content of a log. Since a key names a block and all before it, the
// blocks of all prompts are a tree, and a prompt is a block of it and what comes after.
type loggedBlocks struct {
	blocks   []loggedBlock
	requests []logged
}

// loggedBlock is a block with its place in the prompts that have it.
type loggedBlock struct {
	key    kvindex.Key
	parent int32 // noBlock where it is the first
	end    int32 // in tokens from the beginning of a prompt; 0 is not settled yet
	after  int32 // request that is answered here, noRequest where none is
}

const noBlock = -1

// logReading is a log as far as it has been read. Times are from the beginning of 1970.
type logReading struct {
	loggedBlocks
	known       map[kvindex.Key]int32 // block by key
	first, last time.Duration         // arrivals
	reckon      float64               // bytes per token, 0: the mean
	kept        memory
}

func (l *logReading) add(r *LoggedRequest) error {
	at := time.Duration(r.Arrived.UnixNano())
	if len(l.requests) == 0 {
		l.first, l.last = at, at
	}
	l.first, l.last = min(l.first, at), max(l.last, at)
	if l.last-l.first > maxSpan {
		return fmt.Errorf(`"arrived": %v is more than a year from a line before`, r.Arrived)
	}
	last, before := int32(noBlock), len(l.blocks)
	for i, key := range r.Keys {
		block, known := l.known[key]
		if !known {
			block = int32(len(l.blocks)) //nolint:gosec // bounded by the size of a trace
			l.known[key] = block
			l.blocks = append(l.blocks, loggedBlock{key: key, parent: last, after: noRequest})
		}
		if l.blocks[block].parent != last {
			return fmt.Errorf(`"keys": that of block %d follows another block on a line before`, i+1)
		}
		last = block
	}
	reported := func(tokens *int) int32 {
		if tokens == nil {
			return -1
		}
		return int32(*tokens) //nolint:gosec // checked by the parser
	}
	l.requests = append(l.requests, logged{
		at: at, lasted: time.Duration(min(max(r.DurationSeconds, 0), maxSpan.Seconds()) * float64(time.Second)),
		last: last, depth: int32(len(r.Keys)), //nolint:gosec // by the size of a line
		block: int32(r.BlockBytes), stream: int32(r.StreamBytes), //nolint:gosec // checked by the parser
		prompt: reported(r.PromptTokens), output: reported(r.OutputTokens), cached: reported(r.CachedTokens),
	})
	return l.kept.keep(requestMemory + blockMemory*(len(l.blocks)-before))
}

// settle puts the requests in order, and gives lengths in tokens to what has none.
func (l *logReading) settle() *loggedBlocks {
	slices.SortStableFunc(l.requests, func(a, b logged) int { return cmp.Compare(a.at, b.at) })
	bytesPerToken, output := cmp.Or(l.reckon, l.bytesPerToken()), l.meanOutput()
	next := continuations{log: l, latest: make(map[int32]int32)}
	for i := range l.requests {
		r := &l.requests[i]
		r.at -= l.first
		if r.reported = r.prompt >= 0; !r.reported {
			r.prompt = int32(min(float64(r.stream)/bytesPerToken, maxTokens))
		}
		if r.answer = r.output >= 0; !r.answer {
			r.output = output
		}
		next.look(int32(i), l.settleBlocks(r)) //nolint:gosec // by the size of a trace
	}
	next.settle()
	log := l.loggedBlocks // alone: what is only for reading is large
	return &log
}

// bytesPerToken is the mean over all prompts of which both are known.
func (l *logReading) bytesPerToken() float64 {
	bytes, tokens := 0, 0
	for _, r := range l.requests {
		if r.prompt > 0 && r.stream > 0 {
			bytes += int(r.stream)
			tokens += int(r.prompt)
		}
	}
	if tokens == 0 {
		return BytesPerToken
	}
	return float64(bytes) / float64(tokens)
}

// meanOutput is the mean length of the answers of which it is known, at least 1.
func (l *logReading) meanOutput() int32 {
	sum, n := 0, 0
	for _, r := range l.requests {
		if r.output >= 0 {
			sum += int(r.output)
			n++
		}
	}
	return int32(max(sum/max(n, 1), 1)) //nolint:gosec // as each of them
}

// settleBlocks gives a place to those blocks of a prompt that have none: the tokens that
// remain of the prompt, evenly over the bytes that remain, at least one for each block. It
// returns the last block that had one.
func (l *loggedBlocks) settleBlocks(r *logged) int32 {
	open, from := 0, int32(noBlock) // blocks without a place, and the last block with one
	for from = r.last; from != noBlock && l.blocks[from].end == 0; from = l.blocks[from].parent {
		open++
	}
	begin := l.end(from)
	tokens := max(int64(r.prompt-begin), 0)
	bytes := int64(r.stream) - int64(int(r.depth)-open)*int64(r.block)
	at := r.last
	for i := open; i > 0; i-- {
		share := max(tokens*int64(i)*int64(r.block)/bytes, int64(i))
		l.blocks[at].end = begin + int32(share) //nolint:gosec // of lengths that are checked
		at = l.blocks[at].parent
	}
	return from
}

// end is where a block ends, in tokens from the beginning of a prompt.
func (l *loggedBlocks) end(at int32) int32 {
	if at == noBlock {
		return 0
	}
	return l.blocks[at].end
}

// logPlay is one play of a log. It implements [Source].
type logPlay struct {
	log  *loggedBlocks
	load float64
	next int
}

// Next implements [Source].
func (p *logPlay) Next() (Request, bool) {
	if p.next == len(p.log.requests) {
		return Request{}, false
	}
	number := int32(p.next) //nolint:gosec // by the size of a trace
	r := &p.log.requests[number]
	p.next++
	next := Request{At: faster(r.at, p.load), Prompt: p.log.promptOf(number), OutputTokens: max(int(r.output), 1), Session: p.next}
	if r.continued {
		next.Answer = answerTo(number)
	}
	return next, true
}

// Ended implements [Source].
func (p *logPlay) Ended(*Request, time.Duration, bool) (Request, bool) { return Request{}, false }
