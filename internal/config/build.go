package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/health"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback/scrape"
	"github.com/warmroute/warmroute/router"
)

// PoolSpecs returns the pools as the router takes them: a URL of several
// data-parallel ranks has become one backend for each, and a backend that is there
// twice stands there once.
func (c *Config) PoolSpecs() []router.PoolSpec {
	specs := make([]router.PoolSpec, 0, len(c.Pools))
	for i, p := range c.Pools {
		spec := router.PoolSpec{
			Name:         p.Name,
			SharesModels: slices.ContainsFunc(c.Pools[:i], p.besides),
			Config:       p.Routing.Router(),
			Ejection:     backends.Ejection(p.Ejection),
			Backends:     p.specs(),
		}
		for _, m := range p.Models {
			spec.Models = append(spec.Models, router.ModelSpec(m))
		}
		specs = append(specs, spec)
	}
	return specs
}

// specs returns the pool's backends, the ranks one by one.
func (p *Pool) specs() []backends.Spec {
	var all []backends.Spec
	seen := make(map[string]bool)
	for _, b := range p.Backends {
		if id, err := parseURL(b.URL); err == nil {
			if seen[id] {
				continue
			}
			seen[id] = true
		}
		spec := backends.Spec{URL: b.URL, Rank: backends.NoRank, Weight: b.Weight, ConcurrencyThreshold: b.ConcurrencyThreshold}
		if b.DataParallelRanks == 0 {
			all = append(all, spec)
		}
		for rank := range b.DataParallelRanks {
			spec.Rank = rank
			all = append(all, spec)
		}
	}
	return all
}

// TransportConfig returns how the engines are reached.
func (c *Config) TransportConfig() transport.Config {
	t := transport.DefaultConfig()
	t.Connect, t.FirstByte, t.Idle = c.Timeouts.Connect, c.Timeouts.FirstByte, c.Timeouts.Idle
	return t
}

// ScrapeConfig returns how the engines' metrics are read, where scrape.enabled says so.
func (c *Config) ScrapeConfig() scrape.Config {
	return scrape.Config{Interval: c.Scrape.Interval, Timeout: c.Scrape.Timeout, Path: c.Scrape.Path}
}

// ProbeConfig returns how engines are probed, where health.enabled says so.
func (c *Config) ProbeConfig() health.ProbeConfig {
	h := c.Health
	return health.ProbeConfig{
		Path: h.Path, Interval: h.Interval, Timeout: h.Timeout, Failures: h.Failures, FrozenAfter: h.FrozenAfter,
	}
}

// parseURL returns the identity of a backend. Unlike the registry's, its errors
// never show a user name, since some put a key there.
func parseURL(raw string) (id string, err error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err == nil && u.User != nil:
		return "", fmt.Errorf("%q: credentials do not belong into a backend's URL", showURL(raw))
	case err == nil && u.Host != "":
	case !strings.ContainsFunc(raw, notOfAnAddress):
		return "", fmt.Errorf("%q: want http://host:port or https://host:port", raw)
	default: // there may be a key in it
		return "", errors.New("this is no URL of a backend: want http://host:port or https://host:port")
	}
	_, id, err = backends.ParseURL(raw)
	return id, err
}

// notOfAnAddress reports whether a character is not one of host:port.
func notOfAnAddress(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune(".:-_[]", r)
}

// showURL returns a URL without its credentials, query and fragment.
func showURL(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" {
		// What does not parse may hold anything.
		return redacted
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// String returns the configuration in force as a file would say it, every default
// spelled out and no secret shown.
func (c *Config) String() string {
	if c == nil {
		return ""
	}
	out, err := yaml.Dump(c)
	if err != nil {
		return "# " + err.Error() + "\n"
	}
	return string(out)
}

// MarshalYAML keeps the credentials that a URL should not have had out of the text.
func (b Backend) MarshalYAML() (any, error) {
	type plain Backend
	shown := plain(b)
	shown.URL = showURL(b.URL)
	return shown, nil
}
