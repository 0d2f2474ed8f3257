package tuning

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/feedback/advice"
	"github.com/warmroute/warmroute/router"
)

// Fate is what became of a step.
type Fate string

// The fates.
const (
	// Watched: what comes of it is being observed.
	Watched Fate = "watched"
	// Kept: nothing bad came of it.
	Kept Fate = "kept"
	// TakenBack: it is not in force any more.
	TakenBack Fate = "taken_back"
	// Overridden: somebody has changed how the pool is routed since.
	Overridden Fate = "overridden"
)

var fates = []Fate{Watched, Kept, TakenBack, Overridden} //nolint:gochecknoglobals // a constant

// Step is one change of one setting.
type Step struct {
	// Knob is [advice.PrefixLength] or [advice.ConcurrencyThreshold]; From and To are its values.
	Knob     advice.Knob
	From, To int
	// Back says that it takes steps back that were kept.
	Back bool
	// At is when it was made, to the millisecond.
	At time.Time
	// Before is what was delivered before it, After since, as far as that is known.
	Before, After Delivered
	// Fate is what became of it.
	Fate Fate
	// Why says why it was made and, where it is not in force any more, why not.
	Why string
}

// of is a configuration's value of the step's setting, as it is in force.
func (s *Step) of(c router.Config) int { return value(c, s.Knob) }

func value(c router.Config, knob advice.Knob) int {
	if knob == advice.PrefixLength {
		return c.HashLength()
	}
	return c.ConcurrencyThreshold
}

// with is a configuration with another value of a setting.
func with(c router.Config, knob advice.Knob, v int) router.Config {
	if knob == advice.PrefixLength {
		c.PrefixLength = v
	} else {
		c.ConcurrencyThreshold = v
	}
	return c
}

// A step is shared with other routers as one line: fate, setting, from, to, whether it goes back,
// milliseconds since 1970, hit rate and its standard error, nanoseconds of P90, unserved.
const fields = 10

// String is the step as it is shared, in 256 bytes at most: without its reasons and what came after it.
func (s *Step) String() string {
	figure := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	return strings.Join([]string{
		string(s.Fate), string(s.Knob), strconv.Itoa(s.From), strconv.Itoa(s.To), strconv.FormatBool(s.Back),
		strconv.FormatInt(s.At.UnixMilli(), 10), figure(s.Before.HitRate), figure(s.Before.Error),
		strconv.FormatInt(int64(s.Before.P90), 10), figure(s.Before.Unserved),
	}, " ")
}

// ParseStep reads what [Step.String] wrote. The error says what is wrong.
func ParseStep(text string) (*Step, error) {
	words := strings.Split(text, " ")
	if len(words) != fields {
		return nil, fmt.Errorf("%d words, want %d", len(words), fields)
	}
	s := &Step{Fate: Fate(words[0]), Knob: advice.Knob(words[1])}
	var errs []error
	whole := func(word string) int64 {
		n, err := strconv.ParseInt(word, 10, 64)
		errs = append(errs, err)
		return n
	}
	share := func(word string) float64 {
		x, err := strconv.ParseFloat(word, 64)
		if err == nil && !(x >= 0 && x <= 1) {
			err = fmt.Errorf("%s is not in 0..1", word)
		}
		errs = append(errs, err)
		return x
	}
	from, to := whole(words[2]), whole(words[3])
	back, err := strconv.ParseBool(words[4])
	errs = append(errs, err)
	s.From, s.To, s.Back, s.At = int(from), int(to), back, time.UnixMilli(whole(words[5]))
	s.Before.HitRate, s.Before.Error = share(words[6]), share(words[7])
	s.Before.P90, s.Before.Unserved = time.Duration(whole(words[8])), share(words[9])
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if !slices.Contains(fates, s.Fate) || !slices.Contains([]advice.Knob{advice.PrefixLength, advice.ConcurrencyThreshold}, s.Knob) {
		return nil, fmt.Errorf("%q of %q is no step", s.Fate, s.Knob)
	}
	for _, v := range []int{s.From, s.To} {
		if err := with(router.DefaultConfig(), s.Knob, v).Validate(); err != nil || v == 0 {
			return nil, fmt.Errorf("%s %d is no setting", s.Knob, v)
		}
	}
	return s, nil
}
