package discovery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/warmroute/warmroute/backends"
)

// Named is a source with the name that logs and metrics give it.
type Named struct {
	Name   string
	Source Source
}

// Options are what a discovery works with.
type Options struct {
	// Sources are who knows backends, the first first: it describes what several name.
	Sources []Named
	// Apply takes over a new list. If it fails, it is called again with the next answer.
	Apply func(specs []backends.Spec) error
	// Hooks are told what happens.
	Hooks Hooks
	// Linger is how long a backend that left is remembered. Default [Linger].
	Linger time.Duration
}

// Hooks are told what happens. Any may be nil. They are called one at a time and must not
// wait.
type Hooks struct {
	// Changed is called for everything that happened to a backend, once the list is in
	// force; source is who describes it.
	Changed func(source string, c Change)
	// Failed is called when a source could not find something out, and did before.
	Failed func(source string, err error)
	// Recovered is called when it can again.
	Recovered func(source string)
	// Refused is called when a list could not be applied.
	Refused func(err error)
}

func (h Hooks) withDefaults() Hooks {
	if h.Changed == nil {
		h.Changed = func(string, Change) {}
	}
	if h.Failed == nil {
		h.Failed = func(string, error) {}
	}
	if h.Recovered == nil {
		h.Recovered = func(string) {}
	}
	if h.Refused == nil {
		h.Refused = func(error) {}
	}
	return h
}

// Status is how asking a source goes.
type Status struct {
	// Source is its name.
	Source string
	// Backends is how many it named in its last good answer.
	Backends int
	// Last is when that was; the zero time before any. What is [Static] holds at any time.
	Last time.Time
	// Err is why its last answer was none, or not whole; nil after a good one.
	Err error
	// Errors counts such answers.
	Errors uint64
}

// Discovery keeps the backends of one pool like what its sources say.
type Discovery struct {
	options Options

	mu       sync.Mutex
	fleet    *Fleet
	statuses []Status
	applied  []backends.Spec
	next     time.Time     // when the list changes by itself
	alarm    chan struct{} // next has changed
}

// New returns a discovery that has not asked anybody. What a [Static] source says is known
// already: it is taken as applied.
func New(o Options) *Discovery {
	o.Hooks = o.Hooks.withDefaults()
	d := &Discovery{
		options:  o,
		fleet:    NewFleet(len(o.Sources), o.Linger),
		statuses: make([]Status, len(o.Sources)),
		alarm:    make(chan struct{}, 1),
	}
	for i, s := range o.Sources {
		d.statuses[i].Source = s.Name
		if list, known := s.Source.(Static); known {
			if d.statuses[i].Err = d.fleet.Answer(i, list); d.statuses[i].Err == nil {
				d.statuses[i].Backends = len(list)
			}
		}
	}
	d.applied = d.fleet.Merge(time.Time{}).Specs
	return d
}

// Run asks the sources until ctx ends, and then returns nil.
func (d *Discovery) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for i, s := range d.options.Sources {
		if _, static := s.Source.(Static); static {
			continue // what it says is known, and may have been replaced
		}
		running.Go(func() {
			s.Source.Run(ctx, func(list []backends.Spec, err error) { d.answer(ctx, i, list, err) })
		})
	}
	d.forget(ctx)
	return nil
}

// Set makes a [Static] source say something else. If the list makes no sense, or cannot be
// applied, the error says so, and the one before holds on.
func (d *Discovery) Set(source string, list []backends.Spec) error {
	draft, err := d.Draft(source, list)
	if err != nil {
		return err
	}
	return draft.Commit()
}

// Draft is a change of what a [Static] source says, before it is in force. It must be ended once,
// by Commit or by Discard; until then its discovery takes in nothing else.
type Draft struct {
	discovery *Discovery
	source    int
	named     int // backends, by the source
	fleet     *Fleet
	merged    Merged
}

// Draft prepares what [Discovery.Set] does. If the list makes no sense, the error says so, and
// there is no draft.
func (d *Discovery) Draft(source string, list []backends.Spec) (*Draft, error) {
	d.mu.Lock()
	i := slices.IndexFunc(d.statuses, func(s Status) bool { return s.Source == source })
	if i < 0 {
		d.mu.Unlock()
		return nil, fmt.Errorf("there is no source %q", source)
	}
	next := d.fleet.clone()
	if err := next.Answer(i, list); err != nil {
		d.mu.Unlock()
		return nil, err
	}
	return &Draft{discovery: d, source: i, named: len(list), fleet: next, merged: next.Merge(time.Now())}, nil
}

// Specs is the list that Commit applies.
func (f *Draft) Specs() []backends.Spec { return f.merged.Specs }

// Commit puts the change into force. If the list cannot be applied, the error says so, and the
// one before holds on.
func (f *Draft) Commit() error {
	d := f.discovery
	defer d.mu.Unlock()
	if err := d.apply(f.merged.Specs); err != nil {
		return err
	}
	d.fleet, d.statuses[f.source].Backends = f.fleet, f.named
	d.told(f.merged)
	return nil
}

// Discard gives the change up.
func (f *Draft) Discard() { f.discovery.mu.Unlock() }

// answer takes in what a source says.
func (d *Discovery) answer(ctx context.Context, source int, list []backends.Spec, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil {
		return // a list that is made while everything ends is nobody's
	}
	now := time.Now()
	s := &d.statuses[source]
	if list != nil || err == nil {
		if wrong := d.fleet.Answer(source, list); wrong != nil {
			err = wrong
		} else {
			s.Backends = len(list)
		}
	}
	failing := s.Err != nil
	s.Err = err
	switch {
	case err != nil:
		s.Errors++
		if !failing {
			d.options.Hooks.Failed(s.Source, err)
		}
	default:
		s.Last = now
		if failing {
			d.options.Hooks.Recovered(s.Source)
		}
	}
	d.merge(now)
}

// merge puts what the sources say now into force. d.mu is held.
func (d *Discovery) merge(now time.Time) {
	m := d.fleet.Merge(now)
	_ = d.apply(m.Specs) // the hook has told
	d.told(m)
}

// apply has a list taken over if it differs from the one in force. d.mu is held.
func (d *Discovery) apply(specs []backends.Spec) error {
	if slices.Equal(specs, d.applied) {
		return nil
	}
	if err := d.options.Apply(specs); err != nil {
		d.options.Hooks.Refused(err)
		return err
	}
	d.applied = specs
	return nil
}

// told tells what has changed, and notes when something will by itself. d.mu is held.
func (d *Discovery) told(m Merged) {
	for _, c := range m.Changes {
		d.options.Hooks.Changed(d.statuses[c.Backend.Source].Source, c)
	}
	if !m.Next.Equal(d.next) {
		d.next = m.Next
		select {
		case d.alarm <- struct{}{}:
		default:
		}
	}
}

// forget removes backends that left once they have been gone for long enough.
func (d *Discovery) forget(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.alarm:
		case <-timer.C:
			d.mu.Lock()
			d.merge(time.Now())
			d.mu.Unlock()
		}
		d.mu.Lock()
		if d.next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(d.next))
		}
		d.mu.Unlock()
	}
}

// Answered reports whether every source has given a good answer once: what the pool has is
// then what there is.
func (d *Discovery) Answered() bool {
	return !slices.ContainsFunc(d.Status(), func(s Status) bool { return s.Last.IsZero() })
}

// Status returns how asking each source goes, in their order.
func (d *Discovery) Status() []Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Clone(d.statuses)
	for i, s := range d.options.Sources {
		if _, always := s.Source.(Static); always && all[i].Err == nil {
			all[i].Last = time.Now()
		}
	}
	return all
}
