package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/config"
)

// settings are the flags that say how a router is configured.
type settings struct {
	file     string
	backends []string
	config.Overrides
}

func (s *settings) addFile(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.file, "config", "c", "", "read the configuration from `FILE` (YAML, see docs/config.md)")
}

// load reads the configuration: of the file, or of one pool of the backends.
func (s *settings) load() (*config.Config, []config.Warning, error) {
	switch {
	case s.file != "" && len(s.backends) > 0:
		return nil, nil, cli.BadUsage(errors.New("--backend and --config exclude each other: name the backends in the file"))
	case s.file == "" && len(s.backends) == 0:
		return nil, nil, cli.BadUsage(errors.New("there is nothing to route to: give --backend URL (repeat it for more), or --config FILE"))
	}
	read := func() (*config.Config, []config.Warning, error) { return config.Load(s.file) }
	if s.file == "" {
		read = func() (*config.Config, []config.Warning, error) { return config.FromBackends(s.backends) }
	}
	c, _, err := read()
	if err != nil {
		return nil, nil, cli.BadUsage(err)
	}
	warnings, err := c.Override(s.Overrides)
	if err != nil {
		return nil, nil, cli.BadUsage(err)
	}
	return c, warnings, nil
}

// counted names a number of things.
func counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
