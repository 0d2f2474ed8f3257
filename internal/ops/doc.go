// Package ops is the subcommands by which operators see and change a router that runs:
// status, backends, strategy, advise, tuning, hits, index, decisions over AdminService, and
// explain over RoutingService. They print tables for people, and the messages themselves as JSON for
// programs.
package ops
