package tuning

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// begin is when every test begins.
var begin = time.Unix(1_700_000_000, 0) //nolint:gochecknoglobals // a constant

// drive is a pool and its traffic, looked after by a tuner.
type drive struct {
	t      *testing.T
	tuner  *Tuner
	now    time.Time
	rng    *rand.Rand
	config router.Config
	may    bool
	perSec int
	// delivers says what engines deliver, advises what is advised.
	delivers func(since time.Duration, c router.Config) Delivered
	advises  func(since time.Duration, c router.Config) []Proposal
	slow     bool // advice takes for ever
	told     []Step
	asked    []time.Duration
	below    time.Duration // how long the hit rate has lately been lower than without the tuner
	longest  time.Duration
}

const observation = 14 * time.Minute

func newDrive(t *testing.T, delivers func(time.Duration, router.Config) Delivered, advises func(time.Duration, router.Config) []Proposal) *drive {
	return &drive{
		t: t, tuner: New(Rules{observation}), now: begin, rng: rand.New(rand.NewPCG(1, 2)), config: router.DefaultConfig(),
		may: true, perSec: 5, delivers: delivers, advises: advises,
	}
}

// pass lets some time pass, by steps of a second; between two of them the tuner is asked.
func (d *drive) pass(length time.Duration) {
	initial := router.DefaultConfig()
	for end := d.now.Add(length); d.now.Before(end); d.now = d.now.Add(time.Second) {
		world := d.delivers(d.now.Sub(begin), d.config)
		if world.HitRate < d.delivers(d.now.Sub(begin), initial).HitRate-fallOfHits {
			d.below += time.Second
			d.longest = max(d.longest, d.below)
		} else {
			d.below = 0
		}
		for range d.perSec {
			r := feedback.Record{Streamed: true, TTFT: time.Duration(float64(world.P90) * (0.4 + 0.66*d.rng.Float64()))}
			r.Usage = feedback.Usage{Prompt: 1000, HasPrompt: true, HasCached: true, Cached: int(1000 * world.HitRate * 2 * d.rng.Float64())}
			if r.Usage.Cached > 1000 {
				r.Usage.Cached = 1000
			}
			if d.rng.Float64() < world.Unserved {
				r = feedback.Record{Result: feedback.Saturated}
			}
			d.tuner.Add(&r)
		}
		d.look()
	}
}

func (d *drive) look() {
	m := d.tuner.Look(d.now, d.config, d.may)
	if m.Ask {
		d.asked = append(d.asked, d.now.Sub(begin))
		if !d.slow {
			d.tuner.Advised(d.now, d.config, d.advises(d.now.Sub(begin), d.config), "")
		}
	}
	if m.Step != nil {
		d.told = append(d.told, *m.Step)
	}
	if m.Set {
		if err := m.Config.Validate(); err != nil {
			d.t.Errorf("set: %v", err)
		}
		d.config = m.Config
	}
}

// wants is advice to set one setting.
func wants(setting Setting, v int) func(time.Duration, router.Config) []Proposal {
	return func(time.Duration, router.Config) []Proposal {
		return []Proposal{{Setting: setting, To: v, HitRate: .05, Why: "it is"}}
	}
}

// steady is traffic of which a larger setting brings more.
func steady(_ time.Duration, c router.Config) Delivered {
	return Delivered{HitRate: 0.2 + 0.03*math.Log2(float64(c.HashLength())/1024), P90: time.Second}
}

