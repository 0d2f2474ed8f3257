package redisindex

import (
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/warmroute/warmroute/router"
)

// counts are what has been counted since the start.
type counts struct {
	published, dropped, written            atomic.Uint64
	batches, commands, abandoned           atomic.Uint64
	received, ignored, malformed, horizons atomic.Uint64
	restores, restored, gaps               atomic.Uint64
	emptied, replaced, trimmed, removed    atomic.Uint64
	steps                                  atomic.Uint64
	lag, lastRead                          atomic.Int64 // microseconds; records
}

// Status is how sharing goes at a moment. Counts are since the start.
type Status struct {
	// Pools is how far routers know of each other in each pool, and Sharing that of the pool
	// that is worst off.
	Pools   map[string]router.Sharing
	Sharing router.Sharing
	// Breaker is closed, half-open or open: while it is open, Redis is not asked.
	Breaker string
	// LastEcho is when the last was true of what this router has written and read back, in
	// the pool where that is oldest; the zero time: never. SyncAge is the time since, or since
	// the start.
	LastEcho time.Time
	SyncAge  time.Duration
	// Lag is how long the last of that took, from the server's clock to its arrival.
	Lag time.Duration
	// LastRead is how many records the last read of a stream brought.
	LastRead int
	// LastError is the last failure; empty: there was none.
	LastError string
	// ClockOffset is what fleet time is ahead of this machine's clock; ClockKnown says
	// whether they have been compared.
	ClockOffset time.Duration
	ClockKnown  bool
	// Peers is how many other routers are heard.
	Peers int

	// Queued is how many uses wait to be written.
	Queued int
	// Published, Dropped and Written count uses: those that requests published, those that
	// did not fit into the queue, and those that are in Redis.
	Published, Dropped, Written uint64
	// Batches and Commands count round trips that write, and the commands in them;
	// Abandoned the commands that were given up.
	Batches, Commands, Abandoned uint64

	// Received counts uses that other routers published, Ignored those that say nothing
	// new of any backend here, and Horizons the moves of horizons from there.
	Received, Ignored, Horizons uint64
	// Malformed counts messages and members that are none of ours.
	Malformed uint64

	// Restoring is how many backends are still to be read from Redis, or written to it
	// again; Restores counts those that were read, Restored the blocks.
	Restoring          int
	Restores, Restored uint64
	// Gaps counts the times that records of a stream were missed, and Emptied those that
	// Redis was found without anything of a pool, which it is at the very first.
	Gaps, Emptied uint64
	// Replaced counts keys of a wrong type that were removed, Trimmed the blocks that were
	// removed because sets were full, and Removed the backends that no router had.
	Replaced, Trimmed, Removed uint64
	// ClockSteps counts the times that the server's clock was found to be set.
	ClockSteps uint64

	// Failures counts failed commands by kind, and Renewals how often all connections were
	// made anew.
	Failures map[Failure]uint64
	Renewals uint64
}

// BreakerStates are the states of [Status.Breaker].
func BreakerStates() []string {
	return []string{gobreaker.StateClosed.String(), gobreaker.StateHalfOpen.String(), gobreaker.StateOpen.String()}
}

// Status returns how sharing goes.
func (x *Index) Status() Status {
	c := &x.counts
	now := x.config.Now()
	heard := x.hears(now)
	s := Status{
		Pools: heard.pools, Sharing: heard.worst, Breaker: x.store.breaker.State().String(),
		LastEcho: heard.echo, Lag: time.Duration(c.lag.Load()) * time.Microsecond,
		LastError: x.store.lastError(), Peers: x.peers.replicas(),
		Queued: x.queue.len(), Published: c.published.Load(), Dropped: c.dropped.Load(), Written: c.written.Load(),
		Batches: c.batches.Load(), Commands: c.commands.Load(), Abandoned: c.abandoned.Load(),
		Received: c.received.Load(), Ignored: c.ignored.Load(), Horizons: c.horizons.Load(), Malformed: c.malformed.Load(),
		Restoring: x.tasks.left(), Restores: c.restores.Load(), Restored: c.restored.Load(),
		Gaps: c.gaps.Load(), Emptied: c.emptied.Load(),
		Replaced: c.replaced.Load(), Trimmed: c.trimmed.Load(), Removed: c.removed.Load(), ClockSteps: c.steps.Load(),
		Failures: make(map[Failure]uint64), Renewals: x.store.renewals.Load(),
	}
	s.LastRead = int(c.lastRead.Load())
	s.SyncAge = now.Sub(x.began)
	if !s.LastEcho.IsZero() {
		s.SyncAge = now.Sub(s.LastEcho)
	}
	s.ClockOffset, s.ClockKnown = x.clock.offset()
	for _, kind := range Failures() {
		s.Failures[kind] = x.store.failures[kind].Load()
	}
	return s
}
