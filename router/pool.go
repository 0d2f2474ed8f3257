package router

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// PoolSpec describes a pool as configuration names it.
type PoolSpec struct {
	// Name is the pool's name, unique in the router.
	Name string
	// Models are the models the pool serves; none means that it serves whatever its
	// backends say they serve.
	Models []ModelSpec
	// SharesModels lets the pool serve models that an earlier pool serves too.
	// [Router.Resolve] names the earlier one; [Pool.Resolve] tells them apart.
	SharesModels bool
	// Config is how the pool is routed.
	Config Config
	// Ejection is when failures take a backend out of rotation.
	Ejection backends.Ejection
	// Backends are the pool's backends; more may come later.
	Backends []backends.Spec
}

// ModelSpec is a model that a pool serves.
type ModelSpec struct {
	// Name is what clients ask for.
	Name string
	// Served is what the engines call it; empty when they call it Name.
	Served string
	// Adapter says that it is a LoRA adapter, which engines may load when they are asked for
	// it and do not list before.
	Adapter bool
}

// Pool is the backends that serve the same models under one routing configuration.
type Pool struct {
	name     string
	models   []ModelSpec
	shares   bool
	registry *backends.Registry
	index    kvindex.Index
	config   atomic.Pointer[Config]
	sharing  atomic.Int32 // a Sharing
	members  atomic.Pointer[[]*member]
	line     line
	pins     pins
	units    feedback.Units

	mu     sync.Mutex      // serialises changes of backends and configuration
	listed []backends.Spec // by SetBackends; guarded by mu
	added  []backends.Spec // by AddBackend; guarded by mu
}

func newPool(spec PoolSpec, index kvindex.Index) (*Pool, error) {
	if spec.Name == "" {
		return nil, errors.New("a pool needs a name")
	}
	if err := spec.Config.Validate(); err != nil {
		return nil, err
	}
	registry, err := backends.NewRegistry(spec.Ejection)
	if err != nil {
		return nil, err
	}
	p := &Pool{name: spec.Name, models: spec.Models, shares: spec.SharesModels, registry: registry, index: index}
	p.config.Store(&spec.Config)
	p.members.Store(new([]*member))
	if _, err := p.SetBackends(spec.Backends); err != nil {
		return nil, err
	}
	return p, nil
}

// Name is the pool's name.
func (p *Pool) Name() string { return p.name }

// Models are the configured models; none when the pool learns them.
func (p *Pool) Models() []ModelSpec { return p.models }

// Backends returns the pool's backends, sorted by id. The slice must not be
// changed.
func (p *Pool) Backends() []*backends.Backend { return p.registry.Snapshot() }

// Config returns how the pool is routed now.
func (p *Pool) Config() Config { return *p.config.Load() }

// SetConfig changes how the pool is routed, from the next decision on. Requests in
// flight are not touched.
func (p *Pool) SetConfig(c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.config.Load().BlockBytes; c.BlockBytes != now {
		return fmt.Errorf("block_bytes: cannot change from %d to %d while the pool lives", now, c.BlockBytes)
	}
	p.config.Store(&c)
	p.line.wakeAll() // there may be more slots now, or no waiting any more
	return nil
}

// SetBackends replaces the pool's backends, but for those of [Pool.AddBackend]. Those that
// stay keep their load, state and index; what is known of those that leave is dropped,
// while their requests in flight go on. It returns the ids that were named more than once;
// on an error nothing changes.
func (p *Pool) SetBackends(specs []backends.Spec) (duplicates []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setBackends(slices.Clone(specs), p.added)
}

// AddBackend adds a backend that stays, whatever [Pool.SetBackends] is told, until
// [Pool.RemoveBackend], or changes the one that was added with its id. While SetBackends
// names one of that id too, that one counts.
func (p *Pool) AddBackend(spec backends.Spec) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, err := idOf(spec)
	if err != nil {
		return err
	}
	_, err = p.setBackends(p.listed, append(without(p.added, id), spec))
	return err
}

// RemoveBackend removes a backend that was added.
func (p *Pool) RemoveBackend(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.setBackends(p.listed, without(p.added, id))
	return err
}

// idOf is the id that a backend has or would have.
func idOf(spec backends.Spec) (string, error) {
	_, address, err := backends.ParseURL(spec.URL)
	return spec.ID(address), err
}

// without returns the specs that are not of a backend. The slice is a new one.
func without(specs []backends.Spec, id string) []backends.Spec {
	return slices.DeleteFunc(slices.Clone(specs), func(s backends.Spec) bool {
		other, err := idOf(s)
		return err == nil && other == id
	})
}

