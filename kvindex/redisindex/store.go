package redisindex

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

const (
	// breakerFailures is how many exchanges in a row must fail for the breaker to open,
	// if none has succeeded for breakerPause: a cluster that lost a node is still there.
	// Nothing is tried for breakerPause then.
	breakerFailures = 3
	breakerPause    = time.Second
	// renewPause is the least time between two renewals of all connections.
	renewPause = time.Second
	// deniedPause is for how long nothing is tried after the server has denied something:
	// that passes only when somebody changes a password or a permission. It is said when
	// nothing was denied for deniedQuiet before.
	deniedPause = 2 * time.Second
	deniedQuiet = time.Minute
)

// errDenied says that the server denied something a moment ago.
var errDenied = errors.New("redisindex: denied a moment ago")

// store is the connection to Redis: every exchange is bounded in time, a breaker keeps a
// server that is away from being asked at every turn, and failures are counted.
type store struct {
	config   Config
	breaker  *gobreaker.CircuitBreaker[struct{}]
	failures [len(failureNames)]atomic.Uint64
	renewals atomic.Uint64
	good     atomic.Int64           // when an exchange last succeeded, in nanoseconds
	last     atomic.Pointer[string] // what the last failure said
	denied   atomic.Int64           // when something was last denied, in nanoseconds

	mu      sync.Mutex
	current *clients
	renewed time.Time // when they were last made anew
	stopped bool      // they are not to be any more
}

// clients are the connections: those that answer at once, and those that wait for news
// of a stream, which must not be in the way of the others.
type clients struct{ commands, streams redis.UniversalClient }

func (c Config) newClients() *clients {
	return &clients{commands: c.newClient(maxConnections), streams: c.newClient(maxStreams)}
}

func (c *clients) close() {
	// What is in flight fails, and is tried again on the next ones.
	_ = c.commands.Close()
	_ = c.streams.Close()
}

func newStore(c Config) *store {
	s := &store{config: c}
	s.current = c.newClients()
	s.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:    "redis",
		Timeout: breakerPause,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			return counts.ConsecutiveFailures >= breakerFailures && time.Since(time.Unix(0, s.good.Load())) >= breakerPause
		},
	})
	return s
}

func (s *store) clients() *clients {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *store) close() { s.clients().close() }

// stopReading ends the reads that wait for news, now and later.
func (s *store) stopReading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	_ = s.current.streams.Close() // they fail, which is what is wanted
}

// guard does something with Redis, within the breaker and a timeout. Of errors, those that
// pass count against the server.
func (s *store) guard(ctx context.Context, do func(ctx context.Context, client redis.UniversalClient) error) error {
	if s.resting() {
		return errDenied
	}
	var failure error
	_, err := s.breaker.Execute(func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, replyTimeout)
		defer cancel()
		failure = do(ctx, s.clients().commands)
		if kind, failed := failed(failure); failed && kind.passes() {
			return struct{}{}, failure
		}
		s.good.Store(time.Now().UnixNano())
		return struct{}{}, nil
	})
	if err != nil {
		return err
	}
	return failure
}

// exchange does one thing with Redis.
func (s *store) exchange(ctx context.Context, do func(ctx context.Context, client redis.UniversalClient) error) error {
	return s.guard(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		err := do(ctx, client)
		s.note(err)
		return err
	})
}

// pipeline sends commands in one round trip and returns them with what became of each. It
// fails only where none of them was done and all are worth trying again.
func (s *store) pipeline(ctx context.Context, fill func(p redis.Pipeliner)) (commands []redis.Cmder, err error) {
	err = s.guard(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		p := client.Pipeline()
		fill(p)
		if p.Len() == 0 {
			return nil
		}
		var failure error
		commands, failure = p.Exec(ctx)
		lost := 0
		for _, command := range commands {
			if kind, failed := s.note(command.Err()); failed && kind.passes() {
				lost++
			}
		}
		if lost < len(commands) {
			return nil
		}
		return failure
	})
	return commands, err
}

// note counts a failure. A server that has become a replica behind the same address keeps
// the connections that it had, so they are made anew.
func (s *store) note(err error) (kind Failure, yes bool) {
	if kind, yes = failed(err); !yes {
		return kind, false
	}
	s.failures[kind].Add(1)
	s.last.Store(new(kind.String() + ": " + err.Error()))
	switch kind {
	case ReadOnly:
		s.renew()
	case Denied:
		s.deny(err)
	}
	return kind, true
}

// deny takes in that the server denied something: nothing is tried for a while.
func (s *store) deny(err error) {
	now := time.Now().UnixNano()
	before := s.denied.Swap(now)
	if now-before > int64(deniedQuiet) {
		s.config.Logger.Error("redis: access is denied; nothing is shared until that is mended",
			slog.String("error", err.Error()), slog.String("hint", Denied.hint()))
	}
}

// resting reports whether nothing is to be tried.
func (s *store) resting() bool { return time.Now().UnixNano()-s.denied.Load() < int64(deniedPause) }

// renew makes all connections anew, at most once a second.
func (s *store) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.stopped || now.Sub(s.renewed) < renewPause {
		return
	}
	s.renewed = now
	s.renewals.Add(1)
	s.current.close()
	s.current = s.config.newClients()
}

// lastError is what the last failure said; empty before any.
func (s *store) lastError() string {
	if last := s.last.Load(); last != nil {
		return *last
	}
	return ""
}
