package feedback

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minRateSamples is how many samples it takes to leave the default.
	minRateSamples = 20
	// rateSamples is how many of the latest samples are kept.
	rateSamples = 64
	// minRateTokens is the smallest uncached prompt, in tokens, whose prefill says
	// something about the rate: of a smaller one most is the time of a step. Where others waited with it the engine may have begun with
	// it in the step that ended the one before: that is up to 2,048 tokens, so it takes more.
	minRateTokens       = 256
	minRateTokensWaited = 4096
	// rateQuantile is which of the samples is believed, each as often as it has tokens: a low
	// one, because half the true rate costs nothing and twice the true rate costs 38 % at P90.
	rateQuantile = 0.25
)

// PrefillRate learns how many uncached tokens a second a backend prefills, from requests
// that it worked on one at a time ([PrefillQueue.FirstToken]). It is safe for concurrent use; the zero value says
// [DefaultPrefillRate].
type PrefillRate struct {
	mu      sync.Mutex
	samples []rateSample // a ring once it is full
	next    int

	learned atomic.Uint64 // float64 bits; 0 while there are too few samples
}

// Observe takes in that the prefill of a request of uncached tokens took that long, and
// whether it had waited for others. Small ones are ignored.
func (r *PrefillRate) Observe(uncached int, took time.Duration, waited bool) {
	if uncached < minRateTokens || waited && uncached < minRateTokensWaited || took <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sample := rateSample{tokens: float64(uncached), rate: float64(uncached) / took.Seconds()}
	if len(r.samples) < rateSamples {
		r.samples = append(r.samples, sample)
	} else {
		r.samples[r.next] = sample
		r.next = (r.next + 1) % rateSamples
	}
	if len(r.samples) >= minRateSamples {
		r.learned.Store(math.Float64bits(quantileRate(r.samples)))
	}
}

// rateSample is how fast so many tokens were prefilled.
type rateSample struct{ tokens, rate float64 }

// quantileRate is the rate that [rateQuantile] of all tokens were not prefilled faster than.
func quantileRate(samples []rateSample) float64 {
	sorted := slices.SortedFunc(slices.Values(samples), func(a, b rateSample) int { return cmp.Compare(a.rate, b.rate) })
	total := 0.0
	for _, s := range sorted {
		total += s.tokens
	}
	slower := 0.0
	for _, s := range sorted {
		if slower += s.tokens; slower >= rateQuantile*total {
			return s.rate
		}
	}
	return sorted[len(sorted)-1].rate
}

// Learned is the prefill rate in tokens per second that requests have shown, a low quantile
// of the latest; 0 while there are too few.
func (r *PrefillRate) Learned() float64 { return math.Float64frombits(r.learned.Load()) }

// Rate is what has been learned, and until then the default.
func (r *PrefillRate) Rate() float64 { return cmp.Or(r.Learned(), DefaultPrefillRate) }
