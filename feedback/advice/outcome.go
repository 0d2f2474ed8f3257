package advice

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmroute/warmroute/internal/replay"
)

// Measure is what came of a replay, in the time that counts.
type Measure struct {
	// HitRate is cached ÷ prompt tokens, 0..1.
	HitRate float64
	// P50, P90 and Mean are of the time to first token.
	P50, P90, Mean time.Duration
	// OverflowShare is the part of the requests for which a better backend was full, in the
	// whole replay.
	OverflowShare float64
	// Skew is the busiest backend's requests ÷ the mean: 1 where all get the same.
	Skew float64
	// Unserved is the part of all requests that got no token: refused, or turned away.
	Unserved float64
	// DistinctPrefixes is how many different prefixes requests have, as far as prefix_length
	// goes.
	DistinctPrefixes int
}

// parts is how many parts of equal time a replay is cut into, to be drawn from anew.
const parts = 20

// A histogram of times to first token has buckets that are 0.5 % wide, from 0.1 ms to some
// hours.
const (
	bucketWidth = 1.005
	lowest      = 100 * time.Microsecond
	buckets     = 3800
)

// outcome is a replay with what it takes to compare it with others.
type outcome struct {
	Measure
	busiest   int     // most requests in flight on a backend
	tokenTime float64 // of answers; see the function
	parts     [parts]part
}

// part is a part of the time.
type part struct {
	prompt, cached int // tokens
	ttft           []int32
}

// take makes an outcome of a result, of which the time from..to counts.
func take(r *replay.Result, from, to time.Duration) *outcome {
	o := &outcome{busiest: r.Busiest}
	for i := range o.parts {
		o.parts[i].ttft = make([]int32, buckets)
	}
	window := r.Window(from, to)
	o.tokenTime = tokenTime(window.Samples)
	for _, s := range window.Samples {
		p := &o.parts[min(int(parts*float64(s.At-from)/float64(to-from)), parts-1)]
		p.prompt += s.Prompt
		p.cached += s.Cached
		if s.TTFT > 0 {
			p.ttft[bucket(s.TTFT)]++
		}
	}
	o.Measure = Measure{
		HitRate: window.HitRate(),
		P50:     window.Quantile(.5), P90: window.Quantile(.9), Mean: window.Mean(),
		OverflowShare: r.OverflowShare(),
		Unserved:      1 - float64(len(r.TTFTs))/float64(max(r.Requests, 1)),
	}
	_, most := window.Shares()
	o.Skew = most * float64(len(window.Backends))
	return o
}

func bucket(ttft time.Duration) int {
	b := int(math.Log(float64(max(ttft, lowest))/float64(lowest)) / math.Log(bucketWidth))
	return min(b, buckets-1)
}

// Interval is an estimate with the bounds within which 90 % of what was drawn lies.
type Interval struct {
	Estimate, Low, High float64
}

// Change is what one thing does against another.
type Change struct {
	// HitRate is the difference, of rates 0..1.
	HitRate Interval
	// P90 is the difference of the P90 of the time to first token, relative to before: −0.1 is
	// a tenth less.
	P90 Interval
}

// draws is how many times the parts are drawn.
const draws = 400

// drawing is which parts are drawn, and how often each, one time after another.
type drawing [][parts]int32

// newDrawing draws parts, the same for one seed.
func newDrawing(seed uint64) drawing {
	rng := rand.New(rand.NewPCG(seed, 0x6472617773))
	d := make(drawing, draws)
	for i := range d {
		for range parts {
			d[i][rng.IntN(parts)]++
		}
	}
	return d
}

// drawn are the hit rates and P90s of what was drawn, the latter in seconds.
type drawn struct{ hitRates, p90s []float64 }

// of draws from an outcome.
func (d drawing) of(o *outcome) drawn {
	all := drawn{make([]float64, len(d)), make([]float64, len(d))}
	sum := make([]int32, buckets)
	for i, times := range d {
		prompt, cached, total := 0, 0, 0
		clear(sum)
		for n, count := range times {
			if count == 0 {
				continue
			}
			p := &o.parts[n]
			prompt += int(count) * p.prompt
			cached += int(count) * p.cached
			for b, c := range p.ttft {
				sum[b] += count * c
				total += int(count * c)
			}
		}
		all.hitRates[i] = float64(cached) / float64(max(prompt, 1))
		all.p90s[i] = quantile(sum, total, .9)
	}
	return all
}

// quantile reads a quantile off a histogram, in seconds; within a bucket times are even.
func quantile(histogram []int32, total int, q float64) float64 {
	rank, below := q*float64(total), 0.0
	for b, n := range histogram {
		if below+float64(n) > rank {
			within := (rank - below) / float64(n)
			return lowest.Seconds() * math.Pow(bucketWidth, float64(b)+within)
		}
		below += float64(n)
	}
	return 0
}

// change compares two outcomes, by the same draws.
func change(before, after *outcome, drawnBefore, drawnAfter drawn) Change {
	hits, p90s := make([]float64, len(drawnBefore.hitRates)), make([]float64, len(drawnBefore.p90s))
	for i := range hits {
		hits[i] = drawnAfter.hitRates[i] - drawnBefore.hitRates[i]
		p90s[i] = relative(drawnBefore.p90s[i], drawnAfter.p90s[i])
	}
	return Change{
		HitRate: interval(after.HitRate-before.HitRate, hits),
		P90:     interval(relative(before.P90.Seconds(), after.P90.Seconds()), p90s),
	}
}

// relative is the difference of two times relative to the first; 0 where there is none.
func relative(before, after float64) float64 {
	if before == 0 {
		return 0
	}
	return after/before - 1
}

// interval is an estimate with its bounds. The values are sorted.
func interval(estimate float64, values []float64) Interval {
	slices.Sort(values)
	at := func(q float64) float64 { return values[min(int(q*float64(len(values))), len(values)-1)] }
	return Interval{estimate, min(at(.05), estimate), max(at(.95), estimate)}
}