// One step of four times as much follows the other, each an observation after the one before it,
// and then there is rest.
func TestStepByStep(t *testing.T) {
	d := newDrive(t, steady, wants(PrefixLength, 30_000))
	d.config.PrefixLength = 1024
	d.pass(2 * time.Hour)
	var made []int
	var at []time.Duration
	for _, s := range d.told {
		if s.Fate == Watched {
			made, at = append(made, s.To), append(at, s.At.Sub(begin).Round(time.Minute))
		}
	}
	if diff := cmp.Diff([]int{4096, 16384, 30_000}, made); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]time.Duration{10 * time.Minute, 22 * time.Minute, 34 * time.Minute}, at); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
	for _, s := range d.tuner.Status().Steps {
		if s.Fate != Kept || s.After.HitRate < s.Before.HitRate+0.01 || s.After.Answers < 2000 || s.Why == "" {
			t.Errorf("%+v", s)
		}
	}
	// After the last one: asked once more, and then every four observations.
	if n := len(d.asked); n < 5 || n > 6 {
		t.Errorf("asked %d times: %v", n, d.asked)
	}
}

// What does harm is taken back within an observation, and is not tried again for a while, which
// gets longer.
func TestHarmIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		before, after Delivered
		says          string
		within        time.Duration
	}{
		"hits, a little":   {Delivered{HitRate: .5, P90: time.Second}, Delivered{HitRate: .46, P90: time.Second}, "the hit rate fell from 5", observation},
		"hits, a lot":      {Delivered{HitRate: .5, P90: time.Second}, Delivered{HitRate: .2, P90: time.Second}, "the hit rate fell", observation / 2},
		"waiting, a third": {Delivered{HitRate: .5, P90: time.Second}, Delivered{HitRate: .5, P90: 1400 * time.Millisecond}, "the P90 of the time to first token rose from", observation},
		"waiting, a lot":   {Delivered{HitRate: .5, P90: time.Second}, Delivered{HitRate: .5, P90: 3 * time.Second}, "the P90", observation / 2},
		"refusals":         {Delivered{HitRate: .5, P90: time.Second}, Delivered{HitRate: .5, P90: time.Second, Unserved: .1}, "of the requests were not served, and 0.0 % before", observation / 2},
	} {
		d := newDrive(t, func(_ time.Duration, r router.Config) Delivered {
			if r.ConcurrencyThreshold < 128 {
				return c.after
			}
			return c.before
		}, wants(ConcurrencyThreshold, 8))
		d.perSec = 20
		d.pass(10*time.Minute + 10*time.Second)
		if d.config.ConcurrencyThreshold != 32 {
			t.Errorf("%s: nothing was set: %d", name, d.config.ConcurrencyThreshold)
		}
		d.pass(c.within)
		if d.config.ConcurrencyThreshold != 128 {
			t.Errorf("%s: it was not taken back within %v", name, c.within)
		}
		last := d.told[len(d.told)-1]
		if last.Fate != TakenBack || !strings.Contains(last.Why, c.says) {
			t.Errorf("%s: %+v", name, last)
		}
		d.pass(12 * time.Hour)
		var at []time.Duration
		for _, s := range d.told {
			if s.Fate == Watched {
				at = append(at, s.At.Sub(begin))
			}
		}
		for i, want := range []time.Duration{rest * observation, 2 * rest * observation, 4 * rest * observation} {
			if len(at) < i+2 || at[i+1]-at[i] < want || at[i+1]-at[i] > want+6*observation {
				t.Errorf("%s: tried at %v", name, at)
				break
			}
		}
		if d.config.ConcurrencyThreshold != 128 || d.longest > observation {
			t.Errorf("%s: at the end %d; the hit rate was lower for %v", name, d.config.ConcurrencyThreshold, d.longest)
		}
	}
}

// What makes no difference is kept, also in traffic that fluctuates.
func TestFluctuation(t *testing.T) {
	d := newDrive(t, func(since time.Duration, _ router.Config) Delivered {
		return Delivered{HitRate: .5 + .01*math.Sin(since.Minutes()), P90: time.Duration(float64(time.Second) * (1 + .1*math.Sin(since.Minutes()/3)))}
	}, wants(ConcurrencyThreshold, 16))
	d.pass(time.Hour)
	if d.config.ConcurrencyThreshold != 16 {
		t.Errorf("%d: %+v", d.config.ConcurrencyThreshold, d.told)
	}
}

