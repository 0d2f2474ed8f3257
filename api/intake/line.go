package intake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warmroute/warmroute/router"
)

// What ends the wait for a slot without a decision.
var (
	// ErrLineWait says that no slot became free in time.
	ErrLineWait = errors.New("no slot became free in time")
	// ErrLineLeft says that nobody waits for the answer any more.
	ErrLineLeft = errors.New("the client left")
)

// Line bounds a pool's line. It is part of what a surface is configured with.
type Line struct {
	// Most is how many requests wait at a time, and Share how many of those are of one
	// tenant.
	Most, Share int
	// Wait is how long a request waits.
	Wait time.Duration
}

// NewLine returns a line of at most most, of which one tenant may have a part ([ShareOf]).
func NewLine(most int, part float64, wait time.Duration) Line {
	return Line{Most: most, Share: ShareOf(most, part), Wait: wait}
}

// ShareOf is how many of most things one tenant may have, where that is a part of them: at least
// one. A part of 0 is all.
func ShareOf(most int, part float64) int {
	if part <= 0 {
		return most
	}
	return min(max(int(part*float64(most)), 1), most)
}

// Refused is what is said of a line that a request does not get a slot in; ok is false for other
// errors.
func (l Line) Refused(err error, pool string) (message string, ok bool) {
	switch {
	case errors.Is(err, router.ErrLineFull):
		return fmt.Sprintf("%d requests wait for a slot of pool %q already (limits.max_queued)", l.Most, pool), true
	case errors.Is(err, router.ErrShareFull):
		return fmt.Sprintf("%d requests of yours wait for a slot of pool %q already, which is your part of its queue (limits.queue_share)", l.Share, pool), true
	case errors.Is(err, ErrLineWait):
		return fmt.Sprintf("no slot of pool %q became free within %v (timeouts.queue)", pool, l.Wait), true
	}
	return "", false
}

// lookAgain is how often the first in line looks for a slot without being called: a
// backend that comes back from a pause or an ejection calls nobody.
const lookAgain = time.Second

// Wait waits in a pool's line until ask gets a decision, or an error other than that the
// pool is saturated. The line is bounded, also for a tenant; none waits beyond until. ask makes the
// decision with [router.Request.Waited] set. A call that comes while a slot is taken
// without it goes on to whoever is next in line.
func Wait(ctx context.Context, pool *router.Pool, line Line, tenant string, until time.Time, ask func() (*router.Decision, error)) (*router.Decision, error) {
	place, err := pool.Join(tenant, line.Most, line.Share)
	if err != nil {
		return nil, err
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
