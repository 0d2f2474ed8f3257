package report

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/warmroute/warmroute/internal/replay"
)

// Row is the figures of a run. Scripts rely on the JSON names, which are those of
// `warmroute demo` where both have a figure.
type Row struct {
	// SweepKey and SweepValue are what differs between the runs of a sweep.
	SweepKey   string `json:"sweep_key,omitempty"`
	SweepValue Value  `json:"sweep_value,omitempty"`
	// Strategy is the strategy's name, or that of a placement.
	Strategy string `json:"strategy"`
	// Requests is how many were sent, Errors how many of them got no complete answer
	// although their client waited for it.
	Requests int `json:"requests"`
	Errors   int `json:"errors"`
	// HitRate is cached ÷ prompt tokens, as the engines found them, 0–1.
	HitRate float64 `json:"hit_rate"`
	// The time to first token: percentiles and mean, in seconds of virtual time.
	TTFTP50  float64 `json:"ttft_p50_s"`
	TTFTP90  float64 `json:"ttft_p90_s"`
	TTFTP99  float64 `json:"ttft_p99_s"`
	TTFTMean float64 `json:"ttft_mean_s"`
	// RPS is answered requests per second of virtual time.
	RPS float64 `json:"rps"`
	// ShareMin and ShareMax are the parts of the admitted requests that the idlest and
	// the busiest backend got, PrefillShareMin and PrefillShareMax those of the tokens
	// that were not cached, 0–1.
	ShareMin        float64 `json:"share_min"`
	ShareMax        float64 `json:"share_max"`
	PrefillShareMin float64 `json:"prefill_share_min"`
	PrefillShareMax float64 `json:"prefill_share_max"`
	// OverflowShare is the part of the requests that a better backend was too full for,
	// 0–1.
	OverflowShare float64 `json:"overflow_share"`
	// Precision is how much of what the router expected to be cached was; Recall is how
	// much of what was cached it had expected, 0–1; nil where nothing was.
	Precision *float64 `json:"precision"`
	Recall    *float64 `json:"recall"`
	// Seed makes the run repeatable.
	Seed uint64 `json:"seed"`
}

// Value is a swept key's value as it was written. In JSON it is a number where it is one.
type Value string

// MarshalJSON implements [json.Marshaler].
func (v Value) MarshalJSON() ([]byte, error) {
	if _, err := strconv.ParseFloat(string(v), 64); err == nil && json.Valid([]byte(v)) {
		return []byte(v), nil
	}
	return json.Marshal(string(v))
}

// newRow takes the figures of a result.
func newRow(strategy string, r *replay.Result) Row {
	requests, prefilled := shares(r.Backends), shares(r.Prefilled())
	expected, cached := 0, 0
	for _, s := range r.Samples {
		expected += s.Expected
		cached += s.Cached
	}
	return Row{
		Strategy:        strategy,
		Requests:        r.Requests,
		Errors:          r.Rejected + r.Refused + r.Broken,
		HitRate:         figure(r.HitRate()),
		TTFTP50:         figure(r.Quantile(.5).Seconds()),
		TTFTP90:         figure(r.Quantile(.9).Seconds()),
		TTFTP99:         figure(r.Quantile(.99).Seconds()),
		TTFTMean:        figure(r.Mean().Seconds()),
		RPS:             figure(float64(r.Answered) / max(r.Duration.Seconds(), 1e-9)),
		ShareMin:        figure(slices.Min(requests)),
		ShareMax:        figure(slices.Max(requests)),
		PrefillShareMin: figure(slices.Min(prefilled)),
		PrefillShareMax: figure(slices.Max(prefilled)),
		OverflowShare:   figure(r.OverflowShare()),
		Precision:       shareOf(expected, r.Precision()),
		Recall:          shareOf(cached, r.Recall()),
	}
}

// shareOf is a share of some tokens, nil without any.
func shareOf(tokens int, share float64) *float64 {
	if tokens == 0 {
		return nil
	}
	share = figure(share)
	return &share
}

// figure rounds to six places, more than any of these quantities is worth.
func figure(x float64) float64 { return math.Round(x*1e6) / 1e6 }
