package rpc

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/warmroute/warmroute/feedback/advice"
	"github.com/warmroute/warmroute/feedback/recent"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

const (
	// adviceLinger is how long advice goes on being made that nobody waits for: whoever asks
	// every few seconds how far it is wants it too.
	adviceLinger = 15 * time.Second
	// adviceRest is how many times as long as advice took to make it is good for whatever
	// comes: somebody who always looks has a core work for a tenth of the time.
	adviceRest = 9
	// adviceNews is the part of the requests under advice, one of so many, that may be new
	// before it is made again.
	adviceNews = 10
	// adviceCores is the part of all cores, one of so many, that replays may take; one is taken
	// in any case, and two at most.
	adviceCores = 4
	// adviceSeed makes equal requests give equal advice.
	adviceSeed = 1
)

var (
	// errWaited says that a caller has waited for as long as it wanted to.
	errWaited = errors.New("waited for long enough")
	// errNothingRemembered says that there is nothing to rest advice on.
	errNothingRemembered = &stateError{"requests are not remembered: set limits.recent_requests_bytes above 0"}
	errNoBackends        = &stateError{"the pool has no backends"}
	errClosing           = &stateError{"the router ends"}
)

// advisor makes advice when it is asked for: in the background, on one pool at a time, and for as
// long as anybody wants to know. Its methods may be called at the same time.
type advisor struct {
	store  *recent.Store // nil where nothing is remembered
	logger *slog.Logger
	ctx    context.Context //nolint:containedctx // of all that is made, ended by close
	cancel context.CancelFunc
	work   sync.WaitGroup
	turn   chan struct{} // whose turn it is to be made holds it

	mu    sync.Mutex
	pools map[*router.Pool]*counsel
}

// counsel is what is known of the advice on a pool. It is guarded by the advisor's mutex.
type counsel struct {
	given  *given  // what was made last, nil where nothing was
	making *making // nil where nothing is being made
}

// given is advice that was made, or why it could not be, and what it rests on. It does not
// change.
type given struct {
	advice *v1.Advice
	err    error
	pool   advice.Pool
	added  uint64 // requests that were remembered by then, ever
	made   time.Time
	took   time.Duration
}

// making is advice that is being made. But for done, its fields are guarded by the advisor's
// mutex.
type making struct {
	ctx             context.Context //nolint:containedctx // cancelled when nobody wants it any more
	cancel          context.CancelFunc
	done            chan struct{}
	dropped         bool // it was cancelled before it was made; to be read once done is closed
	config          router.Config
	waiting         int
	linger          *time.Timer // runs while nobody is waiting
	through, wanted int
}

func newAdvisor(store *recent.Store, logger *slog.Logger) *advisor {
	a := &advisor{store: store, logger: logger, turn: make(chan struct{}, 1), pools: make(map[*router.Pool]*counsel)}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// close ends what is being made.
func (a *advisor) close() {
	a.mu.Lock()
	a.cancel() // from here on nothing begins
	a.mu.Unlock()
	a.work.Wait()
}

// get returns advice on a pool as soon as it is made, or what there is when the context ends with
// [errWaited].
func (a *advisor) get(ctx context.Context, p *router.Pool) (*v1.GetAdviceResponse, error) {
	if a.store == nil {
		return nil, errNothingRemembered
	}
	for {
		g, m, err := a.ask(p)
		if err != nil {
			return nil, err
		}
		if m == nil {
			return g.answer()
		}
		select {
		case <-m.done:
			a.leave(m)
			if !m.dropped {
				return a.latest(p).answer()
			}
			// The pool is routed in another way now, or nobody seemed to want it: it begins again.
		case <-ctx.Done():
			progress := a.leave(m)
			if !errors.Is(context.Cause(ctx), errWaited) {
				return nil, ctx.Err()
			}
			out := &v1.GetAdviceResponse{Progress: progress}
			if g != nil {
				out.Advice = g.advice
			}
			return out, nil
		}
	}
}

// answer is an answer that holds.
func (g *given) answer() (*v1.GetAdviceResponse, error) {
	if g.err != nil {
		return nil, g.err
	}
	return &v1.GetAdviceResponse{Advice: g.advice}, nil
}

// latest is what was made last.
func (a *advisor) latest(p *router.Pool) *given {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pools[p].given
}

// ask returns the latest advice on a pool and, unless that holds, newer advice that is being
// made, which the caller leaves.
func (a *advisor) ask(p *router.Pool) (*given, *making, error) {
	known, added := advice.Of(p, time.Now()), a.store.Added(p.Name())
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return nil, nil, errClosing
	}
	c := a.pools[p]
	if c == nil {
		c = new(counsel)
		a.pools[p] = c
	}
	if c.given != nil && c.given.holds(&known, added, time.Now()) {
		return c.given, nil, nil
	}
	if m := c.making; m != nil && (m.config != known.Config || m.ctx.Err() != nil) {
		m.cancel()
		c.making = nil
	}
	if c.making == nil {
		c.making = a.begin(p, c, known.Config)
	}
	c.making.waiting++
	c.making.linger.Stop()
	return c.given, c.making, nil
}

