package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/internal/config"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// reloaded is the running configuration with a change, as a file would bring it.
func reloaded(t *testing.T, urls []string, change func(*config.Config)) *config.Config {
	t.Helper()
	c, _, err := config.FromBackends(urls)
	if err != nil {
		t.Fatal(err)
	}
	change(c)
	if _, err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReload: CF-01: what a file says differently is in force from the next request on, what was set at
// run time stays until it is reset, and no request notices.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engines := map[string]http.Handler{"b1:8000": &engine{}, "b2:8000": &engine{}, "b3:8000": &engine{}}
		urls := []string{"http://b1:8000", "http://b2:8000"}
		s := start(t, func(c *config.Config) {
			c.Pools[0].Backends = c.Pools[0].Backends[:0]
			*c = *reloaded(t, urls, func(*config.Config) {})
		}, engines)
		synctest.Wait()
		pool := s.Router().Pools()[0]
		s.setRouting(`{"config":{"w":3,"prefixLength":2048}}`)
		var streams sync.WaitGroup
		for range 8 {
			streams.Go(func() {
				if status, _, body := s.chat("hi", `,"stream":true,"max_tokens":20`); status != 200 || !strings.HasSuffix(body, "[DONE]\n\n") {
					t.Errorf("a stream over a reload: %d …%s", status, body[max(0, len(body)-50):])
				}
			})
		}
		time.Sleep(5 * time.Second)
		next := []string{"http://b2:8000", "http://b3:8000"}
		if err := s.Reload(reloaded(t, next, func(c *config.Config) {
			c.Pools[0].Routing.Strategy = router.LeastOutstanding
			c.Pools[0].Routing.PrefixLength = 4096
			c.Pools[0].Routing.BlockBytes = 512
			c.Timeouts.Connect = 7 * time.Second
		})); err != nil {
			t.Fatal(err)
		}
		got := pool.Config()
		if got.Strategy != router.LeastOutstanding || got.W != 3 || got.PrefixLength != 2048 || got.BlockBytes != 256 {
			t.Errorf("routed by %+v", got)
		}
		for range 6 {
			if _, header, _ := s.chat("hi", ""); header.Get("X-Warmroute-Backend") == "b1:8000" {
				t.Error("a backend that is not listed any more got a request")
			}
		}
		streams.Wait()
		log := s.log.String()
		for _, want := range []string{
			`"key":"pools[default].routing.strategy","from":"PREFIX_AWARE","to":"LEAST_OUTSTANDING_REQUESTS"`,
			`"key":"pools[default].backends[http://b1:8000]","change":"removed"`,
			`"key":"pools[default].backends[http://b3:8000]","change":"added"`,
			`"msg":"configured anew, but set at run time: strategy reset goes back to the configuration","pool":"default","settings":["prefix_length"]`,
			`"msg":"configuration changes that need a restart","changes":["pools[default].routing.block_bytes: 256 → 512","timeouts.connect: 3s → 7s"]`,
		} {
			if !strings.Contains(log, want) {
				t.Errorf("the log does not say %s", want)
			}
		}
		// The same again changes nothing, and says what still waits.
		before := pool.Backends()[0]
		if err := s.Reload(reloaded(t, next, func(c *config.Config) {
			c.Pools[0].Routing.Strategy = router.LeastOutstanding
			c.Pools[0].Routing.PrefixLength = 4096
			c.Timeouts.Connect = 7 * time.Second
		})); err != nil {
			t.Fatal(err)
		}
		if pool.Backends()[0] != before || strings.Count(s.log.String(), `configuration changed`) != strings.Count(log, `configuration changed`) {
			t.Error("the same configuration changed something")
		}
		s.setRouting(`{"reset":true}`)
		if got := pool.Config(); got.Strategy != router.LeastOutstanding || got.W != 2 || got.PrefixLength != 4096 {
			t.Errorf("after the reset: %+v", got)
		}
		s.stop()
	})
}

// TestReloadIsAtomic: where one of the changes cannot be taken over, none is.
func TestReloadIsAtomic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}})
		pool := s.Router().Pools()[0]
		// Together with what an operator has set, the new value makes no sense.
		c := reloaded(t, []string{"http://b9:8000"}, func(*config.Config) {})
		c.Pools[0].Routing.LoadFactor = 0.5
		if err := s.Reload(c); err == nil {
			t.Error("a load factor of 0.5 is taken over")
		}
		if got := pool.Config().LoadFactor; got != 1.5 || pool.Backends()[0].ID != "b1:8000" {
			t.Errorf("load factor %v, backends %v", got, pool.Backends()[0].ID)
		}
		if _, body := s.admin("/metrics"); !strings.Contains(body, `warmroute_config_reloads_total{result="failure"} 1`) {
			t.Error("the failure is not counted")
		}
		s.stop()
	})
}

