package backends

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Registry holds the backends of one pool. A snapshot is immutable and sorted by
// id; a backend that stays over a change keeps its load and state.
type Registry struct {
	ejection Ejection

	mu       sync.Mutex // serialises Set
	snapshot atomic.Pointer[[]*Backend]

	ejecting sync.Mutex // not to be taken after a backend's health.mu
}

// NewRegistry returns an empty registry.
func NewRegistry(ejection Ejection) (*Registry, error) {
	if err := ejection.Validate(); err != nil {
		return nil, err
	}
	r := &Registry{ejection: ejection}
	r.snapshot.Store(new([]*Backend))
	return r, nil
}

// Snapshot returns the backends, sorted by id. The slice must not be changed.
func (r *Registry) Snapshot() []*Backend { return *r.snapshot.Load() }

// Set replaces the list of backends. Backends are known by id: those that stay
// keep their load and state and take over the new weight, threshold and readiness. One
// whose URL or instance has changed is another. It returns the ids that were named more than once, of which the first counts. On
// an error nothing changes.
func (r *Registry) Set(specs []Spec) (duplicates []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := make(map[string]*Backend)
	for _, b := range r.Snapshot() {
		known[b.ID] = b
	}
	next := make([]*Backend, 0, len(specs))
	seen := make(map[string]bool, len(specs))
	kept := make(map[*Backend]Spec, len(specs))
	for i, spec := range specs {
		b, err := newBackend(spec)
		if err != nil {
			return nil, fmt.Errorf("backends[%d]: %w", i, err)
		}
		if seen[b.ID] {
			duplicates = append(duplicates, b.ID)
			continue
		}
		seen[b.ID] = true
		if old := known[b.ID]; old != nil && old.is(spec, b.address) {
			b = old
			kept[b] = spec
		}
		next = append(next, b)
	}
	for b, spec := range kept {
		b.configure(spec)
	}
	slices.SortFunc(next, func(a, b *Backend) int { return strings.Compare(a.ID, b.ID) })
	r.snapshot.Store(&next)
	return duplicates, nil
}

// Find returns the backend with an id, nil when there is none.
func (r *Registry) Find(id string) *Backend {
	for _, b := range r.Snapshot() {
		if b.ID == id {
			return b
		}
	}
	return nil
}

// ByURL groups backends by their base URLs: the data-parallel ranks behind one URL are
// together, in the order of the list.
func ByURL(list []*Backend) map[string][]*Backend {
	groups := make(map[string][]*Backend, len(list))
	for _, b := range list {
		url := b.address
		groups[url] = append(groups[url], b)
	}
	return groups
}

func floatBits(weight float64) uint64 {
	if !(weight > 0) {
		weight = 1
	}
	return math.Float64bits(weight)
}

func floatFrom(bits uint64) float64 { return math.Float64frombits(bits) }
