package rpc

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/tuning"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// tuneEvery is how often it is looked whether there is a step to make.
const tuneEvery = time.Second

// tuningSetting is the name under which the latest step is shared, beside the settings that
// operators set.
const tuningSetting = "tuning"

// tuners are the pools in automatic mode. The zero value is ready.
type tuners struct {
	mu  sync.Mutex // orders changes of all
	all atomic.Pointer[map[string]*tuned]
}

// tuned is a pool in automatic mode.
type tuned struct {
	*tuning.Tuner
	rules tuning.Rules
}

// get is the pool with a name, nil where it is not in automatic mode.
func (t *tuners) get(pool string) *tuned {
	if all := t.all.Load(); all != nil {
		return (*all)[pool]
	}
	return nil
}

// Automatic puts a pool into automatic mode by some rules, or out of it: nil. What it has done is
// forgotten then, and stays in force.
func (a *Admin) Automatic(pool string, rules *tuning.Rules) {
	t := &a.tuners
	t.mu.Lock()
	defer t.mu.Unlock()
	next := make(map[string]*tuned)
	if all := t.all.Load(); all != nil {
		maps.Copy(next, *all)
	}
	was := next[pool]
	switch {
	case rules == nil:
		delete(next, pool)
	case was == nil:
		next[pool] = &tuned{tuning.New(*rules), *rules}
	default:
		was.Rule(*rules)
		next[pool] = &tuned{was.Tuner, *rules}
	}
	t.all.Store(&next)
	if rules != nil && was == nil {
		a.adoptStep(pool, a.settings.Settings(pool))
	}
	a.options.SeekLead(len(next) > 0)
}

// Observe takes in a request that has ended. It does not keep the record.
func (a *Admin) Observe(r *feedback.Record) {
	if t := a.tuners.get(r.Pool); t != nil {
		t.Add(r)
	}
}

// Tune does what automatic mode does until ctx ends.
func (a *Admin) Tune(ctx context.Context) error {
	tick := time.NewTicker(tuneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if all := a.tuners.all.Load(); all != nil {
			for name, t := range *all {
				if p := a.options.Router.Find(name); p != nil {
					a.tune(p, t)
				}
			}
		}
	}
}

// tune does what is to be done about a pool now.
func (a *Admin) tune(p *router.Pool, t *tuned) {
	present := p.Config()
	m := t.Look(time.Now(), present, a.options.Leads())
	if m.Ask {
		a.advisor.background(func() { a.advise(p, t, m.Since) })
	}
	if m.Step != nil {
		a.step(p, present, m)
	}
}

// advise makes the advice that a tuner asks for.
func (a *Admin) advise(p *router.Pool, t *tuned, since time.Time) {
	given, err := a.advisor.fresh(p, since)
	if err != nil {
		if a.advisor.ctx.Err() == nil {
			a.options.Logger.Warn("automatic mode: no advice", slog.String("pool", p.Name()), slog.String("error", err.Error()))
		}
		t.Advised(time.Now(), p.Config(), nil, "no advice could be made: "+err.Error())
		return
	}
	t.Advised(time.Now(), given.Present, given.Proposals(), given.TooLittle)
}

// step sets what automatic mode sets where the pool is routed as it was looked at, and tells everybody.
func (a *Admin) step(p *router.Pool, present router.Config, m tuning.Move) {
	change := map[string]string{tuningSetting: m.Step.String()}
	attrs := []slog.Attr{slog.String("pool", p.Name()), slog.String("by", "automatic mode")}
	a.mu.Lock()
	if p.Config() != present { // somebody was quicker, which the tuner sees at its next look
		m.Set = false
	}
	if m.Set {
		setting := string(m.Step.Setting)
		change[setting] = valuesOf(routing(m.Config))[setting]
		if asConfigured(m, a.configured[p.Name()]) {
			change[setting] = "" // as the configuration says, also when that says something else
		}
		before, after := a.route(p, joined(a.settings.Settings(p.Name()), change))
		attrs = append(attrs, differences(before, after)...)
	}
	a.settings.Set(p.Name(), change)
	a.mu.Unlock()
	attrs = append(attrs, slog.String("step", string(m.Step.Fate)), slog.String("why", m.Step.Why))
	what := "automatic mode: a step has met its fate"
	if m.Set {
		what = "routing changed"
	}
	a.audit(context.Background(), what, attrs...)
	a.options.Stepped(p.Name(), m.Step)
}

// asConfigured reports whether what a move sets is what is configured.
func asConfigured(m tuning.Move, configured router.Config) bool {
	c := m.Config
	if m.Step.Setting == tuning.PrefixLength {
		c.PrefixLength = configured.PrefixLength
		return c.HashLength() == m.Config.HashLength()
	}
	return configured.ConcurrencyThreshold == c.ConcurrencyThreshold
}

// adoptStep takes in the latest step of another router.
func (a *Admin) adoptStep(pool string, values map[string]string) {
	t, text := a.tuners.get(pool), values[tuningSetting]
	if t == nil || text == "" {
		return
	}
	s, err := tuning.ParseStep(text)
	if err != nil {
		a.options.Logger.Warn("automatic mode: what another router did is not understood", slog.String("pool", pool), slog.String("error", err.Error()))
		return
	}
	t.Adopt(s)
}

// GetTuning implements the generated interface.
func (a *Admin) GetTuning(_ context.Context, in *v1.GetTuningRequest) (*v1.GetTuningResponse, error) {
	pools, err := a.pools(in.GetPool())
	if err != nil {
		return nil, failure(err)
	}
	out := new(v1.GetTuningResponse)
	for _, p := range pools {
		one := &v1.PoolTuning{Pool: p.Name()}
		if t := a.tuners.get(p.Name()); t != nil {
			s := t.Status()
			one.Automatic, one.Leads, one.Doing, one.Observation = true, a.options.Leads(), s.Doing, durationpb.New(t.rules.Observation)
			for i := range s.Steps {
				one.Steps = append(one.Steps, stepMade(&s.Steps[i]))
			}
		}
		out.Pools = append(out.Pools, one)
	}
	return out, nil
}

// stepMade describes a step.
func stepMade(s *tuning.Step) *v1.TuningStep {
	out := &v1.TuningStep{
		Setting: string(s.Setting), From: count(s.From), To: count(s.To), Back: s.Back, At: timestamppb.New(s.At),
		Fate: string(s.Fate), Why: s.Why, Before: deliveredBy(&s.Before),
	}
	if s.After.Answers > 0 {
		out.After = deliveredBy(&s.After)
	}
	return out
}

// deliveredBy describes what was delivered.
func deliveredBy(d *tuning.Delivered) *v1.TuningMeasure {
	out := &v1.TuningMeasure{Answers: count(d.Answers), HitRate: d.HitRate, Unserved: d.Unserved}
	if d.P90 > 0 {
		out.TtftP90 = durationpb.New(d.P90)
	}
	return out
}
