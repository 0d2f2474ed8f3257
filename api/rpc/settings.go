package rpc

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// Settings keeps what operators have set in pools, by the names that the settings have in
// the configuration. Its methods may be called at the same time, and do not wait.
type Settings interface {
	// Set keeps values; an empty one says that nothing is set any more.
	Set(pool string, values map[string]string)
	// Settings returns what is set in a pool.
	Settings(pool string) map[string]string
}

// ownSettings are those of a router that shares them with nobody. The zero value is ready.
type ownSettings struct {
	mu     sync.Mutex
	values map[string]map[string]string
}

// Set implements [Settings].
func (s *ownSettings) Set(pool string, values map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = make(map[string]map[string]string)
	}
	s.values[pool] = joined(s.values[pool], values)
}

// Settings implements [Settings].
func (s *ownSettings) Settings(pool string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.values[pool])
}

// joined is what is set after a change.
func joined(set, change map[string]string) map[string]string {
	all := make(map[string]string)
	maps.Copy(all, set)
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// settable are the settings that operators change while a router runs.
var settable = []struct {
	name string
	// take copies the setting from one configuration to another.
	take func(to *router.Config, from router.Config)
	// text is the setting of a change, empty where that has none.
	text func(*v1.RoutingConfig) string
	// parse reads a text into a configuration, and show into a change.
	parse func(*router.Config, string) error
	show  func(*v1.RoutingConfig, router.Config)
}{
	{
		"strategy",
		func(to *router.Config, from router.Config) { to.Strategy = from.Strategy },
		func(c *v1.RoutingConfig) string { return c.GetStrategy() },
		func(c *router.Config, s string) error { c.Strategy = s; return nil },
		func(c *v1.RoutingConfig, from router.Config) { c.Strategy = new(from.Strategy) },
	},
	{
		"prefix_length",
		func(to *router.Config, from router.Config) { to.PrefixLength = from.PrefixLength },
		func(c *v1.RoutingConfig) string { return textOf(c.PrefixLength) },
		func(c *router.Config, s string) error { return parseCount(&c.PrefixLength, s) },
		func(c *v1.RoutingConfig, from router.Config) { c.PrefixLength = new(count(from.PrefixLength)) },
	},
	{
		"concurrency_threshold",
		func(to *router.Config, from router.Config) { to.ConcurrencyThreshold = from.ConcurrencyThreshold },
		func(c *v1.RoutingConfig) string { return textOf(c.ConcurrencyThreshold) },
		func(c *router.Config, s string) error { return parseCount(&c.ConcurrencyThreshold, s) },
		func(c *v1.RoutingConfig, from router.Config) {
			c.ConcurrencyThreshold = new(count(from.ConcurrencyThreshold))
		},
	},
	{
		"min_match_ratio",
		func(to *router.Config, from router.Config) { to.MinMatchRatio = from.MinMatchRatio },
		func(c *v1.RoutingConfig) string { return textOf(c.MinMatchRatio) },
		func(c *router.Config, s string) error { return parseNumber(&c.MinMatchRatio, s) },
		func(c *v1.RoutingConfig, from router.Config) { c.MinMatchRatio = new(from.MinMatchRatio) },
	},
	{
		"w",
		func(to *router.Config, from router.Config) { to.W = from.W },
		func(c *v1.RoutingConfig) string { return textOf(c.W) },
		func(c *router.Config, s string) error { return parseNumber(&c.W, s) },
		func(c *v1.RoutingConfig, from router.Config) { c.W = new(from.W) },
	},
}

// textOf is a number as it is kept, empty for none.
func textOf[T uint32 | float64](n *T) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func parseCount(to *int, s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	*to = int(n) //nolint:gosec // 31 bits
	return err
}

func parseNumber(to *float64, s string) (err error) {
	*to, err = strconv.ParseFloat(s, 64)
	return err
}

// valuesOf are the settings of a change, by name.
func valuesOf(change *v1.RoutingConfig) map[string]string {
	values := make(map[string]string)
	if change == nil {
		return values
	}
	for _, s := range settable {
		if text := s.text(change); text != "" {
			values[s.name] = text
		}
	}
	return values
}

// withSettings is a configuration in which everything settable is as it was set, or else as
// configured. The error is of what makes no sense and is therefore as configured.
func withSettings(c, configured router.Config, values map[string]string) (router.Config, error) {
	var errs []error
	for _, s := range settable {
		s.take(&c, configured)
		text := values[s.name]
		if text == "" {
			continue
		}
		try := c
		if err := s.parse(&try, text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
			continue
		}
		if err := try.Validate(); err != nil { // which names it
			errs = append(errs, err)
			continue
		}
		c = try
	}
	return c, errors.Join(errs...)
}

// routing describes how a pool is routed.
func routing(c router.Config) *v1.RoutingConfig {
	out := new(v1.RoutingConfig)
	for _, s := range settable {
		s.show(out, c)
	}
	return out
}

// routingSet describes what of that was set.
func routingSet(c router.Config, values map[string]string) *v1.RoutingConfig {
	out := new(v1.RoutingConfig)
	for _, s := range settable {
		if values[s.name] != "" {
			s.show(out, c)
		}
	}
	return out
}