// Every step costs less than what a step may cost, and together they cost more: it ends in time.
func TestManyALittle(t *testing.T) {
	d := newDrive(t, func(_ time.Duration, c router.Config) Delivered {
		return Delivered{HitRate: .6 - .014*math.Log2(float64(int(1<<20)/c.HashLength()))/2, P90: time.Second}
	}, wants(PrefixLength, 1024))
	d.perSec = 40
	d.pass(12 * time.Hour)
	if hits := d.delivers(0, d.config).HitRate; hits < .6-1.5*fallOfHits { // 2 points, and what chance adds
		t.Errorf("%d, at %.1f %% instead of 60 %%", d.config.HashLength(), 100*hits)
	}
}

// Traffic changes after steps were kept, and what was good is bad now: it is taken back, all of
// it, although advice never says so.
func TestTrafficChanges(t *testing.T) {
	d := newDrive(t, func(since time.Duration, c router.Config) Delivered {
		if since > 90*time.Minute && c.HashLength() < 1<<20 {
			return Delivered{HitRate: .4, P90: time.Second}
		}
		return Delivered{HitRate: .6, P90: time.Second}
	}, nil)
	d.advises = func(since time.Duration, c router.Config) []Proposal {
		if since > 90*time.Minute {
			return wants(PrefixLength, c.HashLength())(since, c)
		}
		return wants(PrefixLength, 65_536)(since, c)
	}
	d.pass(90 * time.Minute)
	if d.config.HashLength() != 65_536 {
		t.Fatalf("%d: %+v", d.config.HashLength(), d.told)
	}
	d.pass(observation + time.Second)
	if d.config.HashLength() != 1<<20 || d.longest > observation {
		t.Errorf("%d: the hit rate was lower for %v", d.config.HashLength(), d.longest)
	}
	d.pass(2 * time.Hour)
	if d.config.HashLength() != 1<<20 {
		t.Errorf("%d: %+v", d.config.HashLength(), d.told[len(d.told)-1])
	}
	steps := d.tuner.Status().Steps
	if !steps[0].Back || steps[0].Fate != Kept || steps[1].Fate != TakenBack || steps[2].Fate != TakenBack {
		t.Errorf("%+v", steps)
	}
}

// Traffic changes, and nothing that was set is to blame: where it is worse without, it is undone;
// and what brought hits is not touched.
func TestTrafficChangesByItself(t *testing.T) {
	d := newDrive(t, func(since time.Duration, c router.Config) Delivered {
		world := Delivered{HitRate: .6, P90: time.Second}
		if since > 90*time.Minute {
			world.HitRate = .4
			if c.ConcurrencyThreshold == 128 {
				world.HitRate = .3
			}
		}
		return world
	}, wants(ConcurrencyThreshold, 32))
	d.pass(95 * time.Minute)
	if d.config.ConcurrencyThreshold != 128 {
		t.Fatalf("%d: it is not tried without", d.config.ConcurrencyThreshold)
	}
	d.pass(observation + time.Second)
	if d.config.ConcurrencyThreshold != 32 {
		t.Errorf("%d: %+v", d.config.ConcurrencyThreshold, d.told)
	}
	d.pass(3 * time.Hour)
	if d.config.ConcurrencyThreshold != 32 {
		t.Errorf("%d: %+v", d.config.ConcurrencyThreshold, d.told)
	}

	d = newDrive(t, func(since time.Duration, c router.Config) Delivered {
		world := steady(since, c)
		if since > 90*time.Minute {
			world.HitRate /= 2
		}
		return world
	}, wants(PrefixLength, 65_536))
	d.config.PrefixLength = 1024
	d.pass(4 * time.Hour)
	if d.config.HashLength() != 65_536 || len(d.told) != 6 {
		t.Errorf("%d: %+v", d.config.HashLength(), d.told)
	}
}

