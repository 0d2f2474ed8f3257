package replay

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// shareLoadsEvery is how often routers tell each other their load, as those that share
// through Redis do.
const shareLoadsEvery = 100 * time.Millisecond

// sharing reports whether there are several routers that know of each other.
func (f *Fleet) sharing() bool { return f.config.Routers > 1 && f.config.ShareDelay > 0 }

// tell lets every other router hear something after the delay.
func (v *replica) tell(hear func(to *replica, at time.Duration)) {
	f := v.fleet
	f.agenda.add(moment{at: f.now + f.config.ShareDelay, kind: momentHear, hear: func(at time.Duration) {
		for _, to := range f.replicas {
			if to != v {
				hear(to, at)
			}
		}
	}})
}

// sharedIndex is the index of a router that tells the others.
type sharedIndex struct {
	*auditedIndex
	replica *replica
}

// Publish implements [kvindex.Shared].
func (x *sharedIndex) Publish(h kvindex.Holder, keys []kvindex.Key, now kvindex.Stamp) {
	keys = slices.Clone(keys)
	x.replica.tell(func(to *replica, _ time.Duration) { to.index.Record(h, keys, now, kvindex.Observed) })
}

// Forget implements [kvindex.Index]. The others hear of a horizon that they do not know.
func (x *sharedIndex) Forget(h kvindex.Holder, horizon kvindex.Stamp) int {
	if v := x.replica; horizon > v.horizons[h] {
		v.horizons[h] = horizon
		v.tell(func(to *replica, at time.Duration) { to.hearHorizon(h, horizon, at) })
	}
	return x.auditedIndex.Forget(h, horizon)
}

// hearHorizon takes in what another router found to be gone.
func (v *replica) hearHorizon(h kvindex.Holder, horizon kvindex.Stamp, at time.Duration) {
	v.horizons[h] = max(v.horizons[h], horizon)
	i := slices.Index(v.index.holders, h)
	v.router.PeerHorizon(poolName, v.backends[i].ID, horizon, kvindex.Stamp(clock(at).UnixNano()))
}

// shareLoads lets every router tell the others what it has on each backend, now and ever
// again.
func (f *Fleet) shareLoads(at time.Duration) {
	reports := make([]router.PeerReport, len(f.replicas))
	for i, v := range f.replicas {
		reports[i] = router.PeerReport{At: clock(at), Loads: v.router.Loads(nil, clock(at))}
	}
	f.agenda.add(moment{at: at + f.config.ShareDelay, kind: momentHear, hear: func(at time.Duration) {
		for i, v := range f.replicas {
			others := slices.Delete(slices.Clone(reports), i, i+1)
			v.router.SetPeers(others, clock(at))
		}
	}})
	f.agenda.add(moment{at: at + shareLoadsEvery, kind: momentHear, hear: f.shareLoads})
}
