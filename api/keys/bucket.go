package keys

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/warmroute/warmroute/api/proxy"
)

// maxDebt is for how many minutes a key may be in debt at most, whatever engines report.
const maxDebt = 60

// bucket is how many tokens a key may still use. It holds a minute's worth at most, and less
// than none where requests used more than was thought.
type bucket struct {
	name string
	now  func() time.Time

	mu    sync.Mutex // a look and what follows from it are one step
	limit *rate.Limiter
}

var _ proxy.Tokens = (*bucket)(nil)

func newBucket(name string, perMinute int, now func() time.Time) *bucket {
	return &bucket{name: name, now: now, limit: rate.NewLimiter(rate.Limit(perMinute)/60, perMinute)}
}

// Take implements [proxy.Tokens]. A prompt that is longer than a minute's worth has to find the
// bucket full.
func (b *bucket) Take(tokens int) *proxy.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, perMinute := b.now(), b.limit.Burst()
	tokens = min(max(tokens, 1), maxDebt*perMinute)
	need := min(tokens, perMinute)
	if !b.limit.AllowN(now, need) {
		wait := time.Duration((float64(need) - b.limit.TokensAt(now)) / float64(b.limit.Limit()) * float64(time.Second))
		return &proxy.Error{
			Status: http.StatusTooManyRequests, Code: proxy.CodeRateLimited, RetryAfter: max(wait, time.Second),
			Message: fmt.Sprintf("the key %q may use %d tokens a minute (keys[].tokens_per_minute), and this prompt has about %d", b.name, perMinute, tokens),
		}
	}
	b.spend(now, tokens-need)
	return nil
}

// Settle implements [proxy.Tokens].
func (b *bucket) Settle(taken, used int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := maxDebt * b.limit.Burst()
	b.spend(b.now(), min(max(used, 0), most)-min(max(taken, 1), most))
}

// spend takes tokens out, or puts them back where there are fewer than none. b.mu is held.
func (b *bucket) spend(now time.Time, tokens int) {
	burst := b.limit.Burst()
	for tokens > 0 && b.limit.TokensAt(now) > -float64(maxDebt*burst) {
		step := min(tokens, burst)
		b.limit.ReserveN(now, step) // it is never waited for
		tokens -= step
	}
	if tokens < 0 {
		b.limit.ReserveN(now, tokens)
	}
}

// change has another bound hold. What is in the bucket stays there.
func (b *bucket) change(perMinute int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.limit.SetLimitAt(now, rate.Limit(perMinute)/60)
	b.limit.SetBurstAt(now, perMinute)
}