// leave says that somebody does not wait for advice any more, and returns how far it is made.
func (a *advisor) leave(m *making) *v1.AdviceProgress {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.waiting--; m.waiting == 0 {
		m.linger.Reset(adviceLinger)
	}
	return &v1.AdviceProgress{Through: count(m.through), Wanted: count(m.wanted)}
}

// begin has advice made. a.mu is held.
func (a *advisor) begin(p *router.Pool, c *counsel, config router.Config) *making {
	m := &making{done: make(chan struct{}), config: config}
	m.ctx, m.cancel = context.WithCancel(a.ctx)
	m.linger = time.AfterFunc(adviceLinger, m.cancel)
	a.work.Go(func() {
		g := a.make(p, m)
		a.mu.Lock()
		defer a.mu.Unlock()
		m.linger.Stop()
		if m.dropped = m.ctx.Err() != nil; !m.dropped {
			c.given = g
		}
		if c.making == m {
			c.making = nil
		}
		m.cancel()
		close(m.done)
	})
	return m
}

// make makes advice, when it is its turn.
func (a *advisor) make(p *router.Pool, m *making) *given {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-m.ctx.Done():
		return nil
	}
	began := time.Now()
	g := &given{pool: advice.Of(p, began), added: a.store.Added(p.Name())}
	made, err := a.replay(p, m, &g.pool)
	g.made = time.Now()
	g.took = g.made.Sub(began)
	if err != nil {
		if g.err = err; m.ctx.Err() == nil {
			a.logger.Error("advice", slog.String("pool", p.Name()), slog.String("error", err.Error()))
		}
		return g
	}
	g.advice = DescribeAdvice(made, g.made)
	return g
}

// background does something that close waits for, unless the advisor is closed.
func (a *advisor) background(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() == nil {
		a.work.Go(do)
	}
}

// fresh makes advice on both settings of a pool from what came since a moment, when it is its turn.
func (a *advisor) fresh(p *router.Pool, since time.Time) (*advice.Advice, error) {
	if a.store == nil {
		return nil, errNothingRemembered
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-a.ctx.Done():
		return nil, errClosing
	}
	known := advice.Of(p, time.Now())
	if known.Backends == 0 {
		return nil, errNoBackends
	}
	return advice.Give(a.ctx, known, advice.Recent(a.store, p.Name(), 0).Since(since), advice.Options{
		Seed: adviceSeed, Parallel: parallel(), Knobs: []advice.Knob{},
	})
}

// parallel is how many replays go on at once.
func parallel() int { return min(max(runtime.GOMAXPROCS(0)/adviceCores, 1), 2) }

// replay makes the advice itself.
func (a *advisor) replay(p *router.Pool, m *making, known *advice.Pool) (*advice.Advice, error) {
	if known.Backends == 0 {
		return nil, errNoBackends
	}
	return advice.Give(m.ctx, *known, advice.Recent(a.store, p.Name(), 0), advice.Options{
		Seed: adviceSeed, Parallel: parallel(),
		Progress: func(through, wanted int) {
			a.mu.Lock()
			defer a.mu.Unlock()
			m.through, m.wanted = through, wanted
		},
	})
}

// holds reports whether advice is still what would be made of a pool with so many requests
// remembered, ever.
func (g *given) holds(p *advice.Pool, added uint64, now time.Time) bool {
	switch {
	case g.pool.Config != p.Config || g.pool.Backends != p.Backends:
		return false
	case now.Sub(g.made) < adviceRest*g.took:
		return true
	}
	requests := uint64(1)
	if g.advice != nil {
		requests = max(uint64(g.advice.GetEvidence().GetRequests()), 1)
	}
	return adviceNews*(added-g.added) < requests
}
