// Package replay sends a workload through the router to modelled engines, in virtual
// time. It answers what a strategy, a setting or a fault does to the hit rate and to the
// time to first token, in seconds instead of hours and without a GPU, and it knows what
// no router can know: what every engine's cache really holds.
//
// It owns the [Fleet], which is N engine models (internal/enginesim) behind one
// [router.Router] or several that share what they know, driven by one agenda of moments: arrivals, engine steps, scrapes,
// aborts, faults. It calls the same Route, FirstToken, Complete and Scraped as the proxy
// does, and holds no copy of any rule. A [workload.Source] says what is asked.
// A [Placement] chooses in the place of a strategy, as a yardstick.
//
// Requests have no text. A prompt is a chain of [workload.Segment] values: runs of tokens known by
// the name of their content. The engines cut the chain into blocks of tokens; the router
// sees a key stream in which a token is some bytes, cut into index blocks. Equal content
// gives equal keys and equal engine blocks, and nothing else does.
//
//	fleet, err := replay.New(replay.Config{Backends: 7, Engine: engine, Router: router.DefaultConfig()})
//	result, err := fleet.Run(workload.NewDocs(workload.DefaultDocsConfig(), seed))
//
// Equal configurations and seeds give equal results, on any machine. A Fleet is not safe
// for concurrent use; several fleets may run side by side. The package must not import
// net, os, log/slog or any metrics library, and reads no clock.
package replay
