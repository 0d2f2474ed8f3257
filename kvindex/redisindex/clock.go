package redisindex

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/warmroute/warmroute/kvindex"
)

// moment is a time of the fleet, in microseconds since 1970 by the clock of the Redis
// server. A float64, which scores of sorted sets are, holds it exactly.
type moment int64

const (
	// future is how far a moment may lie ahead and still be true: no two measurements of the
	// clock agree.
	future = 5 * time.Second
	// clockStep is by how much a measurement differs at least from what was expected where
	// the server's clock was set, or another server has taken its place: measurements are
	// never that bad, and clocks do not drift that much from one to the next.
	clockStep = time.Second
)

// maxMoment bounds what is taken for a moment: the largest number up to which a float64
// holds all whole ones.
const maxMoment moment = 1 << 53

// momentOf is the moment that a score says. Scores that are none become the nearest that is.
func momentOf(score float64) moment {
	switch {
	case !(score > 0):
		return 0
	case score >= float64(maxMoment):
		return maxMoment
	}
	return moment(score)
}

// before returns the moment that is d earlier.
func (m moment) before(d time.Duration) moment { return m - moment(d.Microseconds()) }

// after returns the moment that is d later.
func (m moment) after(d time.Duration) moment { return m.before(-d) }

// clock tells fleet time. It goes by this machine's monotonic clock from one measurement
// to the next, so that a wall clock that is set does not move it.
type clock struct {
	now      func() time.Time
	ready    chan struct{}               // closed at the first measurement
	measured atomic.Pointer[measurement] // nil before the first
}

func newClock(now func() time.Time) *clock { return &clock{now: now, ready: make(chan struct{})} }

// measurement is that it was fleet when this machine's clock showed local.
type measurement struct {
	local time.Time
	fleet time.Time
	rough bool // the answer was slow
}

// slowAnswer is how long an answer may take to be good for a measurement, unless there is
// none younger than maxMeasurement: half of that is its error.
const (
	slowAnswer     = 20 * time.Millisecond
	maxMeasurement = time.Minute
)

// measure asks Redis for the time; only one goroutine does. It returns by how much fleet time
// has jumped, mostly 0. In a cluster it is the node of
// one key that is asked, always the same, since nodes have clocks of their own; while that
// is away at the start, any other.
func (c *clock) measure(ctx context.Context, client redis.UniversalClient, key string) (step time.Duration, err error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return c.ask(ctx, client)
	}
	primary, err := cluster.MasterForKey(ctx, key)
	if err == nil {
		step, err = c.ask(ctx, primary)
	}
	if err != nil && c.measured.Load() == nil {
		step, err = c.ask(ctx, client)
	}
	return step, err
}

// ask asks one server.
func (c *clock) ask(ctx context.Context, server redis.Cmdable) (step time.Duration, err error) {
	asked := c.now()
	at, err := server.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	answered := c.now()
	took := answered.Sub(asked)
	last, found := c.measured.Load(), &measurement{local: answered, fleet: at.Add(took / 2), rough: took > slowAnswer}
	if last != nil {
		step = last.step(found)
	}
	if last == nil || step != 0 || !found.rough || answered.Sub(last.local) > maxMeasurement {
		c.measured.Store(found)
	}
	if last == nil {
		close(c.ready)
	}
	return step, nil
}

// rough reports whether the last measurement is one of a slow answer, and should be made
// again soon.
func (c *clock) rough() bool {
	m := c.measured.Load()
	return m != nil && m.rough
}

// step is by how much fleet time has jumped since, 0 where that is little. It has not where
// this machine slept, and its wall clock went on while its monotonic one did not.
func (m *measurement) step(found *measurement) time.Duration {
	step := found.fleet.Sub(m.at(found.local))
	slept := found.fleet.Sub(m.fleet) - found.local.Round(0).Sub(m.local.Round(0))
	if min(step.Abs(), slept.Abs()) < clockStep {
		return 0
	}
	return step
}

// at is fleet time when this machine's clock shows something.
func (m *measurement) at(local time.Time) time.Time { return m.fleet.Add(local.Sub(m.local)) }

// offset is what has to be added to this machine's wall clock; ok is false before the
// first measurement.
func (c *clock) offset() (offset time.Duration, ok bool) {
	m := c.measured.Load()
	if m == nil {
		return 0, false
	}
	now := c.now()
	return time.Duration(m.at(now).UnixNano() - now.UnixNano()), true
}

// fleetNow is the moment; 0 before the first measurement.
func (c *clock) fleetNow() moment {
	m := c.measured.Load()
	if m == nil {
		return 0
	}
	return moment(m.at(c.now()).UnixMicro())
}

// conversion turns stamps of this machine's clock into moments of the fleet and back, all
// with one offset. Nothing that is told or heard lies ahead of the moment it was made: a
// wall clock that was set back leaves stamps that do, and what goes by them would be the
// newest for as long as the clock was off.
type conversion struct {
	offset time.Duration
	now    moment
}

func (c *clock) conversion() (v conversion, ok bool) {
	v.offset, ok = c.offset()
	v.now = c.fleetNow()
	return v, ok
}

func (v conversion) fleet(s kvindex.Stamp) moment {
	return min(moment((int64(s)+int64(v.offset))/1000), v.now)
}

func (v conversion) local(m moment) kvindex.Stamp {
	return kvindex.Stamp(int64(m)*1000 - int64(v.offset))
}

// fleetTime and localTime are the same for times, of which the zero one stays what it is.
func (v conversion) fleetTime(t time.Time) moment {
	if t.IsZero() {
		return 0
	}
	return v.fleet(kvindex.Stamp(t.UnixNano()))
}

func (v conversion) localTime(m moment) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(v.local(min(m, v.now))))
}

// errNoClock says that fleet time is not known yet.
var errNoClock = errors.New("redisindex: not connected yet")
