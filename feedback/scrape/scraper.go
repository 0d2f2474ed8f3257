package scrape

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
)

// reread is how often the list of backends is looked at, and the time within which one
// that arrives is asked first.
const reread = time.Second

// Scraper reads the metrics of backends. Its methods may be called at the same time.
type Scraper struct {
	config Config
	get    Getter
	hooks  Hooks
	seed   maphash.Seed // so that several routers do not ask in step

	mu      sync.Mutex
	targets map[string]*target // by base URL
}

// target is one base URL and the backends behind it, guarded by Scraper.mu.
type target struct {
	backends []*backends.Backend // at least one
	status   map[*backends.Backend]*Status
	stop     context.CancelFunc // of its loop
}

// New returns a scraper that asks through get. Settings that are zero or that
// [Config.Validate] would refuse are taken as their defaults.
func New(c Config, get Getter, hooks Hooks) *Scraper {
	return &Scraper{
		config:  c.withDefaults(),
		get:     get,
		hooks:   hooks.withDefaults(),
		seed:    maphash.MakeSeed(),
		targets: make(map[string]*target),
	}
}

// Run reads the metrics of the backends that list returns until ctx ends, and then
// returns nil. The list is looked at every second: what arrives is asked within
// another, what left no more. It must not run twice at a time.
func (s *Scraper) Run(ctx context.Context, list func() []*backends.Backend) error {
	var loops sync.WaitGroup
	defer loops.Wait()
	defer s.sync(ctx, nil, &loops) // ends them all
	tick := time.NewTicker(reread)
	defer tick.Stop()
	for {
		s.sync(ctx, list(), &loops)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Status returns how reading a backend's metrics goes; ok is false for a backend that
// is not in the list.
func (s *Scraper) Status(b *backends.Backend) (status Status, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.targets[b.Address()]; t != nil {
		if own := t.status[b]; own != nil {
			return *own, true
		}
	}
	return Status{}, false
}

// sync starts and ends loops so that there is one for each URL in the list.
func (s *Scraper) sync(ctx context.Context, list []*backends.Backend, loops *sync.WaitGroup) {
	groups := backends.ByURL(list)
	s.mu.Lock()
	defer s.mu.Unlock()
	for url, group := range groups {
		t := s.targets[url]
		if t == nil {
			var own context.Context
			t = &target{}
			own, t.stop = context.WithCancel(ctx)
			s.targets[url] = t
			loops.Go(func() { s.loop(own, url, t) })
		}
		t.meet(group)
	}
	for url, t := range s.targets {
		if groups[url] == nil {
			t.stop()
			delete(s.targets, url)
		}
	}
}

// meet takes in which backends are behind a URL now.
func (t *target) meet(group []*backends.Backend) {
	status := make(map[*backends.Backend]*Status, len(group))
	for _, b := range group {
		if status[b] = t.status[b]; status[b] == nil {
			status[b] = &Status{}
		}
	}
	t.backends, t.status = group, status
}

// loop asks one URL until ctx ends: once soon, then at its own moment of every
// interval.
func (s *Scraper) loop(ctx context.Context, url string, t *target) {
	part := float64(maphash.String(s.seed, url)>>11) / (1 << 53)
	wait := time.NewTimer(time.Duration(part * float64(min(reread, s.config.Interval))))
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		s.look(ctx, t)
		now := time.Now()
		wait.Reset(next(now, s.config.Interval, part).Sub(now))
	}
}

// next returns the first moment after now, by at least half an interval, that is part
// of an interval into one.
func next(now time.Time, interval time.Duration, part float64) time.Time {
	at := now.Truncate(interval).Add(time.Duration(part * float64(interval)))
	for at.Sub(now) < interval/2 {
		at = at.Add(interval)
	}
	return at
}

// look asks one URL and passes on what it says of each backend behind it.
func (s *Scraper) look(ctx context.Context, t *target) {
	s.mu.Lock()
	first := t.backends[0]
	s.mu.Unlock()
	start := time.Now()
	page, err := s.ask(ctx, first)
	if ctx.Err() != nil {
		return // nobody waits for it; that says nothing about the engine
	}
	end := time.Now()
	s.mu.Lock()
	group := t.backends
	s.mu.Unlock()
	for _, b := range group {
		own := err
		var state feedback.EngineState
		if own == nil {
			if state, own = page.State(b.Rank); own != nil {
				own = fmt.Errorf("backend %s: %s: %w", b.ID, s.config.Path, own)
			}
		}
		state.At = start
		s.tell(t, b, state, own, end.Sub(start))
	}
}

// tell books the result of a look at one backend and calls the hooks.
func (s *Scraper) tell(t *target, b *backends.Backend, state feedback.EngineState, err error, took time.Duration) {
	s.mu.Lock()
	status := t.status[b]
	if status == nil {
		s.mu.Unlock()
		return // it left meanwhile
	}
	was := status.Err
	status.Err = err
	if err != nil {
		status.Bad++
	} else {
		status.Good++
		status.Last, status.Took = state.At, took
	}
	s.mu.Unlock()

	switch {
	case err != nil && was == nil:
		s.hooks.Failed(b, err)
	case err == nil && was != nil:
		s.hooks.Recovered(b)
	}
	if err == nil {
		s.hooks.Scraped(b, state, took)
	}
}
