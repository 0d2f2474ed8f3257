// Package backends says what a backend is: one addressable KV cache, with an
// identity, a load and a state.
//
// It owns the identity ([ParseURL]), the in-flight slots, which are acquired by
// compare-and-swap and released exactly once ([Slot]), the states, passive
// ejection ([Ejection]) and the [Registry], whose snapshots are immutable so that
// a decision reads a pool without a lock.
//
// The package is pure: no network, no disk, no clock. Times come in as values.
// Discovery, probes and transport are children.
package backends
