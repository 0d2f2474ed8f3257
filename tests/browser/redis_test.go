package browser

import (
	"testing"

	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// TestRedis looks at a router that shares a Redis with another one, and at one that shares a
// namespace of it with nobody. Redis ends and begins again when the script says so.
func TestRedis(t *testing.T) {
	s := newStage(t)
	redis := redistest.Start(t)
	share := func(namespace string) (admin string) {
		c := newConfig(t)
		c.Redis.Addresses, c.Redis.Namespace = []string{redis.Addr}, namespace
		_, admin = serve(t, c)
		return admin
	}
	admin, _, lone := share("fleet"), share("fleet"), share("lone")
	control := commands(t, map[string]func(string) error{
		"/redis/kill":  func(string) error { redis.Kill(); return nil },
		"/redis/start": func(string) error { redis.Start(); return nil },
	})
	s.play(t, "redis.mjs", map[string]any{"admin": admin, "lone": lone, "control": control}, 3)
}
