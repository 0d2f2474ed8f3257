package tuning

import (
	"math"
	"time"

	"github.com/warmroute/warmroute/feedback"
)

// Delivered is what engines delivered over some time.
type Delivered struct {
	// Answers are those that reported their cached tokens.
	Answers int
	// HitRate is cached ÷ prompt tokens of these, 0..1, and Error its standard error.
	HitRate, Error float64
	// P90 is that of the time to first token of streams; 0 where there were none.
	P90 time.Duration
	// Unserved is the part of all requests for which no backend had room, or could serve in time, 0..1.
	Unserved float64
}

// A histogram of times to first token has buckets that are 5 % wide, from 1 ms to an hour.
const (
	bucketWidth = 1.05
	lowest      = time.Millisecond
	buckets     = 312
)

// part is what was delivered in a part of an observation. It may be added to another.
type part struct {
	requests, unserved, answers int
	prompt, cached              float64 // tokens
	// Sums over answers, for the standard error of a ratio.
	promptSquared, cachedSquared, promptCached float64
	streams                                    int
	ttft                                       [buckets]uint32
}

// add takes in a request that ended.
func (p *part) add(r *feedback.Record) {
	p.requests++
	switch r.Result {
	case feedback.Saturated, feedback.NoBackend, feedback.Timeout:
		p.unserved++
		return
	case feedback.Success:
	default:
		return
	}
	if r.Streamed && r.TTFT > 0 {
		p.streams++
		p.ttft[bucket(r.TTFT)]++
	}
	if u := &r.Usage; u.HasPrompt && u.HasCached && u.Prompt > 0 {
		p.answers++
		prompt, cached := float64(u.Prompt), float64(u.Cached)
		p.prompt += prompt
		p.cached += cached
		p.promptSquared += prompt * prompt
		p.cachedSquared += cached * cached
		p.promptCached += prompt * cached
	}
}

func bucket(ttft time.Duration) int {
	b := int(math.Log(float64(max(ttft, lowest))/float64(lowest)) / math.Log(bucketWidth))
	return min(b, buckets-1)
}

// join adds another part.
func (p *part) join(o *part) {
	p.requests += o.requests
	p.unserved += o.unserved
	p.answers += o.answers
	p.prompt += o.prompt
	p.cached += o.cached
	p.promptSquared += o.promptSquared
	p.cachedSquared += o.cachedSquared
	p.promptCached += o.promptCached
	p.streams += o.streams
	for b := range p.ttft {
		p.ttft[b] += o.ttft[b]
	}
}

// delivered are its figures. The standard error is that of a ratio of sums, by the residuals of
// what each answer would have found at the mean rate; answers count as independent.
func (p *part) delivered() Delivered {
	d := Delivered{Answers: p.answers, P90: p.p90()}
	if p.requests > 0 {
		d.Unserved = float64(p.unserved) / float64(p.requests)
	}
	if p.prompt > 0 {
		d.HitRate = p.cached / p.prompt
		residuals := p.cachedSquared - 2*d.HitRate*p.promptCached + d.HitRate*d.HitRate*p.promptSquared
		d.Error = math.Sqrt(max(residuals, 0)) / p.prompt
	}
	return d
}

// p90 reads the P90 off the histogram: the middle of its bucket.
func (p *part) p90() time.Duration {
	below, rank := 0, p.streams-p.streams/10
	for b, n := range p.ttft {
		if below += int(n); below >= rank && n > 0 {
			return time.Duration(float64(lowest) * math.Pow(bucketWidth, float64(b)+.5))
		}
	}
	return 0
}

// meter is the parts that were delivered last, the current one and those before it.
type meter struct {
	current part
	since   time.Time // when the current one began
	closed  [2*settled + 1]part
	n       int // how many were closed since the last change
	alike   int // how many of these are of the traffic that there is now
}

// restart begins anew after a change: what was before is of another kind.
func (m *meter) restart(now time.Time) { m.current, m.since, m.n, m.alike = part{}, now, 0, 0 }

// close ends the current part where it has lasted so long, and reports whether it did.
func (m *meter) close(now time.Time, length time.Duration) bool {
	if now.Sub(m.since) < length {
		return false
	}
	copy(m.closed[1:], m.closed[:]) // some 15 kB, every few minutes
	m.closed[0] = m.current
	m.current, m.since = part{}, now
	m.n++
	m.alike++
	return true
}

// last is what was delivered in n parts, of which the latest ended so many parts ago.
func (m *meter) last(n, ago int) Delivered {
	var sum part
	for i := range n {
		sum.join(&m.closed[ago+i])
	}
	return sum.delivered()
}
