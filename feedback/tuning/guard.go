package tuning

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/router"
)

// guard takes back what was kept where the hit rate falls, unless it was raised by that itself.
// Another is what was delivered before traffic became another one just now, nil where it has not.
func (t *Tuner) guard(now time.Time, present router.Config, another *Delivered) (Move, bool) {
	before, after, margin := t.fall(another)
	if before.HitRate-after.HitRate <= fallOfHits+margin*before.with(after) {
		return Move{}, false
	}
	first := t.suspect(present)
	if first == nil {
		return Move{}, false
	}
	back := Step{
		Setting: first.Setting, From: first.of(present), To: first.From, Back: true, At: moment(now), Fate: Watched, Before: t.meter.last(fresh, 0),
		Why: fmt.Sprintf("the hit rate fell from %.1f %% to %.1f %%, and %s %d was kept when requests were others",
			100*before.HitRate, 100*after.HitRate, first.Setting, first.of(present)),
	}
	for i := len(t.steps) - 1; ; i-- {
		s := &t.steps[i]
		if s.Fate == Kept {
			s.Fate = TakenBack
		}
		if s == first {
			break
		}
	}
	t.retire(now, way{first.Setting, back.From > back.To})
	t.push(back)
	t.own = true
	return t.set(now, &back, present, back.To), true
}

// fall is between what there may be a fall of the hit rate: two traffics, what was delivered before a
// step that was just taken back and without it, or two times that follow each other. It is one beyond
// so many standard errors; as with a step, at the end of an observation none are asked for.
func (t *Tuner) fall(another *Delivered) (before, after Delivered, errors float64) {
	switch n := t.meter.n; {
	case another != nil:
		return *another, t.meter.last(fresh, 0), certain
	case t.fell != nil && n >= fresh && n < parts:
		return *t.fell, t.meter.last(n-1, 0), certain
	case t.fell != nil && n == parts:
		return *t.fell, t.meter.last(settled, 0), 0
	case n > 2*settled:
		return t.meter.last(settled, settled+1), t.meter.last(settled, 0), certain
	}
	return before, after, 0
}

// suspect is the first of the latest steps of one setting that were kept one after the other and
// raised the hit rate no more than a fall is allowed to cost; nil where there is none.
func (t *Tuner) suspect(present router.Config) *Step {
	var first *Step
	for i := len(t.steps) - 1; i >= 0; i-- {
		s := &t.steps[i]
		if s.Fate == TakenBack {
			continue
		}
		if s.Fate != Kept || s.Back || s.After.HitRate-s.Before.HitRate > fallOfHits {
			break
		}
		if first == nil && s.of(present) != s.To || first != nil && (s.Setting != first.Setting || s.To != first.From) {
			break
		}
		first = s
	}
	if first != nil && first.From == first.of(present) {
		return nil // they led nowhere
	}
	return first
}
