package telemetry

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/kvindex"
)

// What is remembered is measured, and what is too large is counted.
func TestRememberedRequestsAreMeasured(t *testing.T) {
	store := recent.New(recent.MinBytes)
	tel, err := New(Options{Requests: store})
	if err != nil {
		t.Fatal(err)
	}
	tel.Observe(hashed())
	tel.Observe(hashed())
	tel.Observe(answered()) // has no prompt
	large := hashed()
	large.Keys = make([]kvindex.Key, recent.MinBytes/8)
	tel.Observe(large)
	const want = `
# HELP warmroute_recent_requests Requests that are remembered for advice now.
# TYPE warmroute_recent_requests gauge
warmroute_recent_requests 2
# HELP warmroute_recent_requests_left_out_total Requests that were too large to be remembered for advice.
# TYPE warmroute_recent_requests_left_out_total counter
warmroute_recent_requests_left_out_total 1
`
	if err := testutil.GatherAndCompare(tel.registry, strings.NewReader(want), "warmroute_recent_requests", "warmroute_recent_requests_left_out_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(tel.registry, "warmroute_recent_requests_bytes"); err != nil || n != 1 || store.Stats().Bytes == 0 {
		t.Errorf("%d series of bytes, %v; the store has %d", n, err, store.Stats().Bytes)
	}
}

// Remembering a request whose prompt is known costs the hot path no memory.
func TestRememberingAllocatesNothing(t *testing.T) {
	tel, err := New(Options{Requests: recent.New(recent.MinBytes)})
	if err != nil {
		t.Fatal(err)
	}
	r := hashed()
	for range 100_000 { // until the oldest leave
		tel.remember(r)
	}
	if n := testing.AllocsPerRun(1000, func() { tel.remember(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
