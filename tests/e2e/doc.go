// Package e2e tests the whole router over real sockets: the object that
// `warmroute serve` runs, engine doubles behind it, and plain HTTP clients in
// front. One file runs the two binaries instead.
//
// Tests are named after the field cases they show. Whatever a test does, at its end
// nothing is in flight and no count was ever negative; the helper that starts fleets
// checks that for all of them. Nothing leaves loopback.
package e2e
