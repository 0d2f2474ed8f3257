package health

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/warmroute/warmroute/backends"
)

// Config sets how often engines are asked. Zero fields mean their defaults.
type Config struct {
	// Interval is the time from one answer to the next question, give or take a
	// tenth. Default 10 s.
	Interval time.Duration
	// Timeout bounds one question and its answer. Default 5 s.
	Timeout time.Duration
	// Header, if set, returns what to send to a backend, an Authorization for one.
	// It may be called from several goroutines at a time.
	Header func(*backends.Backend) http.Header
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Interval: 10 * time.Second, Timeout: 5 * time.Second}
}

// Validate names the first setting that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Interval < 0:
		return fmt.Errorf("interval: %v is negative", c.Interval)
	case c.Timeout < 0:
		return fmt.Errorf("timeout: %v is negative", c.Timeout)
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
	return c
}

// Getter asks a backend for what is at a path below its base URL.
// *transport.Transport is one.
type Getter interface {
	// Get returns the answer, whatever its status; its body must be closed. Errors
	// name the backend.
	Get(ctx context.Context, b *backends.Backend, path string, header http.Header) (*http.Response, error)
}

// Hooks are told of changes. Any may be nil. They are called from several goroutines
// at a time and must not wait.
type Hooks struct {
	// Asked is called each time a backend was asked, with what went wrong, nil when
	// nothing did.
	Asked func(b *backends.Backend, err error)
	// Failed is called when a backend that had answered, or was never asked, cannot be
	// asked what it serves.
	Failed func(b *backends.Backend, err error)
	// Recovered is called when it can again.
	Recovered func(b *backends.Backend)
	// Changed is called when what a backend serves differs from before.
	Changed func(b *backends.Backend)
}

func (h Hooks) withDefaults() Hooks {
	if h.Asked == nil {
		h.Asked = func(*backends.Backend, error) {}
	}
	if h.Failed == nil {
		h.Failed = func(*backends.Backend, error) {}
	}
	if h.Recovered == nil {
		h.Recovered = func(*backends.Backend) {}
	}
	if h.Changed == nil {
		h.Changed = func(*backends.Backend) {}
	}
	return h
}
