package report

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// axis maps values to a part 0..1 of a plot's width or height.
type axis struct {
	label       string
	least, most float64
	logarithmic bool
	ticks       []tick
}

// tick is a value with a mark and a label on its axis.
type tick struct {
	at   float64
	text string
}

// place is where a value lies, 0..1.
func (a *axis) place(value float64) float64 {
	least, most := a.least, a.most
	if a.logarithmic {
		value, least, most = math.Log(max(value, a.least)), math.Log(least), math.Log(most)
	}
	if most == least {
		return 0.5
	}
	return min(max((value-least)/(most-least), 0), 1)
}

// shareAxis goes from 0 to at least a share.
func shareAxis(label string, most float64) axis {
	a := axis{label: label, most: math.Min(1, most)}
	step := roundStep(a.most / 5)
	a.most = math.Min(1, step*math.Ceil(a.most/step-1e-9))
	for i := 0; float64(i)*step <= a.most+1e-9; i++ {
		at := float64(i) * step
		a.ticks = append(a.ticks, tick{at, strconv.FormatFloat(100*at, 'g', 4, 64) + " %"})
	}
	return a
}

// secondsAxis covers some times in seconds; it is logarithmic where they differ much.
func secondsAxis(label string, least, most float64) axis {
	const much = 20
	least, most = max(least, 1e-4), max(most, 1e-3)
	if most/least > much {
		return logSecondsAxis(label, least, most)
	}
	a := axis{label: label}
	step := roundStep(most / 5)
	a.most = step * math.Ceil(most/step-1e-9)
	for i := 0; float64(i)*step <= a.most+1e-9; i++ {
		a.ticks = append(a.ticks, tick{float64(i) * step, secondsLabel(float64(i) * step)})
	}
	return a
}

// logSecondsAxis has a tick at 1, 2 and 5 of every decade.
func logSecondsAxis(label string, least, most float64) axis {
	a := axis{label: label, logarithmic: true}
	for decade := int(math.Floor(math.Log10(least))); ; decade++ {
		for _, digit := range []float64{1, 2, 5} {
			at := digit * math.Pow10(decade)
			if at <= least || a.least == 0 {
				a.least, a.ticks = at, nil
			}
			a.ticks = append(a.ticks, tick{at, secondsLabel(at)})
			if at >= most && at > a.least {
				a.most = at
				return a
			}
		}
	}
}

// timeAxis covers a length of virtual time from 0 on, in the largest unit that leaves it
// more than a few.
func timeAxis(length time.Duration) axis {
	const few = 3
	unit, name := time.Second, "s"
	switch {
	case length > few*time.Hour:
		unit, name = time.Hour, "h"
	case length > few*time.Minute:
		unit, name = time.Minute, "min"
	}
	a := axis{label: "time in " + name, most: max(length.Seconds(), 1e-3)}
	step := roundStep(a.most / unit.Seconds() / 6)
	for i := 0; float64(i)*step*unit.Seconds() <= a.most; i++ {
		a.ticks = append(a.ticks, tick{float64(i) * step * unit.Seconds(), strconv.FormatFloat(float64(i)*step, 'g', 4, 64)})
	}
	return a
}

// valuesAxis has a place for each of some values, in their order.
func valuesAxis(label string, values []string) axis {
	a := axis{label: label, least: -0.5, most: float64(len(values)) - 0.5}
	for i, v := range values {
		a.ticks = append(a.ticks, tick{float64(i), v})
	}
	return a
}

// roundStep is the next of 1, 2, 5, 10, 20, 50, … (and 0.5, 0.2, …) that is not below x.
func roundStep(x float64) float64 {
	if !(x > 0) {
		return 1
	}
	decade := math.Pow10(int(math.Floor(math.Log10(x))))
	for _, digit := range []float64{1, 2, 5} {
		if digit*decade >= x*(1-1e-9) {
			return digit * decade
		}
	}
	return 10 * decade
}

// secondsLabel says a round number of seconds in s or ms.
func secondsLabel(s float64) string {
	switch {
	case s == 0:
		return "0"
	case s < 0.9995:
		return fmt.Sprintf("%.4g ms", 1000*s)
	case s >= 1e4: // where %.4g begins to write powers of ten
		return fmt.Sprintf("%.0f s", s)
	}
	return fmt.Sprintf("%.4g s", s)
}
