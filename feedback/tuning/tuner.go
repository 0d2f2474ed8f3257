package tuning

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// Move is what to do now.
type Move struct {
	// Ask says that advice is wanted: [Tuner.Advised] takes it. It is to rest on requests that
	// came since then: those before were others.
	Ask   bool
	Since time.Time
	// Step, where it is not nil, was just made or has met its fate: it is to be told to others.
	// Its value is in Config where that differs from the present one.
	Step *Step
	// Config is how the pool is to be routed, Set whether that differs from the present.
	Config router.Config
	Set    bool
}

// Tuner looks after one pool. Its methods may be called at the same time.
type Tuner struct {
	mu       sync.Mutex
	rules    Rules
	meter    meter
	expected router.Config // how the pool should be routed, as far as it is known
	known    bool
	steps    []Step // the latest last
	own      bool   // the latest was made here
	asking   bool
	stale    bool     // what is asked for is of no use any more
	advice   *advised // which waits to be followed
	words    string   // why there was nothing to do when that was last found out
	askAt    time.Time
	since    time.Time // when traffic became what it is
	another  bool      // it did so a moment ago
	rests    map[way]resting
	fell     *Delivered // what was delivered before a step that was just taken back
	doing    string
}

// advised is advice, and on which routing.
type advised struct {
	of  router.Config
	all []Proposal
}

// way is where a step goes: a setting, up or down.
type way struct {
	setting Setting
	up      bool
}

// resting says until when nothing is tried of a way, and how often that was so in a row.
type resting struct {
	until time.Time
	times int
}

// New returns a tuner of a pool that has made no step.
func New(r Rules) *Tuner { return &Tuner{rules: r, rests: make(map[way]resting)} }

// Add takes in a request of the pool that has ended.
func (t *Tuner) Add(r *feedback.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.meter.current.add(r)
}

// Rule has the rules changed, for what comes.
func (t *Tuner) Rule(r Rules) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rules = r
}

// Status is what a tuner has done, and what it does.
type Status struct {
	// Steps are the latest ones, the newest first.
	Steps []Step
	// Doing says in words what is being waited for.
	Doing string
}

// Status returns what was done, and what is being done.
func (t *Tuner) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Status{Steps: slices.Clone(t.steps), Doing: t.doing}
	slices.Reverse(s.Steps)
	return s
}

// Advised takes the advice that was asked for: what should be changed where the pool is routed like
// this, or why nothing is known, in words.
func (t *Tuner) Advised(now time.Time, of router.Config, all []Proposal, nothing string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stale := t.stale
	t.asking, t.stale, t.advice = false, false, nil
	switch {
	case stale:
	case nothing == "":
		t.advice = &advised{of, all}
	default:
		t.askAt = now.Add(rest * t.rules.Observation)
		t.words = nothing
	}
}

// drop has advice of before forgotten: what is there, and what is being made.
func (t *Tuner) drop() { t.advice, t.stale = nil, t.asking }

// Adopt takes in the latest step of another router.
func (t *Tuner) Adopt(s *Step) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.steps { // clocks differ: which came first they do not say
		if known := &t.steps[i]; known.At.Equal(s.At) {
			if known.Fate == Watched {
				known.Fate = s.Fate
			}
			return
		}
	}
	adopted := *s
	adopted.Why = "made by another router"
	t.push(adopted)
	t.own = false
}

// Look says what to do about a pool that is routed as the present configuration says. It begins
// nothing unless it may: one of several routers does. What was begun here ends here in any case.
func (t *Tuner) Look(now time.Time, present router.Config, may bool) Move {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m, changed := t.notice(now, present, may); changed {
		return m
	}
	last := t.last()
	watching := last != nil && last.Fate == Watched
	if watching && last.of(present) != last.To { // its maker was about to set it, and has not
		watching = false
	}
	enough := t.meter.current.answers
	if watching { // where nobody is served, that is an answer too
		enough += t.meter.current.unserved
	}
	closed := enough >= minAnswers && t.meter.close(now, t.rules.part())
	switch {
	case !may && !(watching && t.own):
		t.doing = "another router acts"
		return Move{}
	case watching && closed:
		return t.judge(now, last, present)
	case watching:
		t.doing = fmt.Sprintf("watching what comes of %s %d: part %d of %d", last.Setting, last.To, min(t.meter.n+1, parts), parts)
		return Move{}
	case closed:
		another := t.compare(now)
		if m, back := t.guard(now, present, another); back {
			return m
		}
	}
	return t.proceed(now, present)
}

// notice begins anew where somebody has changed how the pool is routed.
func (t *Tuner) notice(now time.Time, present router.Config, may bool) (Move, bool) {
	if t.known && same(present, t.expected) {
		t.expected = present
		return Move{}, false
	}
	first, was := !t.known, t.expected
	t.expected, t.known = present, true
	t.meter.restart(now)
	t.drop()
	t.fell = nil
	if first {
		return Move{}, false
	}
	last := t.last()
	if last != nil && last.Fate == Watched && !t.own && same(present, with(was, last.Setting, last.To)) {
		return Move{}, false // another router's step
	}
	t.askAt, t.words = now.Add(rest*t.rules.Observation), ""
	if last == nil {
		return Move{}, false
	}
	if last.Fate != Watched || !may && !t.own {
		return Move{}, false
	}
	last.Fate = Overridden
	last.Why += "; overridden: somebody has changed how the pool is routed"
	return Move{Step: new(*last)}, true
}

