package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/internal/config"
)

// withoutRedis configures a Redis that nobody listens for.
func withoutRedis(c *config.Config) { c.Redis.Addresses = []string{"127.0.0.1:1"} }

// TestRD01RedisIsAway: OB-06 too: a router whose Redis is not there starts, serves, says so, and is
// ready all the same.
func TestRD01RedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, withoutRedis, map[string]http.Handler{"b1:8000": &engine{}})
		time.Sleep(5 * time.Second)
		if status, _, body := s.chat("hi", ""); status != http.StatusOK {
			t.Errorf("chat: %d %s", status, body)
		}
		if status, body := s.admin("/readyz"); status != http.StatusOK || !strings.Contains(body, `"status": "degraded"`) {
			t.Errorf("readiness: %d %s", status, body)
		}
		var state struct {
			Sharing struct {
				State     string            `json:"state"`
				Failures  map[string]uint64 `json:"failures"`
				LastError string            `json:"last_error"`
			} `json:"sharing"`
		}
		if _, body := s.admin("/debug/state"); json.Unmarshal([]byte(body), &state) != nil || state.Sharing.State != "alone" ||
			state.Sharing.Failures["unreachable"] == 0 || !strings.Contains(state.Sharing.LastError, "127.0.0.1:1") {
			t.Errorf("state: %+v", state)
		}
		time.Sleep(10 * time.Minute)
		if log := s.log.String(); strings.Count(log, "not shared") != 1 || strings.Count(log, "redis") > 30 {
			t.Errorf("%d lines of Redis in the log:\n%.3000s", strings.Count(log, "redis"), log)
		}
		s.stop()
		time.Sleep(2 * time.Second) // the client library looks once a second whether it is closed
	})
}
