package gateway

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/internal/config"
)

// pages is an engine whose metrics the test decides.
type pages struct {
	engine

	mu    sync.Mutex
	page  string // empty: 404
	hangs bool
	asked int
}

func (p *pages) set(page string, hangs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.page, p.hangs = page, hangs
}

func (p *pages) looks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		p.engine.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	page, hangs := p.page, p.hangs
	p.asked++
	p.mu.Unlock()
	switch {
	case hangs:
		<-r.Context().Done()
	case page == "":
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		io.WriteString(w, page)
	}
}

const vllmPage = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 3.0\n" +
	"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\"} 0.0\n"

const sglangPage = "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{model_name=\"m\"} 5.0\n" +
	"# TYPE sglang:token_usage gauge\nsglang:token_usage{model_name=\"m\"} 0.25\n"

// logged counts how often the log has a text.
func (s *stack) logged(text string) int { return strings.Count(s.log.String(), text) }

const (
	noMetrics   = `"level":"WARN","msg":"no metrics: the router works on its own counts for this backend"`
	metricsBack = `"level":"INFO","msg":"metrics can be read again"`
)

// SC-08: an engine without metrics works on the router's own counts, is told of once,
// and shows in a gauge. SGLang's names are understood.
func TestSC08EnginesWithoutMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off, sglang := &pages{}, &pages{page: sglangPage}
		s := start(t, nil, map[string]http.Handler{"off:8000": off, "sglang:8000": sglang})
		time.Sleep(time.Hour)
		for range 20 {
			if status, _, body := s.chat("hi", ""); status != 200 {
				t.Fatalf("%d %s", status, body)
			}
		}
		if requests, _ := off.counts(); requests == 0 {
			t.Error("the engine without metrics gets nothing")
		}
		if n := s.logged(noMetrics); n != 1 || s.logged(`"backend":"off:8000","error":"backend off:8000: /metrics answered with status 404"`) != 1 {
			t.Errorf("%d warnings in an hour, want one:\n%s", n, s.log)
		}
		if n := off.looks(); n < 600 || n > 800 {
			t.Errorf("%d looks in an hour, want one in 5 s", n)
		}
		_, body := s.admin("/metrics")
		for _, series := range []string{
			`warmroute_backend_scrape_up{backend="off:8000",pool="default"} 0`,
			`warmroute_backend_scrape_up{backend="sglang:8000",pool="default"} 1`,
			`warmroute_backend_engine_running_requests{backend="sglang:8000",pool="default"} 5`,
			`warmroute_backend_engine_kv_usage_ratio{backend="sglang:8000",pool="default"} 0.25`,
		} {
			if !strings.Contains(body, series+"\n") {
				t.Errorf("there is no %s", series)
			}
		}
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "warmroute_backend_engine_") && strings.Contains(line, "off:8000") {
				t.Errorf("known of an engine that says nothing: %s", line)
			}
			if strings.HasPrefix(line, "warmroute_backend_engine_waiting") {
				t.Errorf("SGLang did not say this: %s", line)
			}
		}
		if _, body := s.admin("/debug/state"); !strings.Contains(body, `/metrics answered with status 404`) {
			t.Errorf("/debug/state does not say why: %s", body)
		}
	})
}

// An engine whose metrics come and go does not flood the log, and what it said of a
// moment is not shown while it says nothing.
func TestMetricsThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &pages{page: vllmPage}
		s := start(t, nil, map[string]http.Handler{"b1:8000": e})
		const running = `warmroute_backend_engine_running_requests{backend="b1:8000",pool="default"} 3`
		shown := func() bool {
			_, body := s.admin("/metrics")
			return strings.Contains(body, running)
		}
		time.Sleep(10 * time.Second)
		if !shown() {
			t.Error("what the engine runs is not shown")
		}
		for range 50 { // in 8 1/3 minutes
			e.set("", false)
			time.Sleep(5 * time.Second)
			if shown() {
				t.Fatal("a number is shown although it is not known any more")
			}
			e.set(vllmPage, false)
			time.Sleep(5 * time.Second)
		}
		if w, i := s.logged(noMetrics), s.logged(metricsBack); w != 1 || i != 1 {
			t.Errorf("%d warnings and %d recoveries, want one each", w, i)
		}
		time.Sleep(10 * time.Minute)
		e.set("<html>", false)
		time.Sleep(10 * time.Second)
		e.set(vllmPage, false)
		time.Sleep(10 * time.Second)
		if w, i := s.logged(noMetrics), s.logged(metricsBack); w != 2 || i != 2 {
			t.Errorf("%d warnings and %d recoveries after a quiet time, want two each", w, i)
		}
	})
}

