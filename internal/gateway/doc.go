// Package gateway puts the parts of a router process together and runs them: pools,
// index, transport, model poller, metrics scraper, proxy with its dialects, telemetry,
// and the two ports. The command and the end-to-end tests run the same object.
//
//	g, err := gateway.New(gateway.Options{Config: c, Logger: logger})
//	if err != nil { … }                     // a setting that makes no sense, a port that is taken
//	err = g.Run(ctx)                        // until ctx ends and the streams have
//
// When ctx ends, readiness says 503 at once; requests are still taken for
// timeouts.shutdown_delay; then the listener closes, and what runs has
// timeouts.shutdown_grace to finish before it is cut; clients whose stream is cut are
// told so. The admin port answers until the end.
package gateway
