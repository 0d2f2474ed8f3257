// Package recent remembers the requests that ended last: as many of the newest as fit into
// a bound of memory, all of them, none thinned out, so that they can be played again as
// they came ([Store.Window]).
//
// It holds hashes, lengths, times and outcomes, and nothing of what was asked. Prompts are
// leaves of a tree of block keys, in which blocks that prompts share stand once. Blocks
// that no prompt parts from each other stand together as a run, so that a request whose
// prompt is all new takes little more than its keys.
//
// All memory is cells of one size, of runs and of requests alike, which move freely between
// the two as traffic changes. When there is none left the oldest request leaves, and with it
// the blocks that only it had.
//
// The package is pure: it reads no clock and does no I/O. Its [Store] is safe for
// concurrent use; adding a request never waits for longer than a few others take.
package recent
