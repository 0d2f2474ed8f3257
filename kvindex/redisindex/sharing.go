package redisindex

import (
	"context"
	"log/slog"
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
	// SetSharing takes in how far routers know of each other.
	SetSharing(s router.Sharing)
	// PeerHorizon takes in that another router has moved a backend's horizon.
	PeerHorizon(pool, backend string, horizon, now kvindex.Stamp)
}

var _ Fleet = (*router.Router)(nil)

const (
	// reportEvery is how often load is told and taken in.
	reportEvery = 100 * time.Millisecond
	// heartbeat is how often a replica without load says that it is there, and with it
	// learns whether what it writes comes back.
	heartbeat = 500 * time.Millisecond
	// freshFor is how long after this router last read back what it wrote it counts on
	// knowing what the others have.
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
func (alone) SetSharing(router.Sharing)                          {}

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
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	states := sharingLog{logger: x.config.Logger, began: x.config.Now()}
	for {
		now := x.config.Now()
		x.own.Store(&ownReport{at: now, loads: x.fleet.Loads(nil, now)})
		signal(x.queue.wake)
		x.fleet.SetPeers(x.peers.latest(now), now)
		s := x.peers.sharing(now)
		x.fleet.SetSharing(s)
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

func (l *sharingLog) log(s router.Sharing, now time.Time, from *store) {
	fresh := s == router.Fresh
	switch {
	case l.said && fresh == l.fresh:
		return
	case fresh:
		l.logger.Info("redis: the index is shared")
	case !l.said && now.Sub(l.began) < freshFor:
		return // it may be connecting
	default:
		l.logger.Warn("redis: the index is not shared; this router goes on with what it knows", slog.String("last_error", from.lastError()))
	}
	l.said, l.fresh = true, fresh
}

// teller decides which of a router's loads are worth telling.
type teller struct {
	told map[*pool]told
	last *ownReport
}

// told is what was last told of a pool.
type told struct {
	at   time.Time
	some bool // there was load
}

// reports returns what to tell of each pool: its load while there is any, that there is none
// any more, and now and then that this replica is there.
func (t *teller) reports(own *ownReport, pools map[string]*pool, clock conversion) map[*pool]report {
	if own == nil || own == t.last {
		return nil
	}
	t.last = own
	if t.told == nil {
		t.told = make(map[*pool]told)
	}
	all := make(map[*pool]report)
	for _, p := range pools {
		all[p] = report{at: clock.fleetTime(own.at)}
	}
	for _, l := range own.loads {
		p := pools[l.Pool]
		if p == nil || len(l.Backend) > maxLabel {
			continue
		}
		r := all[p]
		r.loads = append(r.loads, load{
			backend: l.Backend, inFlight: l.InFlight, tokens: l.Backlog.Tokens,
			began: clock.fleetTime(l.Backlog.Began), progress: clock.fleetTime(l.Backlog.Progress), rate: l.PrefillRate,
		})
		all[p] = r
	}
	for p, r := range all {
		before := t.told[p]
		if len(r.loads) == 0 && !before.some && own.at.Sub(before.at) < heartbeat {
			delete(all, p)
			continue
		}
		t.told[p] = told{at: own.at, some: len(r.loads) > 0}
	}
	return all
}
