package advice

import (
	"cmp"
	"strconv"

	"github.com/warmroute/warmroute/router"
)

// Knob is what is varied.
type Knob string

// The knobs, by the names that configuration has for them. Only of [PrefixLength] and
// [ConcurrencyThreshold] is a value advised.
const (
	PrefixLength         Knob = "prefix_length"
	ConcurrencyThreshold Knob = "concurrency_threshold"
	MinMatchRatio        Knob = "min_match_ratio"
	Strategy             Knob = "strategy"
	Backends             Knob = "backends"
)

// Knobs returns all knobs.
func Knobs() []Knob {
	return []Knob{PrefixLength, ConcurrencyThreshold, MinMatchRatio, Strategy, Backends}
}

// Value is a value of a knob: a name for [Strategy], else a number.
type Value struct {
	Name   string
	Number float64
}

// String returns the value as configuration spells it.
func (v Value) String() string {
	if v.Name != "" {
		return v.Name
	}
	return strconv.FormatFloat(v.Number, 'f', -1, 64)
}

func number[T int | float64](n T) Value { return Value{Number: float64(n)} }

// compare orders the values of one knob.
func (v Value) compare(o Value) int {
	return cmp.Or(cmp.Compare(v.Number, o.Number), cmp.Compare(v.Name, o.Name))
}

// world is what requests are played to: what the knobs turn.
type world struct {
	config   router.Config
	backends int
}

// with returns the world with another value of a knob.
func (w world) with(k Knob, v Value) world {
	switch k {
	case PrefixLength:
		w.config.PrefixLength = int(v.Number)
	case ConcurrencyThreshold:
		w.config.ConcurrencyThreshold = int(v.Number)
	case MinMatchRatio:
		w.config.MinMatchRatio = v.Number
	case Strategy:
		// A length that was never set stays the strategy's own.
		w.config.Strategy = v.Name
	case Backends:
		w.backends = int(v.Number)
	}
	return w
}

// value is the world's value of a knob, the one that is in force where none is set.
func (w world) value(k Knob) Value {
	switch k {
	case PrefixLength:
		return number(w.config.HashLength())
	case ConcurrencyThreshold:
		return number(w.config.ConcurrencyThreshold)
	case MinMatchRatio:
		return number(w.config.MinMatchRatio)
	case Strategy:
		return Value{Name: w.config.Strategy}
	case Backends:
	}
	return number(w.backends)
}
