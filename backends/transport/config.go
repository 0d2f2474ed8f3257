package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// Config sets how backends are reached. Zero fields mean their defaults.
type Config struct {
	// Connect bounds a new connection: name lookup, dial and TLS handshake
	// together. Default 3 s.
	Connect time.Duration
	// FirstByte bounds the wait from the moment the request is written to the
	// answer's headers. An answer that is not streamed sends its headers only when
	// it is done, so this bounds whole generations. An upload that does not get on
	// is bounded by it too. Default 20 min.
	FirstByte time.Duration
	// Idle bounds how long an answer may pause: the wait for each next piece of its
	// body. Default 5 min.
	Idle time.Duration
	// IdleConn is how long an unused connection is kept. It must stay below the
	// keep-alive of the engines, 5 s for vLLM and SGLang, or requests are sent on
	// connections that are just being closed. Default 4 s.
	IdleConn time.Duration
	// MaxConnAge is how long the connections to a backend that is named rather than
	// given by its IP address are used before new ones take their place, so that a
	// name that moves to another address is followed. Answers under way are not
	// cut. Default 1 min.
	MaxConnAge time.Duration
	// MaxIdlePerBackend is how many unused connections to one backend are kept.
	// How many are used at once is not limited here. Default 512.
	MaxIdlePerBackend int
	// TLS is the base of the TLS settings of https backends: root certificates,
	// client certificate, whether to verify. The server name is that of the
	// backend's URL unless set here. nil means Go's defaults.
	TLS *tls.Config
	// DialContext opens connections, given "tcp" and host:port. nil means a
	// net.Dialer with TCP keep-alive.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Connect:           3 * time.Second,
		FirstByte:         20 * time.Minute,
		Idle:              5 * time.Minute,
		IdleConn:          4 * time.Second,
		MaxConnAge:        time.Minute,
		MaxIdlePerBackend: 512,
	}
}

// Validate names the first setting that makes no sense.
func (c Config) Validate() error {
	for _, s := range []struct {
		name  string
		value time.Duration
	}{
		{settingConnect, c.Connect},
		{settingFirstByte, c.FirstByte},
		{settingIdle, c.Idle},
		{"transport.idle_connection", c.IdleConn},
		{"transport.max_connection_age", c.MaxConnAge},
	} {
		if s.value < 0 {
			return fmt.Errorf("%s: %v is negative", s.name, s.value)
		}
	}
	if c.MaxIdlePerBackend < 0 {
		return fmt.Errorf("transport.max_idle_per_backend: %d is negative", c.MaxIdlePerBackend)
	}
	return nil
}

// The settings that error texts name.
const (
	settingConnect   = "timeouts.connect"
	settingFirstByte = "timeouts.first_byte"
	settingIdle      = "timeouts.idle"
)

// withDefaults fills what is zero or makes no sense.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	for _, f := range []struct {
		value *time.Duration
		zero  time.Duration
	}{
		{&c.Connect, d.Connect},
		{&c.FirstByte, d.FirstByte},
		{&c.Idle, d.Idle},
		{&c.IdleConn, d.IdleConn},
		{&c.MaxConnAge, d.MaxConnAge},
	} {
		if *f.value <= 0 {
			*f.value = f.zero
		}
	}
	if c.MaxIdlePerBackend <= 0 {
		c.MaxIdlePerBackend = d.MaxIdlePerBackend
	}
	if c.DialContext == nil {
		c.DialContext = (&net.Dialer{}).DialContext
	}
	return c
}
