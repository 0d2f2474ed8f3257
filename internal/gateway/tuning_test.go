package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// tuning is what a router says of automatic mode in its only pool.
func (s *stack) tuning() (automatic, leads bool, doing string) {
	s.t.Helper()
	status, _, answer := s.request(http.MethodPost, "http://"+adminAddr+"/warmroute.v1.AdminService/GetTuning", "{}", "Content-Type", "application/json")
	var out struct {
		Pools []struct {
			Automatic, Leads bool
			Doing            string
		}
	}
	if err := json.Unmarshal([]byte(answer), &out); status != http.StatusOK || err != nil || len(out.Pools) != 1 {
		s.t.Fatalf("%d %s: %v", status, answer, err)
	}
	return out.Pools[0].Automatic, out.Pools[0].Leads, out.Pools[0].Doing
}

// TestOneRouterTunes: of routers that share Redis one acts in automatic mode, and another one once
// that is gone, or is not in automatic mode any more.
func TestOneRouterTunes(t *testing.T) {
	redis := redistest.Start(t)
	launch := func() (*stack, *config.Config) {
		var running *config.Config
		return start(t, func(c *config.Config) {
			c.Redis.Addresses = []string{redis.Addr}
			c.Pools[0].Tuning.Automatic = true
			running = c
		}, map[string]http.Handler{"b1:8000": &engine{}}), running
	}
	leads := func(s *stack) bool { _, leads, _ := s.tuning(); return leads }
	await := func(what string, ok func() bool) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
			if time.Now().After(end) {
				t.Fatalf("never: %s", what)
			}
		}
	}
	a, _ := launch()
	await("the first one leads", func() bool { return leads(a) })
	b, configured := launch()
	await("the other one knows", func() bool { _, _, doing := b.tuning(); return doing == "another router acts" })
	if leads(b) {
		t.Error("two lead")
	}
	a.stop()
	await("the second one leads", func() bool { return leads(b) })
	off := *configured
	off.Pools = append([]config.Pool(nil), configured.Pools...)
	off.Pools[0].Tuning.Automatic = false
	if err := b.Reload(&off); err != nil {
		t.Fatal(err)
	}
	if automatic, _, _ := b.tuning(); automatic {
		t.Error("a reload did not turn it off")
	}
	await("it does not lead any more", func() bool { return redis.Do("EXISTS", "warmroute:lead") == int64(0) })
	if !strings.Contains(b.log.String(), `"key":"pools[default].tuning.automatic","from":"true","to":"false"`) {
		t.Errorf("the log does not say so:\n%s", b.log.String())
	}
	b.stop()
}
