// Package rpc is the routing service for callers that send requests to engines
// themselves: they ask where ([Service.Route]), send, and report what came of it
// ([Service.Report]); [Service.Explain] says what would be decided and changes nothing.
// [Admin] is what operators see and change. Both are served as Connect, gRPC and
// gRPC-Web on one path each, with health and reflection.
//
// Decisions are made by the same router, on prompts that are read by the same parser and
// turned into the same question ([intake.Ask]), as those of the proxy; a request gets
// the same backend for the same reason from both.
//
// # Leases
//
// A decision holds an in-flight slot until it is reported. A caller may die, so each has
// a lease: when it ends without a report, the slot is given back and the entries that the
// decision added to the index are taken back, unless a first token was reported before.
// Reports renew leases. A report for a decision that has ended does nothing.
//
// Nothing but its lease ends what a caller holds that does not report. Where there are keys, a
// tenant may therefore hold only a share of the decisions and of each pool's slots that way
// ([Options.QueueShare]), and ask for shorter leases ([MaxKeyedLease]).
//
// # Errors
//
// Every error is made by one function ([fault.connect]): it has the code of its kind, a
// message that names the field or the setting, and, where asking again later helps, a
// Retry-After.
package rpc
