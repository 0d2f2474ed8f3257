package scrape

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
)

// Config sets how often and where metrics are read. Zero fields mean their defaults.
type Config struct {
	// Interval is the time from one look at an engine to the next. Default 5 s.
	Interval time.Duration
	// Timeout bounds one look, from connecting to the last byte. Default 2 s. Above
	// half the interval, looks are left out where an engine is slow.
	Timeout time.Duration
	// Path is where the metrics are, below the base URL. Default /metrics.
	Path string
	// Header, if set, returns what to send to a backend, an Authorization for one.
	// It may be called from several goroutines at a time.
	Header func(*backends.Backend) http.Header
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Interval: 5 * time.Second, Timeout: 2 * time.Second, Path: "/metrics"}
}

// Validate names the first setting that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Interval < 0:
		return fmt.Errorf("scrape.interval: %v is negative", c.Interval)
	case c.Timeout < 0:
		return fmt.Errorf("scrape.timeout: %v is negative", c.Timeout)
	case c.Path != "" && !strings.HasPrefix(c.Path, "/"):
		return fmt.Errorf("scrape.path: %q does not begin with /", c.Path)
	}
	return nil
}

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	if c.Interval <= 0 {
		c.Interval = d.Interval
	}
	if c.Timeout <= 0 {
		c.Timeout = d.Timeout
	}
	if !strings.HasPrefix(c.Path, "/") {
		c.Path = d.Path
	}
	return c
}

// Getter asks a backend for what is at a path below its base URL.
// *transport.Transport is one.
type Getter interface {
	// Get returns the answer, whatever its status; its body must be closed. Errors
	// name the backend.
	Get(ctx context.Context, b *backends.Backend, path string, header http.Header) (*http.Response, error)
}

// Hooks are told what is read. Any may be nil. They are called from several goroutines
// at a time, but for one backend one after another, and must not wait.
type Hooks struct {
	// Scraped is called with every state that was read, and how long that took.
	Scraped func(b *backends.Backend, s feedback.EngineState, took time.Duration)
	// Failed is called when the metrics of a backend that were read, or never asked
	// for, cannot be read or say nothing.
	Failed func(b *backends.Backend, err error)
	// Recovered is called when they can be read again, before Scraped.
	Recovered func(b *backends.Backend)
}

func (h Hooks) withDefaults() Hooks {
	if h.Scraped == nil {
		h.Scraped = func(*backends.Backend, feedback.EngineState, time.Duration) {}
	}
	if h.Failed == nil {
		h.Failed = func(*backends.Backend, error) {}
	}
	if h.Recovered == nil {
		h.Recovered = func(*backends.Backend) {}
	}
	return h
}

// Status is how reading the metrics of one backend goes.
type Status struct {
	// Last is when they were last read; zero when never.
	Last time.Time
	// Took is how long that took.
	Took time.Duration
	// Good and Bad count the looks that succeeded and failed.
	Good, Bad uint64
	// Err is why the last look failed, nil when it did not.
	Err error
}
