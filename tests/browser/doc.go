// Package browser holds the test that drives the dashboard in Debian's chromium, over a fleet
// of real processes: engine doubles, the router, requests in a closed loop; and over routers in
// the test's own process that remember what they are advised by, want a key, or share a Redis.
// What the browser is driven with comes by: make ui-test. Screenshots are left in out/browser.
package browser
