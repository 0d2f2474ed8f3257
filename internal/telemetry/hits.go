package telemetry

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/warmroute/warmroute/feedback"
)

// HitCount is what became of the prompt tokens of answered requests.
type HitCount struct {
	feedback.Account

	// ReportedPrompt is the prompt tokens of the answers that reported cached tokens.
	ReportedPrompt int
}

// BackendHits is what became of the prompt tokens that one backend was sent.
type BackendHits struct {
	Backend string
	HitCount
}

// PoolHits is what became of the prompt tokens of a pool: in all, and by backend, sorted by
// id.
type PoolHits struct {
	HitCount
	Backends []BackendHits
}

// hits sums up accounts since the start. The zero value is ready.
type hits struct {
	mu    sync.Mutex
	pools map[string]map[string]*HitCount // by pool and backend
}

// add takes in one account.
func (h *hits) add(pool, backend string, a feedback.Account) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pools == nil {
		h.pools = make(map[string]map[string]*HitCount)
	}
	if h.pools[pool] == nil {
		h.pools[pool] = make(map[string]*HitCount)
	}
	c := h.pools[pool][backend]
	if c == nil {
		c = new(HitCount)
		h.pools[pool][backend] = c
	}
	c.Add(a)
	if a.Reported {
		c.ReportedPrompt += a.Prompt
	}
}

// Hits says what became of the prompt tokens of a pool since the start.
func (t *Telemetry) Hits(pool string) PoolHits {
	t.hits.mu.Lock()
	defer t.hits.mu.Unlock()
	var p PoolHits
	for _, id := range slices.SortedFunc(maps.Keys(t.hits.pools[pool]), strings.Compare) {
		c := t.hits.pools[pool][id]
		p.Backends = append(p.Backends, BackendHits{id, *c})
		p.Add(c.Account)
		p.ReportedPrompt += c.ReportedPrompt
	}
	return p
}
