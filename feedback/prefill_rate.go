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
	// minRateTokens is the smallest uncached prompt, in tokens, whose TTFT says
	// something about the rate.
	minRateTokens = 1000
	// rateQuantile is which of the samples is believed: a low one, because half the
	// true rate costs nothing and twice the true rate costs 38 % at P90.
	rateQuantile = 0.25
)

// PrefillRate learns how many uncached tokens a second a backend prefills, from requests
// that were alone on it. It is safe for concurrent use; the zero value says
// [DefaultPrefillRate].
type PrefillRate struct {
	mu      sync.Mutex
	samples []float64 // a ring once it is full
	next    int

	learned atomic.Uint64 // float64 bits; 0 while there are too few samples
}

// Observe takes in the TTFT of a request of uncached tokens that was alone on the
// backend from its dispatch to its first token. Small ones are ignored.
func (r *PrefillRate) Observe(uncached int, ttft time.Duration) {
	if uncached < minRateTokens || ttft <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rate := float64(uncached) / ttft.Seconds()
	if len(r.samples) < rateSamples {
		r.samples = append(r.samples, rate)
	} else {
		r.samples[r.next] = rate
		r.next = (r.next + 1) % rateSamples
	}
	if len(r.samples) >= minRateSamples {
		sorted := slices.Sorted(slices.Values(r.samples))
		r.learned.Store(math.Float64bits(sorted[int(rateQuantile*float64(len(sorted)-1))]))
	}
}

// Learned is the prefill rate in tokens per second that requests have shown, a low quantile
// of the latest; 0 while there are too few.
func (r *PrefillRate) Learned() float64 { return math.Float64frombits(r.learned.Load()) }

// Rate is what has been learned, and until then the default.
func (r *PrefillRate) Rate() float64 { return cmp.Or(r.Learned(), DefaultPrefillRate) }
