package router

import (
	"cmp"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// peerSilence is how long what another router said of its load counts when nothing more
// is heard of it.
const peerSilence = 2 * time.Second

// Load is what one router has on one backend.
type Load struct {
	// Pool and Backend are the names of the pool and the id of the backend in it.
	Pool, Backend string
	// InFlight is its requests in flight; a request for n answers counts n.
	InFlight int
	// Backlog is what of them has still to be prefilled.
	Backlog feedback.Backlog
	// PrefillRate is what it has learned of the backend, in tokens per second; 0 where it
	// has not.
	PrefillRate float64
}

// PeerReport is what another router said of its load.
type PeerReport struct {
	// At is when it said so.
	At time.Time
	// Loads are the backends where it has anything.
	Loads []Load
}

// Sharing is how far routers know of each other.
type Sharing int32

// The states of sharing.
const (
	// Alone: nobody is told anything, and where there are several routers each
	// knows its own requests only.
	Alone Sharing = iota
	// Fresh: what others have is counted.
	Fresh
	// Cut: there are others, and what they have is not known now.
	Cut
)

// String returns the state as operators see it.
func (s Sharing) String() string {
	switch s {
	case Fresh:
		return "fresh"
	case Cut:
		return "cut"
	}
	return "alone"
}

// peerSum is what the other routers have on one backend, all together.
type peerSum struct {
	backlog feedback.Backlog
	rate    float64
}

// Loads appends to dst what this router has on every backend where that is anything.
func (r *Router) Loads(dst []Load, now time.Time) []Load {
	for _, p := range r.Pools() {
		for _, m := range *p.members.Load() {
			l := Load{
				Pool: p.name, Backend: m.backend.ID, InFlight: m.backend.OwnInFlight(),
				Backlog: m.queue.Backlog(now), PrefillRate: m.queue.Rate.Learned(),
			}
			if l.InFlight > 0 || l.Backlog.Tokens > 0 || now.Sub(l.Backlog.Progress) < peerSilence {
				dst = append(dst, l)
			}
		}
	}
	return dst
}

// SetPeers takes in what the other routers last said of their load: one report of each. It
// counts until the next call; reports older than two seconds count nothing.
func (r *Router) SetPeers(reports []PeerReport, now time.Time) {
	type place struct{ pool, backend string }
	sums := make(map[place]Load)
	for _, report := range reports {
		if now.Sub(report.At) > peerSilence {
			continue
		}
		for _, l := range report.Loads {
			at := place{l.Pool, l.Backend}
			sum := sums[at]
			sum.InFlight += l.InFlight
			sum.Backlog = sum.Backlog.Add(l.Backlog)
			if sum.PrefillRate == 0 || l.PrefillRate > 0 && l.PrefillRate < sum.PrefillRate {
				sum.PrefillRate = l.PrefillRate // low rates cost nothing, high ones do
			}
			sums[at] = sum
		}
	}
	for _, p := range r.Pools() {
		for _, m := range *p.members.Load() {
			sum, known := sums[place{p.name, m.backend.ID}]
			if fewer := m.backend.SetPeersInFlight(sum.InFlight); fewer > 0 {
				p.line.wake(fewer)
			}
			if known {
				m.peers.Store(&peerSum{backlog: sum.Backlog, rate: sum.PrefillRate})
			} else {
				m.peers.Store(nil)
			}
		}
	}
}

// SetSharing says how far this router knows of what the others have in a pool. While it is
// [Cut], prompts that nobody holds go by rendezvous order first, so that routers agree
// without a word.
func (r *Router) SetSharing(pool string, s Sharing) {
	if p := r.Find(pool); p != nil {
		p.sharing.Store(int32(s))
	}
}

// agreeUnheard reports whether routers have to agree without hearing of each other.
func (p *Pool) agreeUnheard() bool {
	s := Sharing(p.sharing.Load())
	return s == Cut || s == Alone && p.config.Load().Replicas > 1
}

// PeerHorizon takes in that another router has moved a backend's horizon. Requests in
// flight keep their blocks: their own answers will tell.
func (r *Router) PeerHorizon(pool, backend string, horizon, now kvindex.Stamp) {
	p := r.Find(pool)
	if p == nil {
		return
	}
	for _, m := range *p.members.Load() {
		if m.backend.ID == backend && m.corrector.Horizon() < horizon {
			horizon := m.corrector.Follow(horizon, now)
			gone := m.forget(r.index, horizon, now, 0)
			r.hooks.horizonMoved(p, m.backend, causePeer, gone)
		}
	}
}

// queued estimates the tokens that all routers together have still to see prefilled on
// the member.
func (m *member) queued(now time.Time) int {
	sum := m.peers.Load()
	if sum == nil {
		return m.queue.Tokens(now)
	}
	rate := cmp.Or(m.queue.Rate.Learned(), sum.rate, feedback.DefaultPrefillRate)
	return m.queue.Backlog(now).Add(sum.backlog).Left(now, rate)
}
