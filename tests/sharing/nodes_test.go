package sharing

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// cluster is three servers that share the slots of a cluster among them.
type cluster struct {
	t     *testing.T
	nodes []*redistest.Server
}

const slots = 16384

func startCluster(t *testing.T) *cluster {
	t.Helper()
	const count = 3
	c := &cluster{t: t}
	for i := range count {
		node := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000")
		c.nodes = append(c.nodes, node)
		node.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		node.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/count, (i+1)*slots/count-1)
		host, port, _ := net.SplitHostPort(c.nodes[0].Addr)
		node.Do("CLUSTER", "MEET", host, port)
	}
	c.awaitWhole()
	return c
}

// awaitWhole waits until every node says that all slots are served by three of them.
func (c *cluster) awaitWhole() {
	c.t.Helper()
	await(c.t, "the cluster is whole", func() bool {
		for _, node := range c.nodes {
			info, _ := node.Do("CLUSTER", "INFO").(string)
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_size:3") {
				return false
			}
		}
		return true
	})
}

func (c *cluster) addresses() (all []string) {
	for _, node := range c.nodes {
		all = append(all, node.Addr)
	}
	return all
}

// owner is the number of the node that serves a slot.
func (c *cluster) owner(slot int64) int {
	c.t.Helper()
	for i, node := range c.nodes {
		if c.serves(node, slot) {
			return i
		}
	}
	c.t.Fatalf("nobody serves slot %d", slot)
	return 0
}

// serves reports whether a node serves a slot, as itself says.
func (c *cluster) serves(node *redistest.Server, slot int64) bool {
	text, _ := node.Do("CLUSTER", "NODES").(string)
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "myself") {
			continue
		}
		for _, field := range strings.Fields(line)[8:] {
			var from, to int64
			if n, _ := fmt.Sscanf(field, "%d-%d", &from, &to); n == 1 {
				to = from
			}
			if from <= slot && slot <= to && !strings.HasPrefix(field, "[") {
				return true
			}
		}
	}
	return false
}

// move gives the slot of a key to the next node, with all keys in it, as resharding does.
func (c *cluster) move(key string) {
	c.t.Helper()
	slot := c.nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64)
	number := c.owner(slot)
	from, to := c.nodes[number], c.nodes[(number+1)%len(c.nodes)]
	fromID, toID := from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID")
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	host, port, _ := net.SplitHostPort(to.Addr)
	for {
		keys, _ := from.Do("CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		c.awaitWhole() // on a busy machine nodes lose sight of each other for moments
		from.Do(append([]any{"MIGRATE", host, port, "", 0, 5000, "REPLACE", "KEYS"}, keys...)...)
	}
	for _, node := range []*redistest.Server{to, from} {
		node.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
}

// sentinel starts a sentinel that watches a primary, and returns its address.
func sentinel(t *testing.T, primary *redistest.Server) (address string) {
	t.Helper()
	program := redistest.Find(t, "redis-sentinel")
	host, port, _ := net.SplitHostPort(primary.Addr)
	own := fmt.Sprint(redistest.FreePort(t))
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := strings.Join([]string{
		"port " + own, "bind 127.0.0.1", "dir " + filepath.Dir(file),
		"sentinel monitor fleet " + host + " " + port + " 1",
		"sentinel down-after-milliseconds fleet 500", "sentinel failover-timeout fleet 3000", "",
	}, "\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	process := exec.CommandContext(context.Background(), program, file) // not the test's context: others are ended before it
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait() // it says that it was killed
	})
	address = net.JoinHostPort("127.0.0.1", own)
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	await(t, "the sentinel knows a replica", func() bool {
		found, err := client.Do(t.Context(), "SENTINEL", "REPLICAS", "fleet").Slice()
		return err == nil && len(found) > 0
	})
	return address
}
