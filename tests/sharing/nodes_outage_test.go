package sharing

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// TestRD06Cluster: a node of a cluster is lost and comes back empty, and slots move to other
// nodes, all under traffic.
func TestRD06Cluster(t *testing.T) {
	c := startCluster(t)
	inCluster := func(config *config.Config) {
		config.Redis.Addresses, config.Redis.Cluster = c.addresses(), true
	}
	behind := stubs(t, stubCount, briefly)
	a, b := open(t, behind, inCluster), open(t, behind, inCluster)
	awaitShared(t, a, b)
	const stream = "warmroute:1:{default}:stream"
	lost := c.nodes[c.owner(c.nodes[0].Do("CLUSTER", "KEYSLOT", stream).(int64))]
	refused := a.state().Sharing.Failures["refused"]
	suffer(t, []outage{
		{
			name:  "the node with the stream is lost",
			begin: func(*testing.T) { lost.Kill() },
			end: func(*testing.T) {
				lost.Start()
				c.awaitWhole()
			},
		},
		{
			name: "slots move",
			begin: func(*testing.T) {
				c.move(stream)
				c.move("warmroute:1:backends")
				for shard := range 16 {
					c.move(fmt.Sprintf("warmroute:1:{default/%x}:b0:80", shard))
				}
			},
			end:       func(*testing.T) {},
			momentary: true,
		},
	}, a, b)
	if got := a.state().Sharing.Failures["refused"]; got != refused {
		t.Errorf("%d commands were refused: want none that reach over slots", got-refused)
	}
}

// TestRD04Sentinel: the primary dies, and sentinels make the replica the primary.
func TestRD04Sentinel(t *testing.T) {
	redistest.Find(t, "redis-sentinel")
	primary := redistest.Start(t)
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica := redistest.Start(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	await(t, "the replica follows", func() bool {
		role, _ := replica.Do("ROLE").([]any)
		return len(role) > 3 && role[3] == "connected"
	})
	address := sentinel(t, primary)
	watched := func(c *config.Config) {
		c.Redis.Addresses, c.Redis.SentinelMaster = []string{address}, "fleet"
	}
	behind := stubs(t, stubCount, briefly)
	a, b := open(t, behind, watched), open(t, behind, watched)
	awaitShared(t, a, b)
	suffer(t, []outage{{
		name:  "the primary dies",
		begin: func(*testing.T) { primary.Kill() },
		end: func(t *testing.T) {
			took := await(t, "the replica is the primary", func() bool {
				role, _ := replica.Do("ROLE").([]any)
				return len(role) > 0 && role[0] == "master"
			})
			t.Logf("the failover took %v more", took.Round(10*time.Millisecond))
		},
	}}, a, b)
}
