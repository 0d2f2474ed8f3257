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

// setRouting changes how the only pool is routed, as an operator does, and returns the
// answer.
func (s *stack) setRouting(body string) string {
	s.t.Helper()
	status, _, answer := s.request(http.MethodPost, "http://"+adminAddr+"/warmroute.v1.AdminService/SetRoutingConfig", body, "Content-Type", "application/json")
	if status != http.StatusOK {
		s.t.Errorf("set %s: %d %s", body, status, answer)
	}
	return answer
}

// routedBy waits until a router decides by a strategy and a threshold.
func (s *stack) routedBy(strategy string, threshold int) {
	s.t.Helper()
	deadline, tick := time.Now().Add(30*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		c := s.Router().Pools()[0].Config()
		if c.Strategy == strategy && c.ConcurrencyThreshold == threshold {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("routed by %s, threshold %d, want %s, %d; log:\n%s", c.Strategy, c.ConcurrencyThreshold, strategy, threshold, s.log.String())
		}
		<-tick.C
	}
}

// audits are the lines of the log about how pools are routed.
func (s *stack) audits() (lines []map[string]any) {
	for line := range strings.Lines(s.log.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == "routing changed" {
			lines = append(lines, fields)
		}
	}
	return lines
}

// TestRoutersFollowWhatIsSet: what an operator sets on one router holds on all that share
// its Redis, on one that starts later, and over the restart of all of them, and each says
// so in its log; what goes back goes back to each one's own configuration.
func TestRoutersFollowWhatIsSet(t *testing.T) {
	redis := redistest.Start(t)
	launch := func(threshold int) *stack {
		return start(t, func(c *config.Config) {
			c.Redis.Addresses = []string{redis.Addr}
			c.Pools[0].Routing.ConcurrencyThreshold = threshold
		}, map[string]http.Handler{"b1:8000": &engine{}})
	}
	a, b := launch(100), launch(110)
	if answer := a.setRouting(`{"config":{"strategy":"RANDOM","concurrencyThreshold":7}}`); !strings.Contains(answer, `"shared":true`) {
		t.Errorf("the answer does not say that others follow: %s", answer)
	}
	a.routedBy("RANDOM", 7)
	b.routedBy("RANDOM", 7)
	b.setRouting(`{"config":{"strategy":"PREFIX_HASH"}}`)
	a.routedBy("PREFIX_HASH", 7)
	late := launch(120)
	late.routedBy("PREFIX_HASH", 7)
	for name, s := range map[string]*stack{"a": a, "b": b, "late": late} {
		audits := s.audits()
		if want := map[string]int{"a": 2, "b": 2, "late": 1}[name]; len(audits) != want {
			t.Errorf("%s has %d lines about it: %v", name, len(audits), audits)
		}
	}
	if audits := b.audits(); len(audits) == 2 && (audits[0]["by"] != "another router" || audits[0]["strategy"] != "PREFIX_AWARE → RANDOM" || audits[1]["by"] == "another router") {
		t.Errorf("the log of b: %v", audits)
	}
	a.stop()
	b.stop()
	late.stop()
	again := launch(130)
	again.routedBy("PREFIX_HASH", 7)
	other := launch(140)
	other.routedBy("PREFIX_HASH", 7)
	other.setRouting(`{"reset":true}`)
	again.routedBy("PREFIX_AWARE", 130)
	other.routedBy("PREFIX_AWARE", 140)
}

// TestRPC01RedisHangs: while Redis hangs, callers with short deadlines get their decisions,
// and operators' changes hold.
func TestRPC01RedisHangs(t *testing.T) {
	redis := redistest.Start(t)
	s := start(t, func(c *config.Config) {
		c.Redis.Addresses = []string{redis.Addr}
		c.Pools[0].Models = []config.Model{{Name: "m"}} // nothing has to be learned first
	}, map[string]http.Handler{"b1:8000": &engine{}})
	s.setRouting(`{"config":{"concurrencyThreshold":50}}`)
	deadline := time.Now().Add(30 * time.Second)
	for redis.Do("EXISTS", "warmroute:settings:{default}").(int64) == 0 { // it is connected, and has written
		if time.Now().After(deadline) {
			t.Fatalf("it does not connect; log:\n%s", s.log.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
	redis.Stop()
	defer redis.Continue()
	const call, body = "http://" + dataAddr + "/warmroute.v1.RoutingService/Route", `{"prompt":{"model":"m","text":"hello"}}`
	decided := 0
	for range 20 {
		status, _, answer := s.request(http.MethodPost, call, body, "Content-Type", "application/json", "Connect-Timeout-Ms", "50")
		switch {
		case status == http.StatusOK && strings.Contains(answer, `"decisionId"`):
			decided++
		case !strings.Contains(answer, `"deadline_exceeded"`): // the machine may be busy
			t.Errorf("while Redis hangs: %d %s", status, answer)
		}
	}
	if decided < 10 {
		t.Errorf("%d of 20 calls got a decision within 50 ms", decided)
	}
	s.setRouting(`{"config":{"strategy":"RANDOM"}}`)
	s.routedBy("RANDOM", 50)
}

// TestWhatIsSetWithoutRedis holds until the process ends.
func TestWhatIsSetWithoutRedis(t *testing.T) {
	s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}})
	if answer := s.setRouting(`{"config":{"strategy":"RANDOM"}}`); strings.Contains(answer, "shared") {
		t.Errorf("the answer says that others follow: %s", answer)
	}
	s.routedBy("RANDOM", 128)
	s.stop()
	start(t, nil, map[string]http.Handler{"b1:8000": &engine{}}).routedBy("PREFIX_AWARE", 128)
}
