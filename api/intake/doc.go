// Package intake is what every surface does with a request before the first decision,
// and when an engine has answered: it bounds the memory and the time that bodies take,
// finds the pool of a model, turns a prompt into what the router is asked, waits for a
// slot, and says what an engine's status means.
//
// The proxy and the RPC service share it, so that the same request gets the same
// answer from both. It knows no dialect and writes no answer.
package intake
