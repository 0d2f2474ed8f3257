package demo

import (
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/warmroute/warmroute/router"
)

// Result is what came of one strategy. Scripts rely on the JSON names.
type Result struct {
	// Strategy is its name.
	Strategy string `json:"strategy"`
	// Requests is how many were sent, Errors how many of them were not answered in
	// full.
	Requests int `json:"requests"`
	Errors   int `json:"errors"`
	// HitRate is cached ÷ prompt tokens as the engines reported them, 0–1.
	HitRate float64 `json:"hit_rate"`
	// TTFTP50 and TTFTP90 are percentiles of the time to the first event with
	// content, in simulated seconds, at the client.
	TTFTP50 float64 `json:"ttft_p50_s"`
	TTFTP90 float64 `json:"ttft_p90_s"`
	// ShareMin and ShareMax are the shares of the answered requests that the idlest
	// and the busiest backend got, 0–1.
	ShareMin float64 `json:"share_min"`
	ShareMax float64 `json:"share_max"`
	// OverflowShare is the share of the answered requests that a better backend was
	// too full for, 0–1.
	OverflowShare float64 `json:"overflow_share"`

	// PromptTokens and CachedTokens are the sums behind HitRate.
	PromptTokens int64 `json:"-"`
	CachedTokens int64 `json:"-"`
	// Err is the first error, nil when there was none.
	Err error `json:"-"`
}

// The histogram's range, in microseconds of simulated time, and its precision.
const (
	histogramMax    = int64(time.Hour / time.Microsecond)
	histogramDigits = 3
)

// measure gathers what came of a strategy's requests. It is safe for concurrent
// use.
type measure struct {
	mu       sync.Mutex
	speed    float64
	overflow map[string]bool // reasons that mean overflow
	ttft     *hdrhistogram.Histogram
	shares   map[string]int
	over     int
	result   Result
}

// newMeasure returns an empty measure. Backends that get nothing must be named to
// count.
func newMeasure(strategy string, backends []string, speed float64) *measure {
	m := &measure{
		speed:    speed,
		overflow: make(map[string]bool),
		ttft:     hdrhistogram.New(1, histogramMax, histogramDigits),
		shares:   make(map[string]int),
		result:   Result{Strategy: strategy},
	}
	for _, reason := range router.Reasons() {
		m.overflow[reason.String()] = reason.IsOverflow()
	}
	for _, id := range backends {
		m.shares[id] = 0
	}
	return m
}

// add counts one request.
func (m *measure) add(a answer, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.result.Requests++
	if err != nil {
		m.result.Errors++
		if m.result.Err == nil {
			m.result.Err = err
		}
		return
	}
	simulated := time.Duration(float64(a.ttft) * m.speed)
	_ = m.ttft.RecordValue(min(simulated.Microseconds(), histogramMax)) // within its range
	m.result.PromptTokens += int64(a.prompt)
	m.result.CachedTokens += int64(a.cached)
	m.shares[a.backend]++
	if m.overflow[a.reason] {
		m.over++
	}
}

// hopeless reports that so many requests failed, and none went well, that the rest
// need not be tried.
func (m *measure) hopeless() bool {
	const enough = 20
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.result.Errors >= enough && m.result.Errors == m.result.Requests
}

// sum returns the result so far.
func (m *measure) sum() Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.result
	answered := r.Requests - r.Errors
	if answered == 0 {
		return r
	}
	if r.PromptTokens > 0 {
		r.HitRate = float64(r.CachedTokens) / float64(r.PromptTokens)
	}
	seconds := func(percentile float64) float64 {
		return (time.Duration(m.ttft.ValueAtPercentile(percentile)) * time.Microsecond).Seconds()
	}
	r.TTFTP50, r.TTFTP90 = seconds(50), seconds(90)
	var counts []int
	for _, n := range m.shares {
		counts = append(counts, n)
	}
	r.ShareMin = float64(slices.Min(counts)) / float64(answered)
	r.ShareMax = float64(slices.Max(counts)) / float64(answered)
	r.OverflowShare = float64(m.over) / float64(answered)
	return r
}
