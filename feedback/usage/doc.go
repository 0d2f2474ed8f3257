// Package usage watches an engine's answer go by and finds what it reports about
// the request: token counts, above all how many prompt tokens came from the cache.
//
// A [Tap] is given the bytes of an answer in whatever pieces they arrive. It reads
// server-sent events or one JSON value, keeps only what it needs, and never changes
// or holds back a byte: the proxy forwards them on its own. A [Filter] takes the
// usage chunk out again that a client did not ask for; it is the one thing here that
// holds bytes back, an event that is not complete.
//
// [Stances] remembers which backends refuse to be asked for usage on streams.
//
// Tap and Filter are driven by bytes alone: no goroutine, no clock, no error that could stop
// an answer. What cannot be understood is not reported.
package usage
