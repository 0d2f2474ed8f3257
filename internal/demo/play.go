package demo

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/internal/workload"
)

// ramp is how long after one user the next begins, in simulated time, so that a
// workload without pauses does not begin with a burst.
const ramp = 250 * time.Millisecond

// player sends a workload: as many sessions at once as there are users, each a
// closed loop.
type player struct {
	client *client
	text   workload.Text
	users  int
	speed  float64
	heed   func(answer, error) // told of each request; safe for concurrent use
	stop   func() bool         // true when the rest need not be sent

	next atomic.Int64 // session
}

// play sends everything. It returns early, with the context's error, when that
// ends.
func (p *player) play(ctx context.Context) error {
	users, ctx := errgroup.WithContext(ctx)
	for i := range min(p.users, len(p.text.Sessions)) {
		users.Go(func() error {
			if err := p.wait(ctx, time.Now(), time.Duration(i)*ramp); err != nil {
				return err
			}
			return p.user(ctx)
		})
	}
	return users.Wait()
}

// user plays sessions until there are none left.
func (p *player) user(ctx context.Context) error {
	for {
		i := int(p.next.Add(1)) - 1
		if i >= len(p.text.Sessions) || p.stop() {
			return nil
		}
		if err := p.session(ctx, p.text.Sessions[i]); err != nil {
			return err
		}
	}
}

func (p *player) session(ctx context.Context, s workload.Session) error {
	var talk workload.Conversation
	var started time.Time
	ended := time.Now()
	for _, turn := range s.Turns {
		if err := p.wait(ctx, ended, turn.Think); err != nil {
			return err
		}
		if err := p.wait(ctx, started, turn.Gap); err != nil {
			return err
		}
		started = time.Now()
		a, err := p.client.chat(ctx, talk.Ask(turn), turn.OutputTokens)
		ended = time.Now()
		if ctx.Err() != nil {
			return ctx.Err() // what was cut off says nothing
		}
		talk.Answer(a.text)
		p.heed(a, err)
		if p.stop() {
			return nil
		}
	}
	return nil
}

// wait returns when a simulated duration has passed since a moment.
func (p *player) wait(ctx context.Context, since time.Time, simulated time.Duration) error {
	if since.IsZero() {
		return ctx.Err()
	}
	left := time.Until(since.Add(time.Duration(float64(simulated) / p.speed)))
	if left <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
