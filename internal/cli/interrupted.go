package cli

import "errors"

// ErrInterrupted is the end of a command that was told to stop before it was done. Programs
// end with 130 for it, as shells do.
var ErrInterrupted = errors.New("interrupted")
