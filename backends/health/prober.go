package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/warmroute/warmroute/backends"
)

// ProbeConfig sets how engines are probed. Zero fields mean their defaults.
type ProbeConfig struct {
	// Path is where engines say whether they can work, below their base URLs. Default
	// /health, as vLLM, SGLang, TensorRT-LLM and llama.cpp have it.
	Path string
	// Interval is the time from one answer to the next probe, give or take a tenth.
	// Default 5 s.
	Interval time.Duration
	// Timeout bounds one probe. Default 5 s: a busy engine answers late.
	Timeout time.Duration
	// Failures is how many probes in a row must get no answer, or a 5xx other than 503, before
	// a backend is taken to be out of reach. Default 3.
	Failures int
	// FrozenAfter is how long a backend may send nothing at all while it has answers under
	// way before it is taken to be frozen, whatever it says of itself. Default 1 min.
	FrozenAfter time.Duration
	// Header, if set, returns what to send to a backend.
	Header func(*backends.Backend) http.Header
}

// DefaultProbeConfig returns the defaults.
func DefaultProbeConfig() ProbeConfig {
	return ProbeConfig{Path: "/health", Interval: 5 * time.Second, Timeout: 5 * time.Second, Failures: 3, FrozenAfter: time.Minute}
}

func (c ProbeConfig) withDefaults() ProbeConfig {
	d := DefaultProbeConfig()
	if c.Path == "" {
		c.Path = d.Path
	}
	if c.Interval <= 0 {
		c.Interval = d.Interval
	}
	if c.Timeout <= 0 {
		c.Timeout = d.Timeout
	}
	if c.Failures <= 0 {
		c.Failures = d.Failures
	}
	if c.FrozenAfter <= 0 {
		c.FrozenAfter = d.FrozenAfter
	}
	return c
}

// ProbeHooks are told of changes. Any may be nil. They are called from several goroutines
// at a time and must not wait.
type ProbeHooks struct {
	// Changed is called when what is known of a backend has changed, with why.
	Changed func(b *backends.Backend, now backends.Probe, why error)
	// Frozen is called, once a second while it goes on, when a backend has answers under way
	// and has sent nothing for a time.
	Frozen func(b *backends.Backend, silent time.Duration)
}

// Prober takes backends out of rotation that say that they cannot work, or say nothing, and
// takes them back when they can.
type Prober struct {
	config ProbeConfig
	get    Getter
	hooks  ProbeHooks

	mu     sync.Mutex
	groups map[string][]*backends.Backend // by base URL
	failed map[string]int                 // probes in a row without an answer, by base URL
}

// NewProber returns a prober that asks through get.
func NewProber(c ProbeConfig, get Getter, hooks ProbeHooks) *Prober {
	if hooks.Changed == nil {
		hooks.Changed = func(*backends.Backend, backends.Probe, error) {}
	}
	if hooks.Frozen == nil {
		hooks.Frozen = func(*backends.Backend, time.Duration) {}
	}
	return &Prober{config: c.withDefaults(), get: get, hooks: hooks, failed: make(map[string]int)}
}

// Run probes the backends that list returns until ctx ends, and then returns nil. The list
// is looked at every second.
func (p *Prober) Run(ctx context.Context, list func() []*backends.Backend) error {
	look := func() []*backends.Backend {
		all := list()
		p.keep(backends.ByURL(all))
		p.findFrozen(all, time.Now())
		return all
	}
	visit(ctx, p.config.Interval, look, p.probe)
	return nil
}

// Once probes every backend in the list and returns when all have answered or failed, or
// ctx ends.
func (p *Prober) Once(ctx context.Context, list []*backends.Backend) {
	groups := backends.ByURL(list)
	p.keep(groups)
	var wg sync.WaitGroup
	slot := make(chan struct{}, atOnce)
	for url := range groups {
		slot <- struct{}{}
		wg.Go(func() {
			defer func() { <-slot }()
			p.probe(ctx, url)
		})
	}
	wg.Wait()
}

// keep notes which backends there are.
func (p *Prober) keep(groups map[string][]*backends.Backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups = groups
	for url := range p.failed {
		if groups[url] == nil {
			delete(p.failed, url)
		}
	}
}

// findFrozen tells of backends that have sent nothing for too long.
func (p *Prober) findFrozen(all []*backends.Backend, now time.Time) {
	for _, b := range all {
		if silent := b.Silent(now); silent > p.config.FrozenAfter {
			p.hooks.Frozen(b, silent)
		}
	}
}

// probe probes one base URL.
func (p *Prober) probe(ctx context.Context, url string) {
	p.mu.Lock()
	group := p.groups[url]
	p.mu.Unlock()
	if len(group) == 0 {
		return // it has left
	}
	refuses, err := p.ask(ctx, group[0])
	if ctx.Err() != nil {
		return // nobody waits for it; that says nothing about the backend
	}
	probe := backends.Answers
	p.mu.Lock()
	switch {
	case refuses:
		probe = backends.Refuses
		delete(p.failed, url)
	case err == nil:
		delete(p.failed, url)
	default:
		if p.failed[url]++; p.failed[url] < p.config.Failures {
			p.mu.Unlock()
			return
		}
		probe = backends.Lost
		err = fmt.Errorf("%d probes in a row failed, the last: %w", p.failed[url], err)
	}
	p.mu.Unlock()
	for _, b := range group {
		if b.SetProbe(probe) {
			p.hooks.Changed(b, probe, err)
		}
	}
}

var errProbeTimeout = errors.New("the time for a probe has passed")

// ask probes a backend once. refuses says that it answered that it cannot work, and err
// why, or why there was no answer from it.
func (p *Prober) ask(ctx context.Context, b *backends.Backend) (refuses bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.Timeout, errProbeTimeout)
	defer cancel()
	var header http.Header
	if p.config.Header != nil {
		header = p.config.Header(b)
	}
	resp, err := p.get.Get(ctx, b, p.config.Path, header)
	if err != nil {
		if context.Cause(ctx) == errProbeTimeout { //nolint:errorlint // it is set above
			err = fmt.Errorf("backend %s: no answer to %s within %v", b.ID, p.config.Path, p.config.Timeout)
		}
		return false, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxProbeBody) // so that the connection can be used again
	// An engine without such a path, or that wants a key, is there. One that does not know
	// the method is, too.
	if resp.StatusCode < http.StatusInternalServerError || resp.StatusCode == http.StatusNotImplemented {
		return false, nil
	}
	// Engines say 503 while they load, drain, or have lost a worker. Another 5xx is of something
	// between, or of a path that fails: the engine itself may work.
	return resp.StatusCode == http.StatusServiceUnavailable, fmt.Errorf("backend %s: %s answered with status %d", b.ID, p.config.Path, resp.StatusCode)
}

// maxProbeBody bounds what is read of an answer, in bytes.
const maxProbeBody = 4 << 10
