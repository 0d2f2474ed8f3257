package demo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/router"
)

// Config says what is shown. [DefaultConfig] is where the command starts from.
type Config struct {
	// Strategies are the strategies to compare, in order.
	Strategies []string
	// Backends is the number of engine doubles, 1–64. Default 4.
	Backends int
	// Requests is how many requests each strategy gets; 0 means all that a trace
	// has. Default 480.
	Requests int
	// Users is how many sessions run at once. Default 40.
	Users int
	// Speed is how many simulated seconds pass in a second, 0.1–1000. Default 20.
	Speed float64
	// Seed varies the generated workload and the router's random choices.
	Seed uint64
	// Profile is the timing profile of the doubles, see [enginesim.ProfileNames].
	// Default llama-8b-l40s: its cache does not hold the workload, four of them do.
	Profile string
	// KVTokens is the cache of each double in tokens; 0 is the profile's.
	KVTokens int
}

// The defaults, sized so that the strategies take well under a minute on two cores
// and the doubles are busy but not saturated.
const (
	defaultBackends = 4
	defaultRequests = 480 // so many that advice can be given on a run
	defaultUsers    = 40
	defaultSpeed    = 20
	defaultProfile  = "llama-8b-l40s"

	maxBackends  = 64
	maxUsers     = 10_000
	minSpeed     = 0.1
	maxSpeed     = 1000
	applications = 8
)

// DefaultConfig compares PREFIX_AWARE with what others do, on four engines.
func DefaultConfig() Config {
	return Config{
		Strategies: []string{
			router.Random, router.LeastOutstanding, router.PrefixHash, router.PrefixAware,
		},
		Backends: defaultBackends,
		Requests: defaultRequests,
		Users:    defaultUsers,
		Speed:    defaultSpeed,
		Seed:     1,
		Profile:  defaultProfile,
	}
}

// Validate names every setting that makes no sense by its flag, and what it may be.
func (c Config) Validate() error {
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if len(c.Strategies) == 0 {
		bad("--strategy: name at least one of %s", strings.Join(router.Strategies(), ", "))
	}
	for i, s := range c.Strategies {
		if !slices.Contains(router.Strategies(), s) {
			bad("--strategy: %q is not one of %s", s, strings.Join(router.Strategies(), ", "))
		}
		if slices.Contains(c.Strategies[:i], s) {
			bad("--strategy: %s is named twice", s)
		}
	}
	if c.Backends < 1 || c.Backends > maxBackends {
		bad("--backends: %d is not in 1..%d", c.Backends, maxBackends)
	}
	if c.Requests < 0 {
		bad("--requests: %d is negative", c.Requests)
	}
	if c.Users < 1 || c.Users > maxUsers {
		bad("--users: %d is not in 1..%d", c.Users, maxUsers)
	}
	if !(c.Speed >= minSpeed && c.Speed <= maxSpeed) {
		bad("--speed: %v is not in %v..%v", c.Speed, minSpeed, maxSpeed)
	}
	if _, err := enginesim.ProfileByName(c.Profile); err != nil {
		bad("--profile: %v", err)
	}
	if c.KVTokens < 0 {
		bad("--kv-tokens: %d is negative", c.KVTokens)
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}
