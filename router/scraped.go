package router

import (
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// capacityMargin is how much more than an engine's stated capacity its list may hold:
// believing too little costs more hits than believing too much.
const capacityMargin = 1.15

// The causes of a horizon's move that are not rulings on answers.
const (
	causeRestart    = "restart"
	causeSleep      = "sleep"
	causeUnreported = "unreported"
	causePeer       = "peer" // another router's horizon moved
)

// Causes returns all causes of a horizon's move, for metrics that exist from the start.
func Causes() []string {
	return []string{feedback.ShortfallMoved.String(), feedback.LossMoved.String(), causeRestart, causeSleep, causeUnreported, causePeer}
}

// Scraped takes in what a look at an engine's metrics says of one backend of a pool: its
// capacity and block size, whether it sleeps, and, by comparing with the last look,
// whether its cache is gone. What it says of load does not decide anything: it is
// seconds old, and the router's own counts are not.
func (r *Router) Scraped(p *Pool, b *backends.Backend, s feedback.EngineState) {
	m := p.memberOf(b)
	if m == nil || s.Engine == "" {
		return
	}
	now := kvindex.Stamp(s.At.UnixNano())
	m.mu.Lock()
	m.engine = s
	change := m.progress.Next(s)
	start, lost := m.unreported.Scraped(change, s.At)
	m.mu.Unlock()

	m.cachingOff.Store(s.CachingOff)
	r.hope(p, m)
	if s.HasSleep {
		b.SetAsleep(s.Asleep)
	}
	if s.BlockTokens > 0 {
		m.engineBlock.Store(int64(s.BlockTokens))
	}
	if s.CapacityTokens > 0 {
		r.bound(p, m, s.CapacityTokens)
	}
	switch {
	case change.Restarted:
		// What was in flight before the restart is gone; what came after is not.
		alive := now
		if s.Started > 0 {
			alive = kvindex.Stamp(s.Started * 1e9)
		}
		r.raise(p, m, causeRestart, now, now, alive)
	case change.FellAsleep:
		r.raise(p, m, causeSleep, now, now, now)
	case lost:
		r.raise(p, m, causeUnreported, kvindex.Stamp(start.UnixNano()), now, 0)
	}
}

// bound sets how many blocks are believed to be on a backend from the capacity in tokens
// that its engine states.
func (r *Router) bound(p *Pool, m *member, tokens int) {
	blockBytes := float64(p.config.Load().BlockBytes)
	capacity := max(int(float64(tokens)*p.units.BytesPerToken()/blockBytes*capacityMargin), 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return
	}
	// Bytes per token move a little with every answer; a list is not cut for that.
	if drift := float64(capacity-m.capacity) / float64(max(m.capacity, 1)); drift > -0.1 && drift < 0.1 {
		return
	}
	m.capacity = capacity
	r.index.SetCapacity(m.holder, int(float64(capacity)*m.surplus))
}

// raise moves a backend's horizon for a reason other than its answers. Requests in flight
// since alive or later keep their blocks.
func (r *Router) raise(p *Pool, m *member, cause string, horizon, now, alive kvindex.Stamp) {
	horizon = m.corrector.Raise(horizon, now)
	gone := m.forget(r.index, horizon, now, alive)
	r.hooks.horizonMoved(p, m.backend, cause, gone)
}

// memberOf returns what the pool keeps about a backend, nil when it is not there.
func (p *Pool) memberOf(b *backends.Backend) *member {
	for _, m := range *p.members.Load() {
		if m.backend == b {
			return m
		}
	}
	return nil
}
