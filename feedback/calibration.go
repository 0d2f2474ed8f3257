package feedback

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/warmroute/warmroute/kvindex"
)

const (
	// maxScopes bounds the scopes a backend's calibration knows; the least recently
	// used are forgotten. Scopes hold tenant ids and salts, which clients choose.
	maxScopes = 1024
	// calibrationStep is how far one answer moves a factor towards what it saw.
	calibrationStep = 0.25
)

// Calibration is how much of what is predicted for one backend comes true, by scope: a
// scope whose prompts the engine renders otherwise than the router thinks is predicted
// less, without a word against the others. It is safe for concurrent use; the zero
// value is ready.
type Calibration struct {
	mu     sync.Mutex
	scopes *simplelru.LRU[kvindex.Key, scopeRecord]
}

type scopeRecord struct {
	factor float64
	// share is the part of the prompt delivered when the match reached the
	// PrefixLength cut; hasShare is false while it is unknown.
	share    float64
	hasShare bool
}

// get returns a scope's record. c.mu is held.
func (c *Calibration) get(scope kvindex.Key) scopeRecord {
	if c.scopes != nil {
		if r, ok := c.scopes.Get(scope); ok {
			return r
		}
	}
	return scopeRecord{factor: 1}
}

// put keeps a scope's record. c.mu is held.
func (c *Calibration) put(scope kvindex.Key, r scopeRecord) {
	if c.scopes == nil {
		// simplelru fails only for a size below 1.
		c.scopes, _ = simplelru.NewLRU[kvindex.Key, scopeRecord](maxScopes, nil)
	}
	c.scopes.Add(scope, r)
}

// Factor is what predictions in a scope are multiplied with, 0..1.
func (c *Calibration) Factor(scope kvindex.Key) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(scope).factor
}

// CutShare is the part of the prompt that is delivered in a scope when the match
// reaches the PrefixLength cut and more may match beyond it; known is false before any
// answer showed it.
func (c *Calibration) CutShare(scope kvindex.Key) (share float64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.get(scope)
	return r.share, r.hasShare
}

// Observe takes in the ratio of observed to predicted, 0..1, of one answer.
func (c *Calibration) Observe(scope kvindex.Key, ratio float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.get(scope)
	r.factor += calibrationStep * (min(max(ratio, 0), 1) - r.factor)
	c.put(scope, r)
}

// ObserveCut takes in the part of the prompt, 0..1, that was delivered to an answer
// whose match reached the cut.
func (c *Calibration) ObserveCut(scope kvindex.Key, share float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.get(scope)
	share = min(max(share, 0), 1)
	if !r.hasShare {
		r.share, r.hasShare = share, true
	} else {
		r.share += calibrationStep * (share - r.share)
	}
	c.put(scope, r)
}
