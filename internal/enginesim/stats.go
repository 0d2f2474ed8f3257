package enginesim

import (
	"slices"
	"time"
)

// Histogram counts observations in buckets, as Prometheus does.
type Histogram struct {
	// Bounds are the inclusive upper bounds of the buckets, ascending; a last
	// bucket without bound follows.
	Bounds []float64
	// Counts are the observations in each bucket, len(Bounds)+1 of them, not
	// cumulative.
	Counts []uint64
	// Sum is the sum of all observations, Count their number.
	Sum   float64
	Count uint64
}

func newHistogram(bounds []float64) Histogram {
	return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

func (h *Histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.Bounds, v)
	h.Counts[i]++
	h.Sum += v
	h.Count++
}

func (h *Histogram) seconds(d time.Duration) { h.observe(d.Seconds()) }

func (h Histogram) clone() Histogram {
	h.Counts = slices.Clone(h.Counts)
	return h
}

// vLLM's bucket bounds: seconds for latencies, tokens for sizes.
var (
	ttftBounds = []float64{
		.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	tokenLatencyBounds = []float64{
		.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
	}
	requestLatencyBounds = []float64{
		.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
	}
	iterationBounds = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
)

// tokenBounds returns vLLM's 1-2-5 series up to the longest request.
func tokenBounds(limit int) []float64 {
	var bounds []float64
	for exp := 1; ; exp *= 10 {
		for _, mantissa := range []int{1, 2, 5} {
			if mantissa*exp > limit {
				return bounds
			}
			bounds = append(bounds, float64(mantissa*exp))
		}
	}
}

// Counters only grow. They are what a vLLM engine exposes on /metrics and
// follow its rules of when each is counted.
type Counters struct {
	// PrefixQueries and PrefixHits are tokens looked up and found, once for
	// each sequence at its first admission.
	PrefixQueries, PrefixHits int64
	// PromptTokens are the prompt tokens of completed prefills, of which
	// PromptTokensCached came from the cache.
	PromptTokens, PromptTokensCached int64
	// GenerationTokens are the output tokens.
	GenerationTokens int64
	// Preemptions counts sequences that lost their blocks.
	Preemptions int64
	// Submitted counts accepted requests.
	Submitted int64
	// Finished counts ended sequences by [FinishReason].
	Finished [finishReasons]int64
	// Steps counts engine steps, ComputedTokens the tokens computed in them.
	Steps, ComputedTokens int64
	// EvictedBlocks counts cached blocks whose memory was taken for others.
	EvictedBlocks int64
	// Busy is the time spent in steps.
	Busy time.Duration
}

// Stats is an engine's state and history at one moment.
type Stats struct {
	Counters
	// Arriving, Waiting and Running are the sequences in those states.
	Arriving, Waiting, Running int
	// TotalBlocks, FreeBlocks and CachedBlocks are KV blocks: all, those that
	// no sequence references, and those that a lookup can find (referenced or
	// not).
	TotalBlocks, FreeBlocks, CachedBlocks int
	// MaxTokens bounds prompt and output of a request together.
	MaxTokens int
	// BlockSize is the tokens in a block.
	BlockSize int
	// KVUsage is the share of blocks that sequences reference, 0 to 1. Blocks
	// that are merely cached do not count.
	KVUsage float64
	// NoPrefixCaching reports whether every prompt is a miss.
	NoPrefixCaching bool
	// Sleeping reports whether the engine is asleep.
	Sleeping bool
	// TimeToFirstToken, from arrival, InterTokenLatency and
	// TimePerOutputToken, a request's mean, are in seconds.
	TimeToFirstToken, InterTokenLatency, TimePerOutputToken Histogram
	// EndToEnd, Queue, Prefill, Decode and Inference are a finished request's
	// times in seconds: all of it, until admitted, then until the first token,
	// then until the last, and the last two together.
	EndToEnd, Queue, Prefill, Decode, Inference Histogram
	// RequestPrompt, RequestGeneration and RequestComputed are a finished
	// request's tokens: prompt, output, and prompt without the cached.
	RequestPrompt, RequestGeneration, RequestComputed Histogram
	// IterationTokens are the tokens computed in a step.
	IterationTokens Histogram
}

func newStats(maxTokens int) Stats {
	sizes := tokenBounds(maxTokens)
	return Stats{
		TimeToFirstToken:   newHistogram(ttftBounds),
		InterTokenLatency:  newHistogram(tokenLatencyBounds),
		TimePerOutputToken: newHistogram(tokenLatencyBounds),
		EndToEnd:           newHistogram(requestLatencyBounds),
		Queue:              newHistogram(requestLatencyBounds),
		Prefill:            newHistogram(requestLatencyBounds),
		Decode:             newHistogram(requestLatencyBounds),
		Inference:          newHistogram(requestLatencyBounds),
		RequestPrompt:      newHistogram(sizes),
		RequestGeneration:  newHistogram(sizes),
		RequestComputed:    newHistogram(sizes),
		IterationTokens:    newHistogram(iterationBounds),
	}
}

// Counters returns the counters alone, which costs less than [Engine.Stats].
func (e *Engine) Counters() Counters { return e.stats.Counters }

// Stats returns a copy of the engine's state and history.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.Arriving, s.Waiting, s.Running = e.arriving.len(), e.waiting.len(), len(e.running)
	s.TotalBlocks, s.FreeBlocks, s.CachedBlocks = e.cache.total(), e.cache.free, e.cache.cached
	s.BlockSize, s.MaxTokens = e.cache.size, e.maxTokens
	s.KVUsage = 1 - float64(s.FreeBlocks)/float64(s.TotalBlocks)
	s.EvictedBlocks = e.cache.evicted
	s.Sleeping, s.NoPrefixCaching = e.sleeping, e.cfg.DisablePrefixCaching
	for _, h := range []*Histogram{
		&s.TimeToFirstToken, &s.InterTokenLatency, &s.TimePerOutputToken,
		&s.EndToEnd, &s.Queue, &s.Prefill, &s.Decode, &s.Inference,
		&s.RequestPrompt, &s.RequestGeneration, &s.RequestComputed, &s.IterationTokens,
	} {
		*h = h.clone()
	}
	return s
}

