package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/warmroute/warmroute/kvindex/redisindex"
	"github.com/warmroute/warmroute/router"
)

func TestRedisMetrics(t *testing.T) {
	tm, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	status := redisindex.Status{
		Pools: map[string]router.Sharing{"chat": router.Fresh, "code": router.Cut}, Sharing: router.Cut, Breaker: "open", SyncAge: 3 * time.Second, Lag: 2 * time.Millisecond, ClockOffset: -time.Hour,
		Published: 5, Dropped: 2, Failures: map[redisindex.Failure]uint64{redisindex.ReadOnly: 7},
	}
	if err := tm.ReadRedis(func() redisindex.Status { return status }); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP warmroute_redis_breaker 1 for the state of the breaker, 0 for the others.
# TYPE warmroute_redis_breaker gauge
warmroute_redis_breaker{state="closed"} 0
warmroute_redis_breaker{state="half-open"} 0
warmroute_redis_breaker{state="open"} 1
# HELP warmroute_redis_clock_offset_seconds What the server's clock is ahead of this machine's; 0 before they were compared.
# TYPE warmroute_redis_clock_offset_seconds gauge
warmroute_redis_clock_offset_seconds -3600
# HELP warmroute_redis_failures_total Commands that failed, by kind.
# TYPE warmroute_redis_failures_total counter
warmroute_redis_failures_total{kind="denied"} 0
warmroute_redis_failures_total{kind="out_of_memory"} 0
warmroute_redis_failures_total{kind="read_only"} 7
warmroute_redis_failures_total{kind="refused"} 0
warmroute_redis_failures_total{kind="unreachable"} 0
warmroute_redis_failures_total{kind="unready"} 0
warmroute_redis_failures_total{kind="wrong_type"} 0
# HELP warmroute_redis_published_records_total Uses of prompts that this router had to tell.
# TYPE warmroute_redis_published_records_total counter
warmroute_redis_published_records_total 7
# HELP warmroute_redis_pool_up 1 while what this router writes of a pool comes back to it.
# TYPE warmroute_redis_pool_up gauge
warmroute_redis_pool_up{pool="chat"} 1
warmroute_redis_pool_up{pool="code"} 0
# HELP warmroute_redis_sharing 1 for how far routers know of each other, 0 for the others.
# TYPE warmroute_redis_sharing gauge
warmroute_redis_sharing{state="alone"} 0
warmroute_redis_sharing{state="cut"} 1
warmroute_redis_sharing{state="fresh"} 0
# HELP warmroute_redis_stream_lag_seconds How long the last record took from the server to this router; 0 before any.
# TYPE warmroute_redis_stream_lag_seconds gauge
warmroute_redis_stream_lag_seconds 0.002
# HELP warmroute_redis_sync_age_seconds Time since something that this router wrote last came back, or since its start.
# TYPE warmroute_redis_sync_age_seconds gauge
warmroute_redis_sync_age_seconds 3
# HELP warmroute_redis_up 1 while what this router writes comes back to it, of every pool.
# TYPE warmroute_redis_up gauge
warmroute_redis_up 0
`
	if err := testutil.GatherAndCompare(tm.registry, strings.NewReader(want),
		"warmroute_redis_breaker", "warmroute_redis_clock_offset_seconds", "warmroute_redis_failures_total",
		"warmroute_redis_pool_up", "warmroute_redis_published_records_total", "warmroute_redis_sharing", "warmroute_redis_stream_lag_seconds",
		"warmroute_redis_sync_age_seconds", "warmroute_redis_up"); err != nil {
		t.Error(err)
	}
}
