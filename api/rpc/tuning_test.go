package rpc_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/tuning"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// tuned runs automatic mode while engines deliver what hits says of the present prefix_length, ten
// answers a second, for some time.
func (o *operator) tuned(length time.Duration, hits func(prefixLength int) float64) {
	ctx, stop := context.WithCancel(o.t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { _ = o.admin.Tune(ctx) })
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Second) {
		for range 10 {
			o.admin.Observe(&feedback.Record{
				Pool: "pool", Streamed: true, TTFT: 200 * time.Millisecond,
				Usage: feedback.Usage{Prompt: 1000, HasPrompt: true, Cached: int(1000 * hits(o.pool.Config().HashLength())), HasCached: true},
			})
		}
	}
	stop()
	loop.Wait()
	synctest.Wait()
}

func (o *operator) tuning() *v1.PoolTuning {
	o.t.Helper()
	out, err := o.GetTuning(o.t.Context(), &v1.GetTuningRequest{})
	if err != nil || len(out.GetPools()) != 1 {
		o.t.Fatalf("%v, %v", out, err)
	}
	return out.GetPools()[0]
}

// Advice is applied step by step, said in the log and shared with the other routers; where less is
// delivered, it is taken back.
func TestAutomaticMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperator(t, withRequests(remembered(600), 1024))
		for _, b := range o.pool.Backends() {
			o.router.Scraped(o.pool, b, feedback.EngineState{At: time.Now(), Engine: "vllm", CapacityTokens: 50_000, BlockTokens: 16})
		}
		if got := o.tuning(); got.GetAutomatic() || got.GetPool() != "pool" || got.GetObservation() != nil || len(got.GetSteps()) != 0 {
			t.Errorf("by default: %v", got)
		}
		rules := tuning.Rules{Observation: 7 * time.Minute}
		o.admin.Automatic("pool", &rules)
		o.tuned(4*time.Minute, func(int) float64 { return .3 })
		if got := o.tuning(); !got.GetAutomatic() || !got.GetLeads() || got.GetObservation().AsDuration() != rules.Observation || !strings.Contains(got.GetDoing(), "observing") {
			t.Errorf("at first: %v", got)
		}
		o.tuned(2*time.Minute, func(int) float64 { return .3 })
		got := o.tuning()
		if len(got.GetSteps()) != 1 || o.pool.Config().PrefixLength != 4096 {
			t.Fatalf("after 5 parts: prefix_length %d, %v", o.pool.Config().PrefixLength, got)
		}
		if s := got.GetSteps()[0]; s.GetSetting() != "prefix_length" || s.GetFrom() != 1024 || s.GetTo() != 4096 || s.GetFate() != "watched" || s.GetBefore().GetHitRate() != .3 || s.GetAfter() != nil || !strings.Contains(s.GetWhy(), "is advised: ") {
			t.Errorf("%v", s)
		}
		if set := o.shared.Settings("pool"); set["prefix_length"] != "4096" || !strings.HasPrefix(set["tuning"], "watched prefix_length 1024 4096 ") {
			t.Errorf("shared: %v", set)
		}
		o.tuned(6*time.Minute, func(int) float64 { return .1 })
		if c := o.pool.Config(); c.PrefixLength != 1024 {
			t.Errorf("it was not taken back: %d", c.PrefixLength)
		}
		if set := o.shared.Settings("pool"); set["prefix_length"] != "" {
			t.Errorf("it is set, and not as configured: %v", set)
		}
		if s := o.tuning().GetSteps()[0]; s.GetFate() != "taken_back" || s.GetAfter().GetHitRate() != .1 || !strings.Contains(s.GetWhy(), "taken back: the hit rate fell from 30.0 % to 10.0 %") {
			t.Errorf("%v", s)
		}
		for _, want := range []string{`"by":"automatic mode","prefix_length":"1024 → 4096","step":"watched"`, `"by":"automatic mode","prefix_length":"4096 → 1024","step":"taken_back"`} {
			if !strings.Contains(o.log.String(), want) {
				t.Errorf("the log does not say %s:\n%s", want, o.log.String())
			}
		}
		o.admin.Automatic("pool", nil)
		if got := o.tuning(); got.GetAutomatic() || len(got.GetSteps()) != 0 {
			t.Errorf("turned off: %v", got)
		}
	})
}

// What another router has done is known here, and what nobody could have done is left alone.
func TestAutomaticModeOfOthers(t *testing.T) {
	o := newOperator(t)
	rules := tuning.Rules{Observation: time.Minute}
	o.shared.Set("pool", map[string]string{"tuning": "kept concurrency_threshold 4 16 false 1700000000000 0.5 0.01 1000000 0"})
	o.admin.Automatic("pool", &rules)
	if s := o.tuning().GetSteps(); len(s) != 1 || s[0].GetTo() != 16 || s[0].GetWhy() != "made by another router" {
		t.Errorf("%v", s)
	}
	o.shared.Set("pool", map[string]string{"tuning": "kept everything"})
	o.admin.Adopt("pool")
	if s := o.tuning().GetSteps(); len(s) != 1 || !strings.Contains(o.log.String(), "is not understood") {
		t.Errorf("%v", s)
	}
	if _, err := o.GetTuning(t.Context(), &v1.GetTuningRequest{Pool: "x"}); err == nil {
		t.Error("there is a pool x")
	}
}
