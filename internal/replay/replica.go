package replay

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// replica is one of the routers that the requests are spread over, with its own view of
// the fleet.
type replica struct {
	fleet     *Fleet
	number    int
	router    *router.Router
	pool      *router.Pool
	backends  []*backends.Backend // by the number of the engine
	lastFirst []time.Duration     // when it last saw a first token, by the number of the engine
	index     *auditedIndex
	horizons  map[kvindex.Holder]kvindex.Stamp // the highest that it knows of
	promised  map[promise]promised             // by the others, neither kept nor broken yet
	heard     []said                           // of the others, by their number
}

// newReplica returns a router that knows the backends and nothing of them.
func newReplica(f *Fleet, number int) (*replica, error) {
	v := &replica{
		fleet: f, number: number,
		horizons: make(map[kvindex.Holder]kvindex.Stamp), promised: make(map[promise]promised),
		index:     &auditedIndex{Index: kvindex.NewMemory(kvindex.MemoryConfig{})},
		lastFirst: make([]time.Duration, f.config.Backends),
	}
	options := router.Options{Index: v.index, Hooks: v.hooks(), Seed: f.config.Seed + uint64(number), Epoch: epoch}
	if f.sharing() {
		options.Index = &sharedIndex{auditedIndex: v.index, replica: v}
	}
	v.router = router.New(options)
	if f.sharing() {
		v.heard = make([]said, f.config.Routers)
	}
	spec := router.PoolSpec{Name: poolName, Config: f.config.Router, Ejection: backends.DefaultEjection()}
	for i := range f.config.Backends {
		spec.Backends = append(spec.Backends, backends.Spec{URL: backendURL(i), Rank: backends.NoRank})
	}
	pool, err := v.router.AddPool(spec)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if f.sharing() {
		v.router.SetSharing(poolName, router.Fresh)
	}
	v.pool, v.backends = pool, pool.Backends() // sorted by id, which is the order of numbers
	return v, nil
}

// pick is the router that the next request comes to, any of them.
func (f *Fleet) pick() *replica {
	if len(f.replicas) == 1 {
		return f.replicas[0]
	}
	draw := workload.Mix(workload.Mix(f.config.Seed) ^ uint64(f.result.Requests))
	return f.replicas[draw%uint64(len(f.replicas))]
}

// node finds the engine behind a backend.
func (v *replica) node(b *backends.Backend) *node {
	for i, own := range v.backends {
		if own == b {
			return v.fleet.nodes[i]
		}
	}
	return nil
}

// hooks note what the router tells.
func (v *replica) hooks() router.Hooks {
	r := &v.fleet.result
	return router.Hooks{
		HorizonMoved: func(_ *router.Pool, b *backends.Backend, cause string, forgotten int) {
			n := v.node(b)
			r.Moves = append(r.Moves, Move{
				At: v.fleet.now, Backend: n.number, Cause: cause, Forgotten: forgotten,
				Checked: v.index.forgotten, Held: v.index.still,
			})
			n.checkRecovery()
		},
		Judged: r.judged,
		Hopeless: func(_ *router.Pool, b *backends.Backend, hopeless bool) {
			r.Hopeless[v.node(b).number] = hopeless
		},
		Silent:    func(_ *router.Pool, b *backends.Backend, _ bool) { r.Silent[v.node(b).number] = true },
		Accounted: r.accounted,
		Ejected:   r.ejected,
	}
}
