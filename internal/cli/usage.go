package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// UsageError is the caller's mistake: flags, a file or a configuration that make no
// sense. Programs end with 2 for it.
type UsageError struct{ err error }

// Error implements error.
func (e *UsageError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *UsageError) Unwrap() error { return e.err }

// BadUsage is a [*UsageError], nil for nil.
func BadUsage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}

// NoArgs refuses arguments that are not flags.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return BadUsage(fmt.Errorf("%s takes no arguments, only flags: %q (see %s --help)", cmd.Name(), strings.Join(args, " "), cmd.CommandPath()))
}
