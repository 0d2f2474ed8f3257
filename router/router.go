package router

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// How soon it is worth asking again.
const (
	retryNoBackend = 2 * time.Second
	retrySaturated = time.Second
)

// Options are a router's collaborators. The zero value works.
type Options struct {
	// Index decides who holds what. Default: a [kvindex.Memory] of default bounds.
	Index kvindex.Index
	// Hooks are told what happens.
	Hooks Hooks
	// Seed makes decision ids differ between routers.
	Seed uint64
	// Epoch is a moment near the router's start, from which recent assignments are
	// reckoned.
	Epoch time.Time
}

// Router decides for all pools of a process. All methods are safe for concurrent
// use.
type Router struct {
	index   kvindex.Index
	shared  kvindex.Shared // the index where others share it, else nil
	hooks   Hooks
	seed    uint64
	epoch   time.Time
	ids     atomic.Uint64
	catalog atomic.Pointer[catalog]
	mu      sync.Mutex // serialises AddPool
	views   sync.Pool
	// watchers is how many want decisions to remember who took part.
	watchers atomic.Int32
}

// New returns a router without pools.
func New(o Options) *Router {
	if o.Index == nil {
		o.Index = kvindex.NewMemory(kvindex.MemoryConfig{})
	}
	r := &Router{index: o.Index, hooks: o.Hooks, seed: o.Seed, epoch: o.Epoch}
	r.shared, _ = o.Index.(kvindex.Shared)
	r.views.New = func() any { return new(view) }
	r.catalog.Store(&catalog{})
	return r
}

// AddPool adds a pool. The error names the setting that makes no sense, or the
// model that another pool has already.
func (r *Router) AddPool(spec PoolSpec) (*Pool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := newPool(spec, r.index)
	if err != nil {
		return nil, err
	}
	next, err := r.catalog.Load().with(p)
	if err != nil {
		_, _ = p.SetBackends(nil) // gives up what it has in the index
		return nil, err
	}
	r.catalog.Store(next)
	return p, nil
}

// Reserve makes room in the index for what lists of pools' backends name beside what the pools
// have: for all of them, or, with an error, for none. It is for who changes several pools at
// once: [Pool.SetBackends] with those lists, which must follow, finds its room then.
func (r *Router) Reserve(lists map[*Pool][]backends.Spec) error {
	var names, of []string
	for _, p := range r.Pools() {
		list, asked := lists[p]
		if !asked {
			continue
		}
		p.mu.Lock()
		more, err := p.newcomers(together(list, p.added))
		p.mu.Unlock()
		if err != nil {
			return fmt.Errorf("pool %q: %w", p.name, err)
		}
		if len(more) > 0 {
			names, of = append(names, more...), append(of, fmt.Sprintf("%d more of pool %q", len(more), p.name))
		}
	}
	if _, err := r.index.AddAll(names); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(of, ", "), err)
	}
	return nil
}

// Pools returns the pools in the order in which they were added. The slice must not
// be changed.
func (r *Router) Pools() []*Pool { return r.catalog.Load().pools }

// Resolve finds where a model's requests go. The error is a [*NotReadyError] while
// some pool has not learned its models, else a [*UnknownModelError].
func (r *Router) Resolve(model string) (Target, error) { return r.catalog.Load().resolve(model) }

// Serves reports whether engines serve a model by this name, which a client may know by
// another.
func (r *Router) Serves(model string) bool {
	c := r.catalog.Load()
	if c.served[model] {
		return true
	}
	_, err := c.resolve(model)
	return err == nil
}

// Models lists every model that clients can ask for, once each.
func (r *Router) Models() []ListedModel { return r.catalog.Load().list() }

// Route chooses a backend for a request and takes a slot on it. The decision must
// be given to [Router.Complete], once, whatever becomes of the request. The error
// is a [*NoBackendError] or a [*SaturatedError]. Apart from the decision, and from
// what the index grows by, it allocates nothing.
func (r *Router) Route(req *Request) (*Decision, error) {
	v := r.views.Get().(*view)
	defer r.views.Put(v)
	d, err := r.decide(v, req)
	v.request = nil
	if err != nil {
		return nil, err
	}
	told := false
	defer func() {
		if !told { // a hook panicked, and nobody will complete the decision
			r.Complete(d, feedback.Outcome{Now: req.Now, Result: feedback.RouterError})
		}
	}()
	r.dispatch(d, req)
	r.Pin(d.Pool, req.Session, d.Backend.ID, req.Now)
	r.hooks.decided(d)
	told = true
	return d, nil
}

// dispatch notes what the chosen backend is about to do.
func (r *Router) dispatch(d *Decision, req *Request) {
	m := d.member
	m.recent.add(req.Now.Sub(r.epoch))
	d.asked = asked{
		adapter: d.asked.adapter,
		scope:   req.Scope, route: req.Route,
		streamBytes: req.StreamBytes, hashedBytes: req.HashedBytes, blockBytes: d.Pool.config.Load().BlockBytes,
		noEvidence: req.NoEvidence || req.N > 1, binary: req.Binary, streamed: req.Streamed,
		dispatch: m.dispatched.Add(1),
	}
	d.ticket = m.queue.Push(d.PromptTokens-d.PredictedCached, req.Streamed, req.Now)
	if req.AnyRank && m.backend.Rank != backends.NoRank {
		d.asked.noEvidence, d.blocks = true, nil
	}
	if len(d.blocks) > 0 {
		m.fly(r.index, d)
	}
}

