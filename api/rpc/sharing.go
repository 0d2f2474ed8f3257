package rpc

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/kvindex/redisindex"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// sharing describes how far the index is shared with other routers; nil where it is not
// meant to be.
func (a *Admin) sharing() *v1.Sharing {
	s, ok := a.options.Sharing()
	if !ok {
		return nil
	}
	out := &v1.Sharing{
		State: s.Sharing.String(), Peers: count(s.Peers), Breaker: s.Breaker, SyncAge: durationpb.New(s.SyncAge),
		Queued: uint64(max(s.Queued, 0)), Published: s.Published + s.Dropped, Dropped: s.Dropped, Received: s.Received, //nolint:gosec // never negative
		Restoring: count(s.Restoring), LastError: s.LastError,
	}
	if s.Lag > 0 {
		out.Lag = durationpb.New(s.Lag.Round(time.Microsecond))
	}
	if s.ClockKnown {
		out.ClockOffset = durationpb.New(s.ClockOffset)
	}
	for _, kind := range redisindex.Failures() {
		out.Failures += s.Failures[kind]
	}
	return out
}
