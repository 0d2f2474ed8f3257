package health

import (
	"context"
	"errors"
	"sync"

	"github.com/warmroute/warmroute/backends"
)

// atOnce bounds how many engines [Poller.Once] and [Prober.Once] ask at a time.
const atOnce = 32

// Poller keeps the model lists of backends up to date.
type Poller struct {
	config Config
	get    Getter
	hooks  Hooks

	mu      sync.Mutex
	targets map[string]*target // by base URL
}

// target is one base URL and the backends behind it.
type target struct {
	asking sync.Mutex // held while the URL is asked; not to be taken under Poller.mu

	// Guarded by Poller.mu.
	backends []*backends.Backend // at least one
	failing  bool
	answer   []backends.Model // the last good one
	answered bool
}

// NewPoller returns a poller that asks through get. Settings that are zero or that
// [Config.Validate] would refuse are taken as their defaults.
func NewPoller(c Config, get Getter, hooks Hooks) *Poller {
	return &Poller{
		config:  c.withDefaults(),
		get:     get,
		hooks:   hooks.withDefaults(),
		targets: make(map[string]*target),
	}
}

// Once asks every backend in the list and returns when all have answered or failed.
// The error joins what failed.
func (p *Poller) Once(ctx context.Context, list []*backends.Backend) error {
	p.mu.Lock()
	var ask []*target
	for url, group := range backends.ByURL(list) {
		ask = append(ask, p.meet(url, group))
	}
	p.mu.Unlock()

	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
		slot = make(chan struct{}, atOnce)
	)
	for _, t := range ask {
		slot <- struct{}{}
		wg.Go(func() {
			defer func() { <-slot }()
			if err := p.poll(ctx, t); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Run asks the backends that list returns until ctx ends, and then returns nil. The
// list is looked at every second: what arrives is asked at once, what left no more.
func (p *Poller) Run(ctx context.Context, list func() []*backends.Backend) error {
	met := func() []*backends.Backend {
		all := list()
		p.keep(backends.ByURL(all))
		return all
	}
	visit(ctx, p.config.Interval, met, func(ctx context.Context, url string) {
		p.mu.Lock()
		t := p.targets[url]
		p.mu.Unlock()
		if t != nil { // else it has left
			_ = p.poll(ctx, t) // the hooks have told
		}
	})
	return nil
}

// keep meets the targets that there are, and forgets all others.
func (p *Poller) keep(groups map[string][]*backends.Backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for url, group := range groups {
		p.meet(url, group)
	}
	for url := range p.targets {
		if groups[url] == nil {
			delete(p.targets, url)
		}
	}
}

// meet returns the target of a URL with the backends that are behind it now. p.mu is
// held.
func (p *Poller) meet(url string, group []*backends.Backend) *target {
	t := p.targets[url]
	if t == nil {
		t = &target{}
		p.targets[url] = t
	}
	t.backends = group
	if t.answered {
		for _, b := range group {
			if _, known := b.Models(); !known {
				b.SetModels(t.answer) // a rank that arrived after the answer
			}
		}
	}
	return t
}

// poll asks one URL and passes on what it said.
func (p *Poller) poll(ctx context.Context, t *target) error {
	t.asking.Lock()
	defer t.asking.Unlock()
	p.mu.Lock()
	first := t.backends[0]
	p.mu.Unlock()
	models, err := p.ask(ctx, first)
	p.mu.Lock()
	group := t.backends
	if ctx.Err() != nil && err != nil {
		p.mu.Unlock()
		return err // nobody waits for it; that says nothing about the backend
	}
	was := t.failing
	t.failing = err != nil
	if err == nil {
		t.answer, t.answered = models, true
	}
	p.mu.Unlock()

	for _, b := range group {
		p.hooks.Asked(b, err)
		switch {
		case err != nil && !was:
			p.hooks.Failed(b, err)
		case err == nil && was:
			p.hooks.Recovered(b)
		}
		if err == nil && b.SetModels(models) {
			p.hooks.Changed(b)
		}
	}
	return err
}
