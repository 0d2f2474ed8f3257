package tuning

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/router"
)

// Setting is what a step changes, by its name in the configuration.
type Setting string

// The settings.
const (
	PrefixLength         Setting = "prefix_length"
	ConcurrencyThreshold Setting = "concurrency_threshold"
)

var settings = []Setting{PrefixLength, ConcurrencyThreshold} //nolint:gochecknoglobals // a constant

// Proposal is what advice says of a setting that should be changed.
type Proposal struct {
	Setting Setting
	// To is the value that it should have.
	To int
	// HitRate is what that adds to the hit rate, of 0..1; Faster what part of the P90 of the time to
	// first token it takes away, and Less how much that is.
	HitRate, Faster float64
	Less            time.Duration
	// Why says why.
	Why string
}

// worthwhile reports whether it promises enough to be done by itself.
func (p *Proposal) worthwhile() bool {
	return p.HitRate >= leastHits || p.Faster >= leastP90 && p.Less >= leastFaster
}

// gain is what it promises, in parts of the hit rate and of the P90.
func (p *Proposal) gain() float64 { return p.HitRate + p.Faster }

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
	// Setting is what was changed, From and To are its values.
	Setting  Setting
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
func (s *Step) of(c router.Config) int { return value(c, s.Setting) }

// way is where it goes.
func (s *Step) way() way { return way{s.Setting, s.To > s.From} }

func value(c router.Config, setting Setting) int {
	if setting == PrefixLength {
		return c.HashLength()
	}
	return c.ConcurrencyThreshold
}

// with is a configuration with another value of a setting.
func with(c router.Config, setting Setting, v int) router.Config {
	if setting == PrefixLength {
		c.PrefixLength = v
	} else {
		c.ConcurrencyThreshold = v
	}
	return c
}

// same reports whether two configurations route alike: prefix_length may be written as it is by default.
func same(a, b router.Config) bool {
	a.PrefixLength, b.PrefixLength = a.HashLength(), b.HashLength()
	return a == b
}

// A step is shared with other routers as one line: fate, setting, from, to, whether it goes back,
// milliseconds since 1970, hit rate and its standard error, nanoseconds of P90, unserved.
const fields = 10

// String is the step as it is shared, in 256 bytes at most: without its reasons and what came after it.
func (s *Step) String() string {
	figure := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	return strings.Join([]string{
		string(s.Fate), string(s.Setting), strconv.Itoa(s.From), strconv.Itoa(s.To), strconv.FormatBool(s.Back),
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
	s := &Step{Fate: Fate(words[0]), Setting: Setting(words[1])}
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
	if !slices.Contains(fates, s.Fate) || !slices.Contains(settings, s.Setting) {
		return nil, fmt.Errorf("%q of %q is no step", s.Fate, s.Setting)
	}
	for _, v := range []int{s.From, s.To} {
		if err := with(router.DefaultConfig(), s.Setting, v).Validate(); err != nil || v == 0 {
			return nil, fmt.Errorf("%s %d is no setting", s.Setting, v)
		}
	}
	return s, nil
}