// setBackends makes the pool's backends those that are listed, and of those that were added
// the others. p.mu is held.
func (p *Pool) setBackends(listed, added []backends.Spec) (duplicates []string, err error) {
	all := together(listed, added)
	before := *p.members.Load()
	known := make(map[*backends.Backend]*member, len(before))
	named := make(map[string]*member, len(before))
	for _, m := range before {
		known[m.backend] = m
		named[p.holderName(m.backend)] = m
	}
	newcomers, err := p.newcomers(all)
	if err != nil {
		return nil, err
	}
	reserved, err := p.index.AddAll(newcomers)
	if err != nil {
		return nil, err
	}
	if duplicates, err = p.registry.Set(all); err != nil {
		for _, holder := range reserved {
			p.index.Drop(holder)
		}
		return nil, err
	}
	p.listed, p.added = listed, added
	var next []*member
	for _, b := range p.registry.Snapshot() {
		m := known[b]
		if m == nil {
			if old := named[p.holderName(b)]; old != nil {
				// Another engine at the same URL: it must not inherit the entries.
				old.leave(p.index)
				delete(known, old.backend)
			}
			holder, err := p.index.Add(p.holderName(b))
			if err != nil {
				return duplicates, fmt.Errorf("backend %s: %w", b.ID, err)
			}
			m = newMember(b, holder)
			if n := p.config.Load().BlockBytes; n != kvindex.DefaultBlockBytes {
				p.index.SetCapacity(holder, kvindex.DefaultCapacity*kvindex.DefaultBlockBytes/n)
			}
		}
		delete(known, b)
		next = append(next, m)
	}
	p.members.Store(&next)
	for _, gone := range known {
		gone.leave(p.index)
	}
	p.line.wakeAll()
	return duplicates, nil
}

// holderName is what the index knows a backend of the pool by.
func (p *Pool) holderName(b *backends.Backend) string {
	return holderName(p.name, b.ID, b.Address())
}

// together are the backends that are listed, and of those that were added the others.
func together(listed, added []backends.Spec) []backends.Spec {
	ids := make(map[string]bool, len(listed))
	for _, spec := range listed {
		if id, err := idOf(spec); err == nil { // else it is refused anyhow
			ids[id] = true
		}
	}
	all := slices.Clip(listed)
	for _, spec := range added {
		if id, err := idOf(spec); err != nil || !ids[id] {
			all = append(all, spec)
		}
	}
	return all
}

// newcomers are the names by which the index will know those of a list that are not the pool's
// yet; of an id that is named twice the first counts. The error is that of a spec that makes no
// sense.
func (p *Pool) newcomers(specs []backends.Spec) (names []string, err error) {
	known := make(map[string]bool)
	for _, m := range *p.members.Load() {
		known[p.holderName(m.backend)] = true
	}
	seen := make(map[string]bool, len(specs))
	for i, spec := range specs {
		url, identity, err := backends.ParseURL(spec.URL)
		if err != nil {
			return nil, fmt.Errorf("backends[%d]: %w", i, err)
		}
		id := spec.ID(identity)
		if name := holderName(p.name, id, url.String()); !seen[id] && !known[name] {
			names = append(names, name)
		}
		seen[id] = true
	}
	return names, nil
}

// BytesPerToken is how many bytes of key stream a token is in this pool, as answers have
// shown so far.
func (p *Pool) BytesPerToken() float64 { return p.units.BytesPerToken() }

// BackendStatus describes one backend of a pool at a moment.
type BackendStatus struct {
	Backend *backends.Backend
	State   backends.State
	// InFlight and Limit are its requests in flight, those of all routers, and its
	// threshold; PeersInFlight are the other routers'.
	InFlight, PeersInFlight, Limit int
	// Queued estimates the tokens it has still to prefill, of all routers, and PrefillRate
	// how many it prefills in a second.
	Queued      int
	PrefillRate float64
	// Index is what the index holds for it.
	Index kvindex.Stats
	// Horizon is the moment before which nothing that was last used is believed to be
	// cached; the zero time before it ever moved.
	Horizon time.Time
	// Hopeless says that it never confirmed a hit, Silent that its answers report no
	// cached tokens.
	Hopeless, Silent bool
	// Engine is what it said when it was last scraped.
	Engine feedback.EngineState
}

// Status describes the pool's backends at a moment, sorted by id.
func (p *Pool) Status(now time.Time) []BackendStatus {
	config := p.config.Load()
	members := *p.members.Load()
	all := make([]BackendStatus, len(members))
	for i, m := range members {
		all[i] = BackendStatus{
			Backend:       m.backend,
			State:         m.backend.State(now),
			InFlight:      m.backend.InFlight(),
			PeersInFlight: m.backend.InFlight() - m.backend.OwnInFlight(),
			Limit:         p.limit(m, config, now),
			Queued:        m.queued(now),
			PrefillRate:   m.queue.Rate.Rate(),
			Index:         p.index.Stats(m.holder),
			Hopeless:      m.hopeless.Load(),
		}
		if horizon := m.corrector.Horizon(); horizon > 0 {
			all[i].Horizon = time.Unix(0, int64(horizon))
		}
		m.mu.Lock()
		all[i].Silent, all[i].Engine = m.silent, m.engine
		m.mu.Unlock()
	}
	return all
}

// limit is the ConcurrencyThreshold that holds for a member at a moment.
func (p *Pool) limit(m *member, config *Config, now time.Time) int {
	threshold := m.backend.ConcurrencyThreshold()
	if threshold == 0 {
		threshold = config.ConcurrencyThreshold
	}
	return p.registry.Limit(m.backend, threshold, now)
}

// Slots is how many requests may be in flight on the pool's backends together before all of them
// are at their thresholds; those that take nothing at the moment do not count.
func (p *Pool) Slots(now time.Time) int {
	config := p.config.Load()
	slots := 0
	for _, m := range *p.members.Load() {
		if m.backend.State(now) == backends.Up {
			slots += p.limit(m, config, now)
		}
	}
	return slots
}

// learned reports whether any backend has said which models it serves.
func (p *Pool) learned() bool {
	for _, b := range p.Backends() {
		if _, ok := b.Models(); ok {
			return true
		}
	}
	return false
}
