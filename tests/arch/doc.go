// Package arch holds the tests that guard the shape of the repository: which package may import which,
// what the pure packages must not touch, where each dependency may be used, and a few rules about files.
//
// Each rule is a function over a [tree] that returns one line per breach, so that the rules themselves are
// tested on small trees in memory; repository_test.go then applies them to the checkout. No rule needs the
// network, the go command or anything outside the checkout: the Go files are parsed, whatever build tags
// they carry.
package arch
