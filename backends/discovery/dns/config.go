package dns

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/backends/discovery"
)

// Type is what is asked for.
type Type string

// The types.
const (
	// A asks for IPv4 addresses.
	A Type = "a"
	// AAAA asks for IPv6 addresses. There is no type for both: an engine that has one of
	// each would be two backends.
	AAAA Type = "aaaa"
	// SRV asks for services, and then for the address of each: its IPv4 address if it has
	// one. Those of the lowest priority number count; weights do not.
	SRV Type = "srv"
)

// Config says what is looked up.
type Config struct {
	// Name is the name. Without a dot at its end the search list of the machine applies.
	Name string
	// Type is what is asked for. Default [A].
	Type Type
	// Port is the engines' port, for A and AAAA.
	Port int
	// Form is what is made of each address.
	Form discovery.Form
	// Interval is the time between two lookups, give or take a tenth. Default
	// [DefaultInterval].
	Interval time.Duration
	// Timeout bounds one lookup, all its questions and repetitions together. Default
	// [DefaultTimeout].
	Timeout time.Duration
	// Resolver is the server that is asked, host:port. Default: the machine's.
	Resolver string
}

// What is in force where nothing is said.
const (
	DefaultInterval = 10 * time.Second
	DefaultTimeout  = 5 * time.Second
)

// maxName is the longest name that DNS knows.
const maxName = 253

// Validate names the first setting that makes no sense.
func (c Config) Validate() error {
	name := strings.TrimSuffix(c.Name, ".")
	switch {
	case name == "":
		return errors.New("name: is missing")
	case len(name) > maxName || strings.ContainsAny(name, " /:@") || strings.Contains(name, ".."):
		return fmt.Errorf("name: %q is not a name", c.Name)
	case net.ParseIP(name) != nil:
		return fmt.Errorf("name: %q is an address: list it in backends", c.Name)
	}
	switch cmp.Or(c.Type, A) {
	case A, AAAA:
		if c.Port < 1 || c.Port > 65535 {
			return fmt.Errorf("port: %d is not in 1..65535", c.Port)
		}
	case SRV:
		if c.Port != 0 {
			return fmt.Errorf("port: %d is not used: SRV records have their own", c.Port)
		}
	default:
		return fmt.Errorf("type: %q is not one of a, aaaa, srv", c.Type)
	}
	switch {
	case c.Interval < 0:
		return fmt.Errorf("interval: %v is negative", c.Interval)
	case c.Timeout < 0:
		return fmt.Errorf("timeout: %v is negative", c.Timeout)
	case c.Resolver != "" && !isAddress(c.Resolver):
		return fmt.Errorf("resolver: %q is not host:port", c.Resolver)
	}
	return c.Form.Validate()
}

func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, wrong := strconv.Atoi(port)
	return err == nil && wrong == nil && host != "" && n > 0 && n < 65536
}

func (c Config) withDefaults() Config {
	c.Type = cmp.Or(c.Type, A)
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	return c
}
