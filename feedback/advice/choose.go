package advice

import (
	"math"
	"slices"

	"github.com/warmroute/warmroute/router"
)

const (
	// pointOfHits is how much hit rate, 0..1, one setting may cost: half a point, so that both
	// together cost no more than a point.
	pointOfHits = 0.005
	// shareOfP90 is what part of a P90 one setting may cost: both together, a twentieth.
	shareOfP90 = 0.025
	// alike is what part of a P90 is so little that an operator's habits decide.
	alike = 0.01
	// unfelt is how much of a P90, in seconds, nobody feels, whatever part of it that is: less than an
	// engine's step.
	unfelt = 0.005
	// soundP90 is how many times the lowest P90 is no price for any hit rate: where a few backends
	// get nearly all of the traffic, hits are many and waits are long.
	soundP90 = 1.5
	// noneServed is how many more requests may go unserved than with the best value: 1 of 1,000.
	noneServed = 0.001
)

// sound are the values with which about as many requests get an answer as with any, and not much
// later.
func (c *curve) sound() []Value {
	unserved, p90 := math.Inf(1), math.Inf(1)
	for _, v := range c.tried {
		unserved = min(unserved, c.outcome(v).Unserved)
	}
	served := c.among(c.tried, func(v Value) bool { return c.outcome(v).Unserved <= unserved+noneServed })
	for _, v := range served {
		p90 = min(p90, c.seconds(v))
	}
	return c.among(served, func(v Value) bool { return c.seconds(v) <= soundP90*p90 })
}

func (c *curve) among(values []Value, keep func(Value) bool) []Value {
	var kept []Value
	for _, v := range values {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// good are the sound values that cost next to none of the best hit rate among these, and fastest
// is that of them with the lowest P90.
func (c *curve) good() (good []Value, fastest Value) {
	sound := c.sound()
	most := 0.0
	for _, v := range sound {
		most = max(most, c.outcome(v).HitRate)
	}
	good = c.among(sound, func(v Value) bool { return c.outcome(v).HitRate >= most-pointOfHits })
	fastest = slices.MinFunc(good, func(a, b Value) int { return sign(c.seconds(a) - c.seconds(b)) })
	return good, fastest
}

func sign(x float64) int {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	}
	return 0
}

// seconds is the P90 with a value.
func (c *curve) seconds(v Value) float64 { return c.outcome(v).P90.Seconds() }

// smallest is the smallest of the good values that cost next to nothing of the best P90; and, as
// the intervals say, surely no more than twice what one setting may cost: where traffic proves
// little, it is a larger one.
func (c *curve) smallest() Value {
	good, fastest := c.good()
	return slices.MinFunc(c.among(good, func(v Value) bool {
		cost := c.change(fastest, v)
		return cost.P90.Estimate <= shareOfP90 && cost.P90.High <= 2*shareOfP90 && cost.HitRate.Low >= -2*pointOfHits
	}), Value.compare)
}

// usual is, of the good values of the lowest P90, the one nearest to the default.
func (c *curve) usual() Value {
	good, fastest := c.good()
	usual := float64(router.DefaultConfig().ConcurrencyThreshold)
	distance := func(v Value) float64 { return math.Abs(math.Log(v.Number / usual)) }
	return slices.MinFunc(c.among(good, func(v Value) bool {
		return c.seconds(v) <= (1+alike)*c.seconds(fastest)
	}), func(a, b Value) int { return sign(distance(a) - distance(b)) })
}

// Verdict is what to do about a setting.
type Verdict string

// The verdicts.
const (
	// Set: the advised value is surely better than the present one.
	Set Verdict = "set"
	// Keep: the present value does as well as any.
	Keep Verdict = "keep"
	// Flat: no value that was tried makes a difference.
	Flat Verdict = "flat"
	// Unsure: another value looks better, and the requests do not prove it.
	Unsure Verdict = "unsure"
)

// judge says what to do, given the value that the rule prefers.
func (c *curve) judge(present, preferred Value) Verdict {
	good, fastest := c.good()
	fine := func(v Value) bool {
		return slices.Contains(good, v) && c.seconds(v) <= max((1+shareOfP90)*c.seconds(fastest), c.seconds(fastest)+unfelt)
	}
	switch {
	case !slices.ContainsFunc(c.tried, func(v Value) bool { return !fine(v) }):
		return Flat
	case fine(present):
		return Keep
	}
	gain := c.change(present, preferred)
	if gain.HitRate.Low > 0 || gain.P90.High < 0 || c.outcome(present).Unserved > c.outcome(preferred).Unserved+noneServed {
		return Set
	}
	return Unsure
}

// better reports whether one world is better than another, by what decides between the values of
// one knob.
func (s *sweep) better(a, b world) bool {
	x, y := s.find(a), s.find(b)
	slower := x.P90.Seconds() / max(y.P90.Seconds(), 1e-9)
	switch {
	case math.Abs(x.Unserved-y.Unserved) > noneServed:
		return x.Unserved < y.Unserved
	case slower > soundP90 || slower < 1/soundP90:
		return slower < 1
	case math.Abs(x.HitRate-y.HitRate) > pointOfHits:
		return x.HitRate > y.HitRate
	}
	return slower < 1-shareOfP90
}