// Who changes how the pool is routed is right.
func TestSomebodyElse(t *testing.T) {
	d := newDrive(t, steady, wants(PrefixLength, 30_000))
	d.config.PrefixLength = 1024
	d.pass(15 * time.Minute)
	if d.config.PrefixLength != 4096 {
		t.Fatal(d.config.PrefixLength)
	}
	d.config.PrefixLength = 2048
	d.pass(time.Second)
	if last := d.told[len(d.told)-1]; last.Fate != Overridden || !strings.Contains(last.Why, "somebody") {
		t.Errorf("%+v", last)
	}
	d.pass(rest*observation - time.Minute)
	if d.config.PrefixLength != 2048 {
		t.Errorf("it was changed to %d", d.config.PrefixLength)
	}
	d.pass(2 * time.Hour)
	if d.config.PrefixLength != 30_000 {
		t.Errorf("for ever %d", d.config.PrefixLength)
	}
}

// Who does so before anything was done is right too.
func TestSomebodyElseFirst(t *testing.T) {
	d := newDrive(t, steady, wants(PrefixLength, 30_000))
	d.pass(5 * time.Minute)
	d.config.PrefixLength = 1024
	d.pass(rest*observation - time.Minute)
	if d.config.PrefixLength != 1024 {
		t.Errorf("it was changed to %d", d.config.PrefixLength)
	}
	d.pass(observation / 2)
	if d.config.PrefixLength != 4096 {
		t.Errorf("for ever %d", d.config.PrefixLength)
	}
}

// Advice that was being made when somebody changed how the pool is routed is not followed, whichever
// routing it is on.
func TestLateAdvice(t *testing.T) {
	for _, changed := range []bool{false, true} {
		d := newDrive(t, steady, wants(PrefixLength, 30_000))
		d.config.PrefixLength, d.slow = 1024, true
		d.pass(11 * time.Minute)
		of := d.config
		d.config.W = 3
		d.pass(time.Second)
		if changed {
			of = d.config
		}
		d.tuner.Advised(d.now, of, wants(PrefixLength, 30_000)(0, of), "")
		d.slow = false
		d.pass(rest*observation - time.Minute)
		if len(d.asked) != 1 || len(d.told) > 0 {
			t.Errorf("changed %v: asked at %v, told %+v", changed, d.asked, d.told)
		}
		d.pass(observation / 2)
		if len(d.told) != 1 || d.told[0].Before.Answers == 0 {
			t.Errorf("changed %v: then told %+v", changed, d.told)
		}
	}
}

// Traffic changes while the second or third step of some is watched, which was right before: all
// are taken back, whether or not advice says so.
func TestTrafficChangesWhileWatched(t *testing.T) {
	for _, advised := range []bool{true, false} {
		for at := 18 * time.Minute; at < 60*time.Minute; at += 3 * time.Minute {
			d := newDrive(t, func(since time.Duration, c router.Config) Delivered {
				if since > at && c.HashLength() < router.MaxPrefixLength {
					return Delivered{HitRate: .4, P90: time.Second}
				}
				return Delivered{HitRate: .6, P90: time.Second}
			}, nil)
			d.advises = func(since time.Duration, c router.Config) []Proposal {
				switch {
				case since < at:
					return wants(PrefixLength, 16_384)(since, c)
				case advised:
					return wants(PrefixLength, router.MaxPrefixLength)(since, c)
				}
				return nil
			}
			d.pass(at + 3*observation)
			if d.longest > observation || d.config.HashLength() != router.MaxPrefixLength {
				t.Errorf("after %v, advised %v: the hit rate was lower for %v, at the end %d", at, advised, d.longest, d.config.HashLength())
			}
		}
	}
}

// A step that has nobody served any more is taken back, although no answer says anything of it.
func TestNobodyIsServed(t *testing.T) {
	d := newDrive(t, func(_ time.Duration, c router.Config) Delivered {
		if c.ConcurrencyThreshold < router.DefaultConfig().ConcurrencyThreshold {
			return Delivered{Unserved: 1}
		}
		return Delivered{HitRate: .5, P90: time.Second}
	}, wants(ConcurrencyThreshold, 8))
	d.pass(10*time.Minute + 10*time.Second)
	if d.config.ConcurrencyThreshold != 32 {
		t.Fatalf("nothing was set: %d", d.config.ConcurrencyThreshold)
	}
	d.pass(observation)
	if last := d.told[len(d.told)-1]; d.config.ConcurrencyThreshold != 128 || !strings.Contains(last.Why, "taken back: 100.0 % of the requests were not served") {
		t.Errorf("%d: %+v", d.config.ConcurrencyThreshold, last)
	}
}

