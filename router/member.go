package router

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// member is a backend with what the router keeps about it.
type member struct {
	backend  *backends.Backend
	holder   kvindex.Holder
	hash     uint64 // of the id, for rendezvous
	queue    feedback.PrefillQueue
	recent   recent
	peers    atomic.Pointer[peerSum] // nil: nothing
	head     commonHead              // votes are cast under mu
	adapters adapterUses

	corrector   feedback.Corrector
	calibration feedback.Calibration
	hopeless    atomic.Bool
	cachingOff  atomic.Bool  // the engine says so
	barren      atomic.Bool  // a route has said 0 of many prompts that should have hit
	fruitful    atomic.Bool  // any route ever reported a hit
	engineBlock atomic.Int64 // tokens; 0 while the engine has not said
	dispatched  atomic.Uint64

	mu         sync.Mutex                     // not to be taken after a lock of the index
	gone       bool                           // it left the pool; its number in the index is another's
	reporting  map[string]*feedback.Reporting // by route
	silent     bool                           // it has been told of
	flying     map[*Decision]struct{}         // decisions with blocks, not completed
	capacity   int                            // bound on its blocks without surplus; 0 while it is the index's own
	grown      int                            // times that the bound grew since it last shrank
	narrowed   int                            // times that it shrank since it last grew
	surplus    float64                        // factor by which answers have shown the bound to be too small
	progress   feedback.Progress
	unreported feedback.Unreported
	engine     feedback.EngineState // as last scraped
}

func newMember(b *backends.Backend, holder kvindex.Holder) *member {
	return &member{
		backend:   b,
		holder:    holder,
		hash:      hashID(b.ID),
		reporting: make(map[string]*feedback.Reporting),
		flying:    make(map[*Decision]struct{}),
		surplus:   1,
	}
}

// blockTokens is the engine's cache block in tokens.
func (m *member) blockTokens() int {
	if n := m.engineBlock.Load(); n > 0 {
		return int(n)
	}
	return feedback.DefaultEngineBlock
}

// factor is what predictions for a scope are multiplied with.
func (m *member) factor(scope kvindex.Key) float64 {
	if m.hopeless.Load() {
		return 0
	}
	return m.calibration.Factor(scope)
}

// reports is what is known of the numbers that come back on a route.
func (m *member) reports(route string) *feedback.Reporting {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.reporting[route]
	if r == nil {
		r = new(feedback.Reporting)
		m.reporting[route] = r
	}
	return r
}

// fly records a decision's blocks as predicted. They are in use until land.
func (m *member) fly(index kvindex.Index, d *Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return
	}
	m.head.sent(d.blocks, d.MatchedBlocks)
	d.receipt = index.Record(m.holder, d.blocks, kvindex.Stamp(d.At.UnixNano()), kvindex.Predicted)
	m.flying[d] = struct{}{}
	if shared, ok := index.(kvindex.Shared); ok {
		d.promise = shared.Promise(m.holder, d.blocks, d.receipt.Stamp)
	}
}

// publish tells other routers that the backend holds a decision's blocks, unless they are
// not in use any more.
func (m *member) publish(index kvindex.Shared, d *Decision, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, flying := m.flying[d]; flying && !m.gone {
		index.Publish(m.holder, d.blocks, kvindex.Stamp(now.UnixNano()), d.promise)
		d.promise = 0
	}
}

// land takes in that a decision's blocks are not in use any more: they are confirmed where
// the prompt was answered, stay as they are where it was prefilled, and are taken back
// otherwise.
func (m *member) land(index kvindex.Index, d *Decision, o feedback.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.flying, d)
	switch {
	case m.gone:
	case o.Answered():
		index.Record(m.holder, d.blocks, kvindex.Stamp(o.Now.UnixNano()), kvindex.Observed)
	case !o.Prefilled():
		added := d.receipt
		added.Stamp = max(added.Stamp, d.renewed)
		index.Retract(m.holder, d.blocks, added)
	}
	if shared, ok := index.(kvindex.Shared); ok && d.promise != 0 { // no first token was seen
		if o.Answered() && !m.gone {
			shared.Publish(m.holder, d.blocks, kvindex.Stamp(o.Now.UnixNano()), d.promise)
		} else {
			shared.Withdraw(d.promise)
		}
		d.promise = 0
	}
}

// leave drops everything that the index has of a backend that leaves its pool. What is
// still in flight there does not come back into the index, where somebody else may have
// its number by then.
func (m *member) leave(index kvindex.Index) {
	m.mu.Lock()
	m.gone = true
	m.mu.Unlock()
	// Outside the lock: nobody uses the number any more, and requests that end need not wait.
	index.Drop(m.holder)
}

// forget removes everything last used at or before the horizon from the index, but not
// the blocks of requests that are in flight since alive or later: the engine holds those
// whatever it evicts. It returns how many entries went.
func (m *member) forget(index kvindex.Index, horizon, now, alive kvindex.Stamp) int {
	m.mu.Lock()
	if m.gone {
		m.mu.Unlock()
		return 0
	}
	var kept []*Decision
	for d := range m.flying {
		if d.receipt.Stamp <= horizon && d.receipt.Stamp >= alive {
			kept = append(kept, d)
		}
	}
	// In the order in which they were sent: the renewed last uses keep it, and a replay
	// repeats itself to the bit.
	slices.SortFunc(kept, func(a, b *Decision) int { return cmp.Compare(a.asked.dispatch, b.asked.dispatch) })
	for _, d := range kept {
		d.renewed = index.Record(m.holder, d.blocks, max(now, horizon+1), kvindex.Predicted).Stamp
	}
	m.mu.Unlock()
	// Outside the lock: decisions need not wait for it. Should the backend leave now,
	// whoever gets its number loses at most what is as old as the horizon.
	return index.Forget(m.holder, horizon)
}