// countPrefill books a sequence's prefill, whose prompt is now computed.
func (e *Engine) countPrefill(s *Sequence) {
	if s.counted {
		return
	}
	s.counted = true
	e.stats.PromptTokens += int64(s.req.PromptTokens)
	e.stats.PromptTokensCached += int64(s.cached)
}

// countFinished books an ended sequence. Aborted ones leave no latencies.
func (e *Engine) countFinished(s *Sequence, reason FinishReason) {
	st := &e.stats
	st.Finished[reason]++
	if reason == FinishAbort {
		return
	}
	st.EndToEnd.seconds(s.finished - s.arrived)
	st.Queue.seconds(s.admitted - s.ready)
	st.Inference.seconds(s.finished - s.admitted)
	st.RequestPrompt.observe(float64(s.req.PromptTokens))
	st.RequestGeneration.observe(float64(s.generated))
	st.RequestComputed.observe(float64(s.req.PromptTokens - s.cached))
	if s.generated == 0 {
		st.Prefill.seconds(s.finished - s.admitted)
		return
	}
	st.Prefill.seconds(s.first - s.admitted)
	st.Decode.seconds(s.finished - s.first)
	if s.generated > 1 {
		st.TimePerOutputToken.observe((s.finished - s.first).Seconds() / float64(s.generated-1))
	}
}

// Load returns how many sequences are in each state before the end.
func (e *Engine) Load() (arriving, waiting, running int) {
	return e.arriving.len(), e.waiting.len(), len(e.running)
}
