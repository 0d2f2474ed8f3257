// Package redistest starts real Redis servers for tests: each on a free port of loopback,
// in a directory of its own, without persistence, and ended with the test.
//
// Where redis-server is missing, tests are skipped; where the environment has CI=true,
// they fail.
package redistest