// SC-07: an engine that takes connections and says nothing holds nobody up.
func TestSC07AHungEngineHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung, fine := &pages{hangs: true}, &pages{page: vllmPage}
		s := start(t, nil, map[string]http.Handler{"hung:8000": hung, "fine:8000": fine})
		time.Sleep(time.Minute)
		if n := fine.looks(); n < 11 || n > 14 {
			t.Errorf("%d looks at the other engine in a minute, want one in 5 s", n)
		}
		if !strings.Contains(s.log.String(), "backend hung:8000: no metrics within 2s (scrape.timeout)") {
			t.Errorf("log: %s", s.log)
		}
		begin := time.Now()
		if status, _, _ := s.chat("hi", "", "X-Request-Id", "r"); status != 200 || time.Since(begin) > time.Second {
			t.Errorf("%d after %v", status, time.Since(begin))
		}
	})
}

// An engine that stands in two pools is asked once for both.
func TestSharedEnginesAreScrapedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &pages{page: vllmPage}
		s := start(t, func(c *config.Config) {
			second := c.Pools[0]
			second.Name, second.Models = "second", []config.Model{{Name: "other", Served: "m"}}
			c.Pools = append(c.Pools, second)
		}, map[string]http.Handler{"b1:8000": e})
		time.Sleep(time.Minute)
		if n := e.looks(); n < 11 || n > 14 {
			t.Errorf("%d looks in a minute, want one in 5 s", n)
		}
		_, body := s.admin("/metrics")
		for _, pool := range []string{"default", "second"} {
			if !strings.Contains(body, `warmroute_backend_engine_running_requests{backend="b1:8000",pool="`+pool+`"} 3`) {
				t.Errorf("nothing is known in pool %s", pool)
			}
		}
		if len(s.router.Pools()) != 2 {
			t.Errorf("%d pools", len(s.router.Pools()))
		}
	})
}

func TestScrapingCanBeSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &pages{page: vllmPage}
		s := start(t, func(c *config.Config) { c.Scrape.Enabled = false }, map[string]http.Handler{"b1:8000": e})
		time.Sleep(time.Minute)
		if n := e.looks(); n != 0 {
			t.Errorf("%d looks", n)
		}
		if _, body := s.admin("/metrics"); strings.Contains(body, "scrape") || strings.Contains(body, "backend_engine_") {
			t.Error("series of what is switched off")
		}
		if _, body := s.admin("/debug/state"); !strings.Contains(body, `"scrape": null`) || !strings.Contains(body, `"engine": null`) {
			t.Errorf("/debug/state: %s", body)
		}
	})
}

// The path and the interval are what the configuration says, and what has left is
// forgotten.
func TestScrapeFollowsTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		e := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stats" {
				asked.Add(1)
				http.NotFound(w, r)
				return
			}
			new(engine).ServeHTTP(w, r)
		})
		s := start(t, func(c *config.Config) { c.Scrape.Path, c.Scrape.Interval = "/stats", time.Minute },
			map[string]http.Handler{"b1:8000": e, "b2:8000": e})
		time.Sleep(10 * time.Minute)
		if n := asked.Load(); n < 18 || n > 24 {
			t.Errorf("%d looks at two engines in 10 minutes, want one a minute each", n)
		}
		if _, err := s.router.Pools()[0].SetBackends([]backends.Spec{{URL: "http://b1:8000", Rank: backends.NoRank}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s.unreadable.mu.Lock()
		defer s.unreadable.mu.Unlock()
		if len(s.unreadable.told) != 1 {
			t.Errorf("%d backends are remembered, want the one that is there", len(s.unreadable.told))
		}
	})
}
