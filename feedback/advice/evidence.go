package advice

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
)

// There is too little data for advice where fewer requests than minCounted count, or they
// came in less than minPeriod. Where there are more and they still do not prove that one value is
// better than another, the verdict is [Unsure].
const (
	minCounted = 300
	minPeriod  = 2 * time.Minute
)

// evidence is what the window shows by itself.
func (w *Window) evidence() Evidence {
	all := w.requests.Requests
	e := Evidence{Requests: len(all), Whole: w.requests.Whole, LongestStream: w.longest()}
	if len(all) == 0 {
		return e
	}
	e.From, e.To = w.span()
	warm, _ := w.counts()
	var ttfts []time.Duration
	prompt, cached, answered, reported, reckoned := 0, 0, 0, 0, 0
	for i := range all {
		p := &all[i]
		if p.Arrived.Sub(e.From) < warm {
			continue
		}
		e.Counted++
		if p.PromptTokens == recent.Unknown {
			reckoned++
		}
		if p.TTFT > 0 {
			ttfts = append(ttfts, p.TTFT)
		}
		if p.Result == feedback.Success {
			answered++
			if p.CachedTokens != recent.Unknown && p.PromptTokens != recent.Unknown {
				reported++
				prompt += p.PromptTokens
				cached += p.CachedTokens
			}
		}
	}
	ratio := func(a, b int) float64 { return float64(a) / float64(max(b, 1)) }
	e.Reported, e.HitRate, e.Reckoned = ratio(reported, answered), ratio(cached, prompt), ratio(reckoned, e.Counted)
	if slices.Sort(ttfts); len(ttfts) > 0 {
		e.P90 = ttfts[min(len(ttfts)*9/10, len(ttfts)-1)]
	}
	return e
}

// tooLittle says what the requests lack to prove anything: their number, the time in which they
// came, or both; empty when they may.
func (e *Evidence) tooLittle() string {
	var lacks []string
	if e.Counted < minCounted {
		lacks = append(lacks, fmt.Sprintf("%d requests count, and fewer than %d prove nothing: the first fifth of the time only warms caches", e.Counted, minCounted))
	}
	if period := e.To.Sub(e.From); e.Requests > 0 && period < minPeriod {
		lacks = append(lacks, fmt.Sprintf("the requests came within %v, and less than %v proves nothing", period.Round(time.Second), minPeriod))
	}
	return strings.Join(lacks, "; ")
}