// judge looks at what has come of a step, after a part.
func (t *Tuner) judge(now time.Time, s *Step, present router.Config) Move {
	n := t.meter.n
	if n < early {
		return Move{}
	}
	s.After = t.meter.last(min(n-1, settled), 0)
	before := t.base()
	bad := harm(before, s.After, n < parts)
	switch {
	case bad == "" && n < parts:
		return Move{}
	case bad == "":
		s.Fate = Kept
		delete(t.rests, s.way())
		t.askAt = now
		t.meter.n, t.meter.alike = min(n, settled), min(n, settled) // what was watched is what the next step begins from
		return Move{Step: new(*s)}
	}
	s.Fate = TakenBack
	s.Why += "; taken back: " + bad
	t.retire(now, s.way())
	m := t.set(now, s, present, s.From)
	if different(s.Before, s.After) { // perhaps that is why
		t.since, t.another = s.At, true
	}
	t.fell = &before
	return m
}

// compare notes that traffic has become another one, once two parts say so, and returns what was
// delivered before; nil where it has not.
func (t *Tuner) compare(now time.Time) *Delivered {
	alike := min(t.meter.alike-fresh, settled)
	if alike < fresh {
		return nil
	}
	before := t.meter.last(alike, fresh)
	if !different(before, t.meter.last(fresh, 0)) {
		return nil
	}
	t.since, t.another = now.Add(-fresh*t.rules.part()), true
	t.meter.alike = fresh
	t.askAt = now
	t.drop()
	return &before
}

// base is what the latest step is compared with: what was delivered before it and, in the hit rate,
// before the steps that led to it, those of the last day: else many a little would make a lot.
func (t *Tuner) base() Delivered {
	last := t.last()
	base, at := last.Before, last.From
	for i := len(t.steps) - 2; i >= 0; i-- {
		s := &t.steps[i]
		if s.Fate == TakenBack || s.Setting != last.Setting {
			continue
		}
		if s.Fate != Kept || s.To != at || last.At.Sub(s.At) > remembered || s.At.Before(t.since) {
			break
		}
		at = s.From
		if s.Before.HitRate > base.HitRate {
			base.HitRate, base.Error = s.Before.HitRate, s.Before.Error
		}
	}
	return base
}

// proceed makes a step where advice says so, or asks for advice.
func (t *Tuner) proceed(now time.Time, present router.Config) Move {
	if t.advice != nil {
		a := t.advice
		t.advice = nil
		if same(a.of, present) && t.meter.alike > 0 {
			return t.follow(now, present, a.all)
		}
	}
	switch {
	case t.asking:
		t.doing = "advice is being made"
	case t.meter.alike < t.needed():
		t.doing = fmt.Sprintf("observing what is delivered: part %d of %d, %d of %d answers", t.meter.alike+1, t.needed(), min(t.meter.current.answers, minAnswers), minAnswers)
	case now.Before(t.askAt):
		t.doing = "resting until " + t.askAt.UTC().Format(time.RFC3339)
		if t.words != "" {
			t.doing += ": " + t.words
		}
	default:
		t.asking = true
		return Move{Ask: true, Since: t.since}
	}
	return Move{}
}

// needed is how many parts a step is compared with.
func (t *Tuner) needed() int {
	if t.another {
		return fresh
	}
	return settled
}

// follow makes a step of advice, where there is one to make.
func (t *Tuner) follow(now time.Time, present router.Config, all []Proposal) Move {
	var best *Proposal
	for i := range all {
		p := &all[i]
		from := value(present, p.Setting)
		if p.worthwhile() && p.To != from && !now.Before(t.rests[way{p.Setting, p.To > from}].until) && (best == nil || p.gain() > best.gain()) {
			best = p
		}
	}
	if best == nil {
		t.askAt, t.words = now.Add(rest*t.rules.Observation), "nothing is worth a step"
		return Move{}
	}
	s := Step{Setting: best.Setting, At: moment(now), Fate: Watched, Before: t.meter.last(min(t.meter.alike, settled), 0)}
	t.another, t.words = false, ""
	s.From = s.of(present)
	s.To = toward(s.From, best.To)
	s.Why = fmt.Sprintf("%d is advised: %s", best.To, best.Why)
	t.push(s)
	t.own = true
	return t.set(now, &s, present, s.To)
}

// toward is the next value on the way from one to another.
func toward(from, to int) int { return min(max(to, (from+stepFactor-1)/stepFactor), from*stepFactor) }

// set has a setting changed, because of a step.
func (t *Tuner) set(now time.Time, s *Step, present router.Config, v int) Move {
	t.expected = with(present, s.Setting, v)
	t.meter.restart(now)
	t.drop()
	t.fell = nil
	t.doing = fmt.Sprintf("%s was set to %d", s.Setting, v)
	return Move{Step: new(*s), Config: t.expected, Set: true}
}

// retire lets a way rest, for longer each time.
func (t *Tuner) retire(now time.Time, w way) {
	r := t.rests[w]
	r.until = now.Add(rest * t.rules.Observation << r.times)
	r.times = min(r.times+1, mostRests)
	t.rests[w] = r
	t.askAt = now
}

// moment is a time as it is shared, by which others know a step again.
func moment(now time.Time) time.Time { return time.UnixMilli(now.UnixMilli()) }

// push remembers a step.
func (t *Tuner) push(s Step) {
	if len(t.steps) == maxSteps {
		t.steps = slices.Delete(t.steps, 0, 1)
	}
	t.steps = append(t.steps, s)
}

// last is the latest step, nil where there is none.
func (t *Tuner) last() *Step {
	if len(t.steps) == 0 {
		return nil
	}
	return &t.steps[len(t.steps)-1]
}
