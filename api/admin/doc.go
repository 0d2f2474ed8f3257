// Package admin serves the admin port: metrics, liveness, readiness, the state of
// the fleet, the latest decisions, and profiles.
//
// It shows what operators may see and clients may not, so it belongs on a loopback
// address or behind a firewall. It only reads; nothing can be changed through it.
// What it shows comes in through [Options], so that it depends neither on the
// metrics library nor on the proxy.
//
//	mux := admin.New(admin.Options{Router: r, Metrics: telemetry.Handler(), Recent: telemetry.Recent})
package admin
