package redisindex

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// Fleet is the router whose load is shared; [router.Router] is one.
type Fleet interface {
	// Loads appends what this router has on every backend.
	Loads(dst []router.Load, now time.Time) []router.Load
	// SetPeers takes in what the other routers said last.
	SetPeers(reports []router.PeerReport, now time.Time)
	// SetSharing takes in how far routers know of each other in a pool.
	SetSharing(pool string, s router.Sharing)
	// PeerHorizon takes in that another router has moved a backend's horizon.
	PeerHorizon(pool, backend string, horizon, now kvindex.Stamp)
	// PeerPin takes in that another router has pinned something to a backend.
	PeerPin(pool string, key router.PinKey, backend string, at, now time.Time)
}

var _ Fleet = (*router.Router)(nil)

const (
	// reportEvery is how often all load is told, and taken in although nothing was heard;
	// what changes is told and taken in every changesEvery. With the longer time alone, four
	// routers of the Mooncake conversation trace have a P90 TTFT that is 17 to 21 % above that
	// of one, with the shorter 7 to 10 % (internal/replay, docs/benchmarks/policies.md).
	reportEvery  = 100 * time.Millisecond
	changesEvery = 20 * time.Millisecond
	// heartbeat is how often a replica without load says that it is there, and with it
	// learns whether what it writes comes back.
	heartbeat = 500 * time.Millisecond
	// freshFor is how old what this router last read back of its own may be for it to count
	// on knowing what the others have.
	freshFor = 2 * time.Second
	// peersFor is how long another router is remembered that is not heard any more.
	peersFor = 4 * time.Hour
)

// Share names the router that the index is of. It is called before [Index.Run], if at all:
// without it, no load is shared, and what others forget is forgotten here at once.
func (x *Index) Share(f Fleet) { x.fleet = f }

// ownReport is what this router has on all backends.
type ownReport struct {
	at    time.Time
	loads []router.Load
}

// alone is the fleet of an index that no router was named for.
type alone struct{ *Index }

func (alone) Loads(dst []router.Load, _ time.Time) []router.Load { return dst }
func (alone) SetPeers([]router.PeerReport, time.Time)            {}
func (alone) SetSharing(string, router.Sharing)                  {}

func (alone) PeerPin(string, router.PinKey, string, time.Time, time.Time) {}

func (a alone) PeerHorizon(pool, id string, horizon, _ kvindex.Stamp) {
	for _, b := range a.all() {
		if b.home.name == pool && b.id == id {
			a.Memory.Forget(b.holder, horizon)
		}
	}
}

// share passes load between this router and the writer and reader until ctx ends. It never
// waits for Redis, so that the load of others stops counting when nothing is heard of them.
func (x *Index) share(ctx context.Context) {
	tick := time.NewTicker(changesEvery)
	defer tick.Stop()
	states := sharingLog{logger: x.config.Logger, began: x.config.Now()}
	var taken time.Time // when the load of others was last taken in
	for {
		now := x.config.Now()
		x.own.Store(&ownReport{at: now, loads: x.fleet.Loads(nil, now)})
		signal(x.queue.wake)
		if reports, ok := x.peers.latest(now, now.Sub(taken) >= reportEvery); ok {
			x.fleet.SetPeers(reports, now)
			taken = now
		}
		s := x.hears(now)
		for pool, one := range s.pools {
			x.fleet.SetSharing(pool, one)
		}
		states.log(s, now, x.store)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sharingLog says when sharing begins and ends, and when it does not begin.
type sharingLog struct {
	logger *slog.Logger
	began  time.Time
	said   bool // anything
	fresh  bool // was the last state said
}

func (l *sharingLog) log(s state, now time.Time, from *store) {
	fresh := s.worst == router.Fresh
	switch {
	case l.said && fresh == l.fresh:
		return
	case fresh:
		l.logger.Info("redis: the index is shared")
	case !l.said && now.Sub(l.began) < freshFor:
		return // it may be connecting
	default:
		l.logger.Warn("redis: the index is not shared; this router goes on with what it knows", slog.Any("pools", s.behind()), slog.String("last_error", from.lastError()))
	}
	l.said, l.fresh = true, fresh
}

// teller decides which of a router's loads are worth telling.
type teller struct {
	told map[*pool]*told
	last *ownReport
}

// told is what was last told of a pool.
type told struct {
	at, whole time.Time // when anything was, and when everything was
	loads     map[string]load
}

// reports returns what to tell of each pool: its load while there is any, that there is none
// any more, and now and then that this replica is there; in between, what has changed.
func (t *teller) reports(own *ownReport, pools map[string]*pool, clock conversion) map[*pool]report {
	if own == nil || own == t.last {
		return nil
	}
	t.last = own
	if t.told == nil {
		t.told = make(map[*pool]*told)
	}
	maps.DeleteFunc(t.told, func(p *pool, _ *told) bool { return pools[p.name] != p })
	loads := make(map[*pool]map[string]load)
	for _, l := range own.loads {
		p := pools[l.Pool]
		if p == nil || len(l.Backend) > maxLabel {
			continue
		}
		if loads[p] == nil {
			loads[p] = make(map[string]load)
		}
		loads[p][l.Backend] = load{
			backend: l.Backend, inFlight: l.InFlight, tokens: l.Backlog.Tokens,
			began: clock.fleetTime(l.Backlog.Began), progress: clock.fleetTime(l.Backlog.Progress), rate: l.PrefillRate,
		}
	}
	all := make(map[*pool]report)
	for _, p := range pools {
		if t.told[p] == nil {
			t.told[p] = new(told)
		}
		if r, ok := t.told[p].report(own.at, loads[p]); ok {
			r.at = clock.fleetTime(own.at)
			all[p] = r
		}
	}
	return all
}

// report returns what to tell at now of a pool where this replica has loads; ok is false
// where that is nothing.
func (t *told) report(now time.Time, loads map[string]load) (r report, ok bool) {
	idle := len(loads) == 0 && len(t.loads) == 0
	if idle && now.Sub(t.at) >= heartbeat || !idle && now.Sub(t.whole) >= reportEvery {
		r.whole = true
		r.loads = slices.Collect(maps.Values(loads))
		t.whole = now
	} else {
		r.loads = changes(t.loads, loads)
	}
	if !r.whole && len(r.loads) == 0 {
		return r, false
	}
	slices.SortFunc(r.loads, func(a, b load) int { return cmp.Compare(a.backend, b.backend) })
	t.at, t.loads = now, loads
	return r, true
}

// sameMoment is by how much a moment differs at least that has changed: the conversion
// between clocks does not bring back the same number.
const sameMoment moment = 10_000

// changes returns the loads that differ, and an empty one for each that is gone.
func changes(from, to map[string]load) []load {
	var all []load
	for name, l := range to {
		if was, known := from[name]; !known || l.differs(was) {
			all = append(all, l)
		}
	}
	for name := range from {
		if _, still := to[name]; !still {
			all = append(all, load{backend: name})
		}
	}
	return all
}

// differs reports whether a load is another one.
func (l load) differs(was load) bool {
	return l.inFlight != was.inFlight || l.tokens != was.tokens || l.rate != was.rate ||
		max(l.began-was.began, was.began-l.began) > sameMoment ||
		max(l.progress-was.progress, was.progress-l.progress) > sameMoment
}
