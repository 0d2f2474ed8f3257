// Package cli is what the subcommands of one program share: whose mistake an error is,
// and how a long job shows on a terminal that it gets on.
package cli
