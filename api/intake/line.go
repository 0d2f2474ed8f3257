package intake

import (
	"context"
	"errors"
	"time"

	"github.com/warmroute/warmroute/router"
)

// What ends the wait for a slot without a decision.
var (
	// ErrLineFull says that too many wait already.
	ErrLineFull = errors.New("the waiting line is full")
	// ErrLineWait says that no slot became free in time.
	ErrLineWait = errors.New("no slot became free in time")
	// ErrLineLeft says that nobody waits for the answer any more.
	ErrLineLeft = errors.New("the client left")
)

// lookAgain is how often the first in line looks for a slot without being called: a
// backend that comes back from a pause or an ejection calls nobody.
const lookAgain = time.Second

// Wait waits in a pool's line until ask gets a decision, or an error other than that the
// pool is saturated. At most most requests wait, none beyond until. ask makes the
// decision with [router.Request.Waited] set. A call that comes while a slot is taken
// without it goes on to whoever is next in line.
func Wait(ctx context.Context, pool *router.Pool, most int, until time.Time, ask func() (*router.Decision, error)) (*router.Decision, error) {
	place, ok := pool.Join(most)
	if !ok {
		return nil, ErrLineFull
	}
	called := false
	defer func() { place.Leave(called) }()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		if place.First() { // a slot may have become free before there was a place in the line
			if d, err := ask(); !full(err) {
				return d, err
			}
		}
		select {
		case <-place.Ready():
		case <-again.C:
			continue
		case <-timer.C:
			return nil, ErrLineWait
		case <-ctx.Done():
			return nil, ErrLineLeft
		}
		if d, err := ask(); !full(err) {
			called = err == nil
			return d, err
		}
		place.Again()
	}
}

func full(err error) bool {
	_, ok := errors.AsType[*router.SaturatedError](err)
	return ok
}
