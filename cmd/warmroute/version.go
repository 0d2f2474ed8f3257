package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
)

// version is set by the linker (-X main.version=…) in released binaries.
var version string

// build says what runs.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildInfo gathers what the linker and the go command left in the binary.
func buildInfo() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
		if v := info.Main.Version; b.Version == "" && v != "" && v != "(devel)" {
			b.Version = v
		}
	}
	if b.Version == "" {
		b.Version = "dev"
	}
	return b
}

// String is what `warmroute version` and `warmroute --version` print.
func (b build) String() string {
	return fmt.Sprintf("warmroute %s (%s, %s)\n", b.Version, b.Go, b.Platform)
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  warmroute version -o json",
		Args:    cli.NoArgs,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		asJSON, err := output()
		if err != nil {
			return err
		}
		b := buildInfo()
		if asJSON {
			return printJSON(cmd.OutOrStdout(), b)
		}
		_, err = fmt.Fprint(cmd.OutOrStdout(), b)
		return err
	}
	return cmd
}
