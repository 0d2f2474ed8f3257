package workload

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Bounds of one request, and of the time that a workload goes over: what exceeds them is a
// mistake and not a workload.
const (
	maxTokens = 1 << 24
	maxSpan   = 366 * 24 * time.Hour
	// maxStream bounds a prompt in bytes.
	maxStream = 1 << 30
	// maxGenerated bounds the requests of a generated workload, maxUsers who ask at once.
	maxGenerated = 10_000_000
	maxUsers     = 1_000_000
)

// firstWrong is the first error of the fields of a workload's configuration.
func firstWrong(workload string, fields ...error) error {
	if err := cmp.Or(fields...); err != nil {
		return fmt.Errorf("%s: %w", workload, err)
	}
	return nil
}

// within refuses a field whose value is out of bounds or no number.
func within[T int | float64 | time.Duration](field string, value, least, most T) error {
	if value >= least && value <= most {
		return nil
	}
	return fmt.Errorf("%s: must be in %v..%v, is %v", field, least, most, value)
}

// checkArrivals refuses a rate of requests, for a duration, that makes no sense.
func checkArrivals(rate float64, duration time.Duration, load float64) error {
	if err := cmp.Or(within("rate", rate, 1e-6, 1e6), within("duration", duration, 1, maxSpan), checkLoad(load)); err != nil {
		return err
	}
	if n := rate * loadFactor(load) * duration.Seconds(); n > maxGenerated {
		return fmt.Errorf("rate: %v, with load and duration, is %.0f requests, and %d can be had", rate, n, maxGenerated)
	}
	return nil
}

// checkUsers refuses a number of users that makes no sense.
func checkUsers(users int, load float64) error {
	return cmp.Or(
		within("users", users, 0, maxUsers),
		checkLoad(load),
		within("users, with load,", loadedUsers(users, load), 0, maxUsers),
	)
}

// loadedUsers is how many users there are under a load, at least 1 of any.
func loadedUsers(users int, load float64) int {
	return max(int(math.Round(float64(users)*loadFactor(load))), min(users, 1))
}

// checkTokens refuses a length that is missing or makes no sense.
func checkTokens(field string, tokens *int, least int) error {
	switch {
	case tokens == nil:
		return fmt.Errorf("%q is missing", field)
	case *tokens < least || *tokens > maxTokens:
		return fmt.Errorf("%q: %d tokens are not in %d..%d", field, *tokens, least, maxTokens)
	}
	return nil
}

// toTime returns a recorded length of time, a number of units.
func toTime(field string, value *float64, unit time.Duration) (time.Duration, error) {
	if value == nil {
		return 0, fmt.Errorf("%q is missing", field)
	}
	if most := float64(maxSpan / unit); !(*value >= 0 && *value <= most) {
		return 0, fmt.Errorf("%q: %v is not in 0..%v, a year", field, *value, most)
	}
	return time.Duration(*value * float64(unit)), nil
}

// recordedClock is the clock of a trace. It begins at the first time that was read, whatever
// that is: some traces count from their own beginning, others from 1970.
type recordedClock struct {
	running       bool
	first, latest float64 // in units
}

// read returns a recorded time, a number of units, from the first on. None is before the one
// before it.
func (c *recordedClock) read(field string, value *float64, unit time.Duration) (time.Duration, error) {
	if value == nil {
		return 0, fmt.Errorf("%q is missing", field)
	}
	if *value < 0 {
		return 0, fmt.Errorf("%q: %v is negative", field, *value)
	}
	if !c.running {
		c.running, c.first, c.latest = true, *value, *value
	}
	digits := func(units float64) string { return strconv.FormatFloat(units, 'f', -1, 64) }
	since, most := *value-c.first, float64(maxSpan/unit)
	switch {
	case *value < c.latest:
		return 0, fmt.Errorf("%q: %s is before %s, the time before it", field, digits(*value), digits(c.latest))
	case since > most:
		return 0, fmt.Errorf("%q: %s is more than a year (%s) after %s, the first", field, digits(*value), digits(most), digits(c.first))
	}
	c.latest = *value
	return time.Duration(since * float64(unit)), nil
}
