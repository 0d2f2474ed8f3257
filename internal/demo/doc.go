// Package demo is `warmroute demo`: a small fleet of engine doubles and the router
// on loopback ports of one process, to which the same workload of real text is sent
// once per strategy, and a table of what came of it.
//
// It owns the fleet, the client that plays sessions in a closed loop, and the
// measures, which are taken where a user would take them: at the client. [Run] is
// the measurement, [Command] the program around it. Nothing in the router or the
// doubles knows of it; all that it learns comes over sockets.
//
// The doubles run faster than time by [Config].Speed. All times in results are
// those of the engines: what the client's clock showed × the speed. The router's
// and the client's own work is stretched by the same factor, which overstates it.
package demo