// Without reports of cached tokens, and with too few answers, nothing is done.
func TestNothingKnown(t *testing.T) {
	d := newDrive(t, steady, wants(PrefixLength, 30_000))
	d.perSec = 0
	d.config.PrefixLength = 1024
	for range 3600 {
		d.tuner.Add(&feedback.Record{Usage: feedback.Usage{Prompt: 100, HasPrompt: true}})
		d.pass(time.Second)
	}
	if len(d.asked) > 0 || !strings.Contains(d.tuner.Status().Doing, "0 of 100 answers") {
		t.Errorf("asked %v; %s", d.asked, d.tuner.Status().Doing)
	}
}

// Of two routers one acts; the other one takes over when it is gone, with the step that was made.
func TestTwoRouters(t *testing.T) {
	bad := func(_ time.Duration, c router.Config) Delivered {
		if c.ConcurrencyThreshold < 128 {
			return Delivered{HitRate: .3, P90: time.Second}
		}
		return Delivered{HitRate: .5, P90: time.Second}
	}
	a, b := newDrive(t, bad, wants(ConcurrencyThreshold, 8)), newDrive(t, bad, wants(ConcurrencyThreshold, 8))
	b.may = false
	for range 10*60 + 5 {
		a.pass(time.Second)
		b.pass(time.Second)
	}
	if a.config.ConcurrencyThreshold != 32 || len(b.told)+len(b.asked) > 0 || b.tuner.Status().Doing != "another router acts" {
		t.Fatalf("%d; the other: %+v, %s", a.config.ConcurrencyThreshold, b.told, b.tuner.Status().Doing)
	}
	step, err := ParseStep(a.told[0].String())
	if err != nil {
		t.Fatal(err)
	}
	b.tuner.Adopt(step)
	b.config = a.config
	b.pass(time.Minute)
	if steps := b.tuner.Status().Steps; len(steps) != 1 || steps[0].Fate != Watched {
		t.Errorf("%+v", steps)
	}
	b.may = true // the first one is gone
	b.pass(observation)
	if b.config.ConcurrencyThreshold != 128 || b.told[0].Fate != TakenBack {
		t.Errorf("%d: %+v", b.config.ConcurrencyThreshold, b.told)
	}
	// What is said again changes nothing.
	b.tuner.Adopt(step)
	if steps := b.tuner.Status().Steps; steps[0].Fate != TakenBack || len(steps) != 1 {
		t.Errorf("%+v", steps)
	}
}

// What another router has made of a step that was made here is known, to the fraction of a second
// that is shared; and a step of one whose clock is behind is a later one all the same.
func TestOthersTakeBack(t *testing.T) {
	a := newDrive(t, steady, wants(ConcurrencyThreshold, 8))
	a.now = a.now.Add(123_456_789)
	a.pass(10*time.Minute + 5*time.Second)
	other, err := ParseStep(a.told[0].String())
	if err != nil {
		t.Fatal(err)
	}
	other.Fate = TakenBack
	a.tuner.Adopt(other)
	a.config.ConcurrencyThreshold = other.From
	a.may = false
	a.pass(time.Second)
	if steps := a.tuner.Status().Steps; len(a.told) != 1 || len(steps) != 1 || steps[0].Fate != TakenBack {
		t.Errorf("told %+v: %+v", a.told, steps)
	}
	behind := &Step{Setting: PrefixLength, From: 4096, To: 1024, At: begin, Fate: Watched}
	a.tuner.Adopt(behind)
	if steps := a.tuner.Status().Steps; len(steps) != 2 || steps[0].To != 1024 {
		t.Errorf("%+v", steps)
	}
}