// open fills the view for a request. The error says why nobody can take it.
func (r *Router) open(v *view, req *Request) error {
	if none := v.look(req.Pool, req); none != nil {
		return none
	}
	v.unshared = req.Pool.agreeUnheard()
	if v.config.OnSaturation == Queue && !req.Waited && req.Pool.line.occupied() {
		return v.saturation(req.Pool) // those who wait come first
	}
	return nil
}

// decide lets the strategy choose until a slot has been acquired.
func (r *Router) decide(v *view, req *Request) (*Decision, error) {
	p := req.Pool
	if err := r.open(v, req); err != nil {
		return nil, err
	}
	d := &Decision{Pool: p, Strategy: v.config.Strategy, At: req.Now, blocks: req.Blocks}
	for {
		c, err := v.choose(p)
		if err != nil {
			return nil, err
		}
		limit := c.candidate.limit
		if c.over {
			limit = backends.Unbounded
		}
		if c.candidate.member.backend.Acquire(&d.slot, req.N, limit) {
			d.describe(v, c)
			if r.watchers.Load() > 0 {
				d.Considered = v.considered(c.candidate)
			}
			d.id = mix(r.seed + r.ids.Add(1))
			if v.adapter {
				d.asked.adapter = req.Model
				d.member.adapters.add(req.Model, req.Now)
			}
			if req.Alternatives > 0 {
				d.Alternatives = v.next(p, d.Backend, req.Alternatives)
			}
			return d, nil
		}
		v.refresh() // somebody else took the last slot
	}
}

// describe fills in what the decision rests on.
func (d *Decision) describe(v *view, c choice) {
	d.Reason = c.reason
	d.member = c.candidate.member
	d.Backend = d.member.backend
	d.PromptBlocks = len(v.request.Blocks)
	d.MatchedBlocks = c.candidate.match
	d.AvailableBlocks, d.AvailableCached = v.available()
	d.PromptTokens = v.prompt
	d.CapturedCached, d.PredictedCached = c.candidate.held, c.candidate.cached
	d.InFlight, d.Limit, d.Queued = c.candidate.inFlight, c.candidate.limit, c.candidate.queued
	d.Eligible = len(v.candidates)
}

// FirstToken tells that the first token of an answer came back at now. Only the
// first call counts.
func (r *Router) FirstToken(d *Decision, now time.Time) {
	if d.firstSeen.Swap(true) {
		return
	}
	d.firstAt = now
	d.prefillSince, d.prefillKnown = d.member.queue.FirstToken(&d.ticket, now)
	if r.shared != nil {
		d.member.publish(r.shared, d, now)
	}
}

// Complete takes in what came of a decision: the slot is released, the index
// confirmed or corrected, the backend's health noted. Only the first call does
// anything, and only it returns true.
func (r *Router) Complete(d *Decision, o feedback.Outcome) bool {
	if d.completed.Swap(true) {
		return false
	}
	d.slot.Release()
	if o.FirstByte {
		r.FirstToken(d, o.Now)
	} else if !d.firstSeen.Swap(true) {
		d.member.queue.Leave(&d.ticket, o.Now)
	}
	if d.asked.adapter != "" && o.Result == feedback.NotFound {
		d.member.adapters.refuse(d.asked.adapter, o.Now)
	}
	r.learn(d, o)
	r.judge(d, o)
	d.Pool.line.wake(d.slot.Count())
	r.hooks.completed(d, o)
	d.blocks = nil // the caller may use them again
	return true
}

// judge notes what the outcome says about the backend's health.
func (r *Router) judge(d *Decision, o feedback.Outcome) {
	registry := d.Pool.registry
	switch o.Blame {
	case feedback.Healthy:
		if registry.Succeeded(d.Backend, d.At) {
			r.hooks.returned(d.Pool, d.Backend)
		}
	case feedback.Overloaded:
		registry.Cool(d.Backend, o.Now, o.RetryAfter)
	case feedback.Strike:
		if registry.Failed(d.Backend, o.Now) {
			r.hooks.ejected(d.Pool, d.Backend, d.Backend.Retry(o.Now))
		}
	case feedback.Neutral:
	}
}

// Eject takes a backend out at once that was seen to be beyond work. At most a part of a pool
// is out at a time. It reports whether this ejected it.
func (r *Router) Eject(p *Pool, b *backends.Backend, now time.Time) bool {
	if !p.registry.Eject(b, now) {
		return false
	}
	r.hooks.ejected(p, b, b.Retry(now))
	return true
}

// Find returns the pool with a name, nil when there is none.
func (r *Router) Find(pool string) *Pool {
	pools := r.Pools()
	if i := slices.IndexFunc(pools, func(p *Pool) bool { return p.name == pool }); i >= 0 {
		return pools[i]
	}
	return nil
}

// mix spreads a counter over 64 bits (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
