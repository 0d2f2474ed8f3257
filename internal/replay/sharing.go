package replay

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

const (
	// shareLoadsEvery is how often routers tell each other their load, as those that share
	// through Redis tell what has changed.
	shareLoadsEvery = 20 * time.Millisecond
	// maxShareDelay is the longest delay after which a router still counts what it hears of
	// others' load until the next is heard: to it, 2 s are too long ago.
	maxShareDelay = 2*time.Second - shareLoadsEvery
)

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
	replica  *replica
	promises kvindex.Promise // made so far
}

// promised is what a router has recorded because another one promised it.
type promised struct {
	holder  kvindex.Holder
	keys    []kvindex.Key
	receipt kvindex.Receipt
}

// promise names a promise among those of all routers.
type promise struct {
	of     *replica
	number kvindex.Promise
}

// Promise implements [kvindex.Shared].
func (x *sharedIndex) Promise(h kvindex.Holder, keys []kvindex.Key, now kvindex.Stamp) kvindex.Promise {
	keys = slices.Clone(keys)
	x.promises++
	p := promise{x.replica, x.promises}
	x.replica.tell(func(to *replica, _ time.Duration) {
		if now > to.horizons[h] {
			to.promised[p] = promised{h, keys, to.index.Record(h, keys, now, kvindex.Predicted)}
		}
	})
	return p.number
}

// Publish implements [kvindex.Shared]. Who knows of a horizon since that use ignores it:
// what the chain says is forgotten there.
func (x *sharedIndex) Publish(h kvindex.Holder, keys []kvindex.Key, now kvindex.Stamp, kept kvindex.Promise) {
	keys = slices.Clone(keys)
	x.replica.tell(func(to *replica, _ time.Duration) {
		delete(to.promised, promise{x.replica, kept})
		if now > to.horizons[h] {
			to.index.Record(h, keys, now, kvindex.Observed)
		}
	})
}

// Withdraw implements [kvindex.Shared].
func (x *sharedIndex) Withdraw(broken kvindex.Promise) {
	p := promise{x.replica, broken}
	x.replica.tell(func(to *replica, _ time.Duration) {
		if was, ok := to.promised[p]; ok {
			delete(to.promised, p)
			to.index.Retract(was.holder, was.keys, was.receipt)
		}
	})
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

// said is what a router told the others of its load.
type said struct {
	report router.PeerReport
	// unanswered is for placements: what it has on each engine, by its number. It is nil
	// where the router's strategy chooses, which goes by the report alone.
	unanswered []unanswered
}

// shareLoad lets a router tell the others what it has on each backend and take in what it
// last heard of theirs, now and ever again.
func (v *replica) shareLoad(at time.Duration) {
	f := v.fleet
	own := said{report: router.PeerReport{At: clock(at), Loads: v.router.Loads(nil, clock(at))}}
	if f.config.Placement != ByRouter {
		for _, n := range f.nodes {
			own.unanswered = append(own.unanswered, v.unanswered(n))
		}
	}
	v.tell(func(to *replica, _ time.Duration) { to.heard[v.number] = own })

	reports := make([]router.PeerReport, 0, len(v.heard))
	for _, of := range v.heard { // of itself it has heard nothing, at no time that counts
		reports = append(reports, of.report)
	}
	v.router.SetPeers(reports, clock(at))
	f.agenda.add(moment{at: at + shareLoadsEvery, kind: momentHear, hear: v.shareLoad})
}
