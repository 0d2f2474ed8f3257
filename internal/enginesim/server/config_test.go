package server

import (
	"strings"
	"testing"

	"github.com/warmroute/warmroute/internal/enginesim"
)

func TestConfigErrorsNameTheField(t *testing.T) {
	for _, test := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Model = nil }, "model: name at least one"},
		{func(c *Config) { c.Model = []string{""} }, "model: a served model name is empty"},
		{func(c *Config) { c.Model = []string{"a", "a"} }, `model: "a" is named twice`},
		{func(c *Config) { c.Speed = -1 }, "speed: must be > 0"},
		{func(c *Config) { c.Engines = -1 }, "engines: must be between"},
		{func(c *Config) { c.Profile = "x" }, `profile: unknown profile "x"`},
		{func(c *Config) { c.KVTokens = 3 }, "kv_tokens: must hold one block"},
		{func(c *Config) { c.BlockSize = -1 }, "block_size: must be >= 0"},
		{func(c *Config) { c.OutputTokens = -1 }, "output_tokens: must be >= 0"},
		{func(c *Config) { c.Jitter = 1 }, "jitter: must be between"},
		{func(c *Config) { c.Custom = &enginesim.Profile{} }, "profile.step_floor"},
		{func(c *Config) { c.MetricsGeneration = "0.7" }, "metrics_generation: must be one of v0, 0.8, 0.9.2, current"},
		{func(c *Config) { c.MetricsGeneration, c.Engines = "v0", 2 }, "engines: more than 1"},
		{func(c *Config) { c.MaxModelLen = -1 }, "max_model_len: must be >= 0"},
	} {
		cfg := DefaultConfig()
		test.change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("New = %v, want an error with %q", err, test.want)
		}
	}
	if _, err := New(Config{Model: []string{"m"}}); err != nil {
		t.Errorf("a configuration with only a model is refused: %v", err)
	}
}