// TestReloadIsRefusedBeforeItBegins: where the backends of a later pool cannot be taken over, those of
// an earlier one were never touched, what it held is still there, and nothing is routed differently.
func TestReloadIsRefusedBeforeItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		twoPools := func(c *config.Config) {
			second := c.Pools[0]
			second.Name, second.Models = "second", []config.Model{{Name: "other"}}
			second.Backends = []config.Backend{{URL: "http://b2:8000", Weight: 1}}
			c.Pools = append(c.Pools, second)
		}
		s := start(t, func(c *config.Config) {
			twoPools(c)
			c.Limits.IndexBlocks = 1024 // less than one for each backend of a full index
		}, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		first, second := s.Router().Pools()[0], s.Router().Pools()[1]
		member := first.Backends()[0]
		if status, _, _ := s.chat(longPrompt("held"), ""); status != 200 {
			t.Fatalf("a request got %d", status)
		}
		held := first.Status(time.Now())[0].Index
		c := reloaded(t, []string{"http://b9:8000"}, func(c *config.Config) {
			twoPools(c)
			c.Pools[0].Routing.Strategy, c.Pools[1].Routing.Strategy = router.Random, router.Random
			// As many as an index holds, and one that leaves is still remembered.
			for i := range 4094 {
				c.Pools[1].Backends = append(c.Pools[1].Backends, config.Backend{URL: fmt.Sprintf("http://c%d:8000", i), Weight: 1})
			}
		})
		if err := s.Reload(c); err == nil || !strings.Contains(err.Error(), `pool "second"`) {
			t.Fatalf("refused with %v, want a word on the pool", err)
		}
		for _, p := range []*router.Pool{first, second} {
			if got := p.Config().Strategy; got != router.PrefixAware {
				t.Errorf("%s is routed by %s", p.Name(), got)
			}
			if all := p.Backends(); len(all) != 1 || all[0].State(time.Now()) != backends.Up {
				t.Errorf("%s has %d backends, the first is %v", p.Name(), len(all), all[0].State(time.Now()))
			}
		}
		if first.Backends()[0] != member || strings.Contains(s.log.String(), "b9:8000") {
			t.Error("the first pool's backends were others for a while")
		}
		if got := first.Status(time.Now())[0].Index; got != held || got.Blocks == 0 {
			t.Errorf("of %+v the index holds %+v", held, got)
		}
		if status, _, _ := s.chat("hi", ""); status != 200 {
			t.Errorf("a request got %d", status)
		}
		if _, body := s.admin("/metrics"); !strings.Contains(body, `warmroute_config_reloads_total{result="failure"} 1`) {
			t.Error("the failure is not counted")
		}
		// What is refused differs again the next time.
		if err := s.Reload(reloaded(t, []string{"http://b9:8000"}, twoPools)); err != nil {
			t.Error(err)
		}
		if id := first.Backends()[1].ID; id != "b9:8000" || first.Backends()[1].State(time.Now()) != backends.Up {
			t.Errorf("%s is not taken over", id)
		}
		s.stop()
	})
}

// TestReloadBesideRegistrations: a reload that changes backends and routing, and somebody who registers
// backends meanwhile, do not wait for each other.
func TestReloadBesideRegistrations(t *testing.T) {
	s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}, "b2:8000": &engine{}})
	var registering sync.WaitGroup
	registering.Go(func() {
		operators := s.adminClient("")
		for i := range 200 {
			if _, err := operators.RegisterBackend(t.Context(), &v1.RegisterBackendRequest{Url: "http://b3:8000", Weight: float64(i + 1)}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 200 {
		urls := []string{"http://b1:8000", "http://b2:8000"}[:1+i%2]
		if err := s.Reload(reloaded(t, urls, func(c *config.Config) { c.Pools[0].Routing.ConcurrencyThreshold = 1 + i })); err != nil {
			t.Fatal(err)
		}
	}
	registering.Wait()
	if got := s.Router().Pools()[0].Config().ConcurrencyThreshold; got != 200 {
		t.Errorf("the threshold is %d", got)
	}
	s.stop()
}

// TestReloadKeepsWhatIsKnown: a backend that stays keeps its load and its cache.
func TestReloadKeepsWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}, "b2:8000": &engine{}})
		synctest.Wait()
		_, header, _ := s.chat(longPrompt("A"), "")
		home := header.Get("X-Warmroute-Backend")
		if err := s.Reload(reloaded(t, []string{"http://b2:8000", "http://b1:8000"}, func(c *config.Config) {
			c.Pools[0].Backends[0].Weight, c.Pools[0].Backends[1].Weight = 2, 2
		})); err != nil {
			t.Fatal(err)
		}
		if _, header, _ := s.chat(longPrompt("A"), ""); header.Get("X-Warmroute-Backend") != home || header.Get("X-Warmroute-Reason") != "longest_match" {
			t.Errorf("after a reload: %s by %s, want %s", header.Get("X-Warmroute-Backend"), header.Get("X-Warmroute-Reason"), home)
		}
		if w := s.Router().Pools()[0].Backends()[0].Weight(); w != 2 {
			t.Errorf("weight %v, want 2", w)
		}
		if got := s.state(home); got != backends.Up {
			t.Errorf("it is %v", got)
		}
		s.stop()
	})
}
