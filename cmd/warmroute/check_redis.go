package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/kvindex/redisindex"
)

// connectWait bounds the connecting to Redis.
const connectWait = 10 * time.Second

// redisCheck is what came of connecting to Redis. A nil one was not asked for.
type redisCheck struct {
	Configured bool     `json:"configured"`
	Connected  bool     `json:"connected"`
	Error      string   `json:"error,omitempty"`
	Version    string   `json:"version,omitempty"`
	Clock      float64  `json:"clock_offset_s"` // what its clock is ahead
	Warnings   []string `json:"warnings"`

	err error
}

// checkRedis connects to Redis where the configuration names one.
func checkRedis(ctx context.Context, c *config.Config) *redisCheck {
	check := &redisCheck{Warnings: []string{}}
	shared, ok, err := c.RedisConfig()
	check.Configured = ok
	if ok && err == nil {
		ctx, cancel := context.WithTimeout(ctx, connectWait)
		defer cancel()
		var found redisindex.Server
		found, err = redisindex.Check(ctx, shared)
		check.Version, check.Clock = found.Version, found.ClockOffset.Seconds()
		check.Warnings = append(check.Warnings, found.Warnings...)
	}
	if err != nil {
		check.err, check.Error = err, err.Error()
	}
	check.Connected = ok && err == nil
	return check
}

// failure is why connecting failed.
func (c *redisCheck) failure() error {
	if c == nil {
		return nil
	}
	return c.err
}

// print says what came of it.
func (c *redisCheck) print(stdout, stderr io.Writer) error {
	switch {
	case c == nil:
		return nil
	case c.err != nil:
		return c.err
	case !c.Configured:
		_, err := fmt.Fprintln(stdout, "redis: not configured, the index is this router's own")
		return err
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(stderr, "warmroute: warning: redis: %s\n", w)
	}
	offset := time.Duration(c.Clock * float64(time.Second)).Round(time.Millisecond)
	_, err := fmt.Fprintf(stdout, "redis: version %s answers and does what is needed; its clock is %v ahead of this machine's\n", c.Version, offset)
	return err
}