// Every request comes by.
func TestAddDoesNotAllocate(t *testing.T) {
	tuner := New(Rules{observation})
	r := &feedback.Record{Streamed: true, TTFT: time.Second, Usage: feedback.Usage{Prompt: 10, HasPrompt: true, HasCached: true}}
	if n := testing.AllocsPerRun(100, func() { tuner.Add(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A router that does not act any more ends what it began.
func TestDeposed(t *testing.T) {
	d := newDrive(t, func(_ time.Duration, c router.Config) Delivered {
		if c.ConcurrencyThreshold < 128 {
			return Delivered{HitRate: .3, P90: time.Second}
		}
		return Delivered{HitRate: .5, P90: time.Second}
	}, wants(ConcurrencyThreshold, 8))
	d.pass(10*time.Minute + 5*time.Second)
	d.may = false
	d.pass(observation)
	if d.config.ConcurrencyThreshold != 128 {
		t.Errorf("%d: %s", d.config.ConcurrencyThreshold, d.tuner.Status().Doing)
	}
	d.pass(6 * time.Hour)
	if len(d.told) != 2 {
		t.Errorf("%+v", d.told)
	}
}

func TestRules(t *testing.T) {
	for observation, good := range map[time.Duration]bool{0: false, MinObservation: true, MinObservation - 1: false, DefaultObservation: true, MaxObservation: true, MaxObservation + 1: false} {
		if err := (Rules{observation}).Validate(); (err == nil) != good {
			t.Errorf("%v: %v", observation, err)
		}
	}
}

// The figures are those of what was added.
func TestDelivered(t *testing.T) {
	var p part
	for i := range 1000 {
		p.add(&feedback.Record{
			Streamed: true, TTFT: time.Duration(i+1) * time.Millisecond,
			Usage: feedback.Usage{Prompt: 100, HasPrompt: true, Cached: 100 * (i % 2), HasCached: true},
		})
	}
	p.add(&feedback.Record{Result: feedback.NoBackend})
	got := p.delivered()
	if got.HitRate != .5 || math.Abs(got.Error-.5/math.Sqrt(1000)) > 1e-9 || got.Answers != 1000 || math.Abs(got.Unserved-1./1001) > 1e-9 {
		t.Errorf("%+v", got)
	}
	if math.Abs(got.P90.Seconds()/.9-1) > bucketWidth-1 {
		t.Errorf("P90 %v", got.P90)
	}
	var sum part
	sum.join(&p)
	if diff := cmp.Diff(got, sum.delivered()); diff != "" {
		t.Error(diff)
	}
	if empty := new(part).delivered(); empty != (Delivered{}) {
		t.Errorf("of nothing: %+v", empty)
	}
}

func TestStepText(t *testing.T) {
	s := &Step{
		Setting: ConcurrencyThreshold, From: 1024, To: 256, Back: true, At: time.UnixMilli(1_700_000_000_123), Fate: Watched,
		Before: Delivered{HitRate: 0.512345, Error: 0.00123, P90: 1234567890, Unserved: 0.001},
	}
	if len(s.String()) > 256 {
		t.Errorf("%d bytes", len(s.String()))
	}
	got, err := ParseStep(s.String())
	if diff := cmp.Diff(s, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func FuzzParseStep(f *testing.F) {
	f.Add((&Step{Setting: PrefixLength, From: 1024, To: 4096, At: begin, Fate: Kept}).String())
	f.Add("kept concurrency_threshold 4 16 true 1 NaN 0 -1 0")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStep(text)
		if err != nil {
			return
		}
		again, err := ParseStep(s.String())
		if err != nil || *again != *s {
			t.Errorf("%q: %+v, then %+v: %v", text, s, again, err)
		}
		for _, v := range []int{s.From, s.To} {
			if err := with(router.DefaultConfig(), s.Setting, v).Validate(); err != nil {
				t.Error(err)
			}
		}
	})
}
