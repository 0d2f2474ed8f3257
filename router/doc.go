// Package router decides which backend a request goes to and learns from what came
// of it.
//
// The whole of it is two functions. [Router.Route] takes what is known of a
// request and a moment, and returns a [Decision] that holds an in-flight slot;
// [Router.Complete] takes the outcome and gives the slot back exactly once. The
// proxy, the RPC, the replay and the benchmarks call these two; there is no second
// copy of the rules. [Router.FirstToken] between them tells that the prefill is
// done.
//
// # The life of a decision
//
// Route reads an immutable snapshot of the pool, leaves out the backends that
// cannot take the request, asks the index how much of the prompt each of the others
// holds, and lets the pool's strategy choose. The chosen backend's slot is
// acquired by compare-and-swap; when somebody else took the last one meanwhile,
// the strategy chooses again with that backend full. Then the prompt's blocks are
// recorded as predicted on it, at once, so that a burst of siblings follows instead
// of scattering.
//
// The package is pure: no network, no disk, no clock, no metrics library. Times and
// randomness come in as values; events leave through [Hooks].
package router
