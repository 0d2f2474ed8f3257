package browser

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/feedback/tuning"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/redisindex"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// TestTuning looks at a router in automatic mode that shares Redis with another one, which makes a
// step when the script says so and is gone then; and at a router that is not in that mode.
func TestTuning(t *testing.T) {
	s := newStage(t)
	_, off := serve(t, newConfig(t))
	redis := redistest.Start(t)
	c := newConfig(t)
	c.Redis.Addresses = []string{redis.Addr}
	c.Pools[0].Tuning.Automatic, c.Pools[0].Tuning.Observation = true, tuning.MinObservation
	g, admin := serve(t, c)
	pool := c.Pools[0].Name
	other, err := redisindex.New(redisindex.Config{Addresses: c.Redis.Addresses}, kvindex.NewMemory(kvindex.MemoryConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	other.ShareSettings([]string{pool}, func(string) {})
	run(t, other.Run)
	control := commands(t, map[string]func(string) error{
		"/step": func(string) error {
			step := tuning.Step{
				Fate: tuning.Watched, Setting: tuning.PrefixLength, From: 65_536, To: 16_384, At: time.Now(),
				Before: tuning.Delivered{HitRate: .991, Error: .001, P90: 40 * time.Millisecond},
			}
			other.Set(pool, map[string]string{"prefix_length": "16384", "tuning": step.String()})
			return nil
		},
	})
	s.play(t, "tuning.mjs", map[string]any{
		"data": "http://" + g.Addr().String(), "admin": admin, "off": off, "model": model, "control": control,
	}, 5)
}
