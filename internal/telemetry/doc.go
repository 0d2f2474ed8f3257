// Package telemetry turns what happens in a router into metrics, access records, a
// request log and a short memory of recent requests.
//
// Events arrive in two ways: [Telemetry.Hooks] is given to the router and hears of
// every decision, [Telemetry.Observe] is given to the proxy and hears of every
// request's end, exactly once. State is not sent but read: on each scrape the
// router is asked how its backends are, so a backend that left has no series.
//
// Every label value comes from the configuration, from what backends say of
// themselves or from a fixed list in the code, never from a request. What is not
// known is folded to "other", what does not apply is "none". Series whose labels
// are known at the start exist from the start, at 0.
//
// Where a [recent.Store] is given, it gets every request whose prompt was hashed.
//
// The request log is a file of one line for each request, to be replayed: block keys,
// lengths, times. [Telemetry.Run] writes it, and no request waits for that.
//
// Nothing that was asked or answered gets here, and no credential: records hold hashes,
// lengths and names only.
package telemetry
