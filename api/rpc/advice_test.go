package rpc_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/kvindex"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// remembered are questions about 30 documents behind a head of 2 KiB that all have in common, one
// a second.
func remembered(n int) *recent.Store {
	s := recent.New(recent.MinBytes)
	for i := range n {
		remember(s, i)
	}
	return s
}

func remember(s *recent.Store, i int) {
	const blocks, head = 64, 8
	keys := make([]kvindex.Key, blocks)
	document := 1 + int(workload.Mix(uint64(i))%31)
	for j := range keys {
		keys[j] = kvindex.Key(j + 1)
		if j >= head {
			keys[j] += kvindex.Key(document << 10)
		}
	}
	keys[blocks-1] = kvindex.Key(i<<20 + 1<<40) // the question
	s.Add(&recent.Request{Pool: "pool", Keys: keys, BlockBytes: 256, StreamBytes: blocks * 256, Facts: recent.Facts{
		Arrived: time.Unix(1_000_000, 0).Add(time.Duration(i) * time.Second), Duration: 3 * time.Second, TTFT: 200 * time.Millisecond,
		PromptTokens: blocks * 64, CachedTokens: blocks * 32, OutputTokens: 100,
	}})
}

// withRequests gives a world what was remembered, and has its pool hash so much of each prompt.
func withRequests(s *recent.Store, prefixLength int) func(*setup) {
	return func(c *setup) { c.requests, c.config.PrefixLength = s, prefixLength }
}

// What is wrong is found and said with what it rests on, and is kept until it may be another.
func TestGetAdvice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remembered(600)
		o := newOperator(t, withRequests(store, 1024))
		for _, b := range o.pool.Backends() { // three of them hold the documents, one does not
			o.router.Scraped(o.pool, b, feedback.EngineState{At: time.Now(), Engine: "vllm", CapacityTokens: 50_000, BlockTokens: 16})
		}
		get := func(in *v1.GetAdviceRequest) *v1.GetAdviceResponse {
			t.Helper()
			out, err := o.GetAdvice(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		first := get(&v1.GetAdviceRequest{})
		a := first.GetAdvice()
		if first.GetProgress() != nil || a.GetTooLittle() != "" || a.GetPool() != "pool" || !a.GetMade().AsTime().Equal(time.Now()) {
			t.Fatalf("advice: %v", first)
		}
		if c := a.GetChange(); c == nil || c.PrefixLength == nil || c.GetPrefixLength() < 2048 || c.ConcurrencyThreshold != nil || c.Strategy != nil {
			t.Errorf("of a head of 2 KiB and a prefix_length of 1024, the change is %v", c)
		}
		if a.GetPresent().GetPrefixLength() != 1024 || a.GetAdvised().GetPrefixLength() != a.GetChange().GetPrefixLength() {
			t.Errorf("present %v, advised %v", a.GetPresent(), a.GetAdvised())
		}
		if e := a.GetExpected().GetHitRate(); e.GetLow() <= 0 || e.GetEstimate() < e.GetLow() || e.GetHigh() < e.GetEstimate() {
			t.Errorf("expected %v", a.GetExpected())
		}
		if got := a.GetThen().GetHitRate() - a.GetNow().GetHitRate(); got != a.GetExpected().GetHitRate().GetEstimate() {
			t.Errorf("the hit rate changes by %v, expected is %v", got, a.GetExpected())
		}
		wantEvidence := &v1.AdviceEvidence{Requests: 600, Counted: 480, Whole: true, HitRate: new(.5), Reported: 1, LongestPrompt: 16384}
		ignored := protocmp.IgnoreFields(wantEvidence, "from", "to", "ttft_p90")
		if diff := cmp.Diff(wantEvidence, a.GetEvidence(), protocmp.Transform(), ignored); diff != "" {
			t.Errorf("evidence (-want +got):\n%s", diff)
		}
		if e := a.GetEvidence(); e.GetTo().AsTime().Sub(e.GetFrom().AsTime()) != 599*time.Second || e.GetTtftP90().AsDuration() != 200*time.Millisecond {
			t.Errorf("evidence %v", e)
		}
		var settings []string
		for _, c := range a.GetCurves() {
			settings = append(settings, c.GetSetting())
			if len(c.GetPoints()) < 3 || (c.GetVerdict() == "") != (c.GetReason() == "") {
				t.Errorf("curve %v", c)
			}
			for _, p := range c.GetPoints() {
				m := p.GetMeasure()
				if p.GetValue() == "" || m.GetHitRate() <= 0 || m.GetTtftP90().AsDuration() < m.GetTtftP50().AsDuration() || m.GetSkew() < 1 || m.GetDistinctPrefixes() == 0 {
					t.Errorf("%s: point %v", c.GetSetting(), p)
				}
			}
		}
		if diff := cmp.Diff([]string{"prefix_length", "concurrency_threshold", "min_match_ratio", "strategy", "backends"}, settings); diff != "" {
			t.Errorf("curves (-want +got):\n%s", diff)
		}
		if a.GetCurves()[0].GetVerdict() != "set" || len(a.GetCautions()) < 2 {
			t.Errorf("verdict %q, cautions %q", a.GetCurves()[0].GetVerdict(), a.GetCautions())
		}

		time.Sleep(time.Minute)
		for i := range 59 {
			remember(store, 600+i)
		}
		if diff := cmp.Diff(first, get(&v1.GetAdviceRequest{Pool: "pool"}), protocmp.Transform()); diff != "" {
			t.Errorf("less than a tenth of the requests is new (-first +again):\n%s", diff)
		}
		remember(store, 659)
		if again := get(&v1.GetAdviceRequest{}).GetAdvice(); again.GetMade().AsTime().Equal(a.GetMade().AsTime()) || again.GetEvidence().GetRequests() != 660 {
			t.Errorf("a tenth is new: %v", again.GetEvidence())
		}
		// What was advised is applied: there is nothing more to change.
		if _, err := o.SetRoutingConfig(t.Context(), &v1.SetRoutingConfigRequest{Config: a.GetChange()}); err != nil {
			t.Fatal(err)
		}
		if after := get(&v1.GetAdviceRequest{}).GetAdvice(); after.GetChange() != nil || after.GetPresent().GetPrefixLength() != a.GetChange().GetPrefixLength() {
			t.Errorf("after it was applied: present %v, change %v", after.GetPresent(), after.GetChange())
		}
	})
}

func TestAdviceOfTooLittle(t *testing.T) {
	store := remembered(20)
	o := newOperator(t, withRequests(store, 0))
	out, err := o.GetAdvice(t.Context(), &v1.GetAdviceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if a := out.GetAdvice(); !strings.Contains(a.GetTooLittle(), "fewer than 300 prove nothing") || a.GetAdvised() != nil || a.GetNow() != nil || len(a.GetCurves()) > 0 || a.GetPresent() == nil {
		t.Errorf("%v", a)
	}
}

// Whoever does not want to wait is told how far it is, and that somebody asks keeps it going.
func TestAdviceIsMadeForThoseWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperator(t, withRequests(remembered(600), 0))
		poll := func(wait time.Duration) *v1.GetAdviceResponse {
			t.Helper()
			began := time.Now()
			out, err := o.GetAdvice(t.Context(), &v1.GetAdviceRequest{Wait: durationpb.New(wait)})
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > wait {
				t.Errorf("after %v, not %v", took, wait)
			}
			return out
		}
		release := o.admin.HoldAdvice()
		for _, wait := range []time.Duration{0, 5 * time.Second, 0} {
			if out := poll(wait); out.GetAdvice() != nil || out.GetProgress() == nil || out.GetProgress().GetWanted() != 0 {
				t.Errorf("before its turn: %v", out)
			}
			time.Sleep(14 * time.Second)
			synctest.Wait()
			if o.admin.AdviceBeingMade() != 1 {
				t.Fatal("it is no longer made, 14 seconds after somebody asked")
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if o.admin.AdviceBeingMade() != 0 {
			t.Error("it is made, 16 seconds after anybody asked")
		}
		poll(0)
		// One who waits is enough, one who has left is not.
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := o.GetAdvice(ctx, &v1.GetAdviceRequest{}); connect.CodeOf(err) != connect.CodeCanceled {
				t.Errorf("a caller who left: %v", err)
			}
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		if o.admin.AdviceBeingMade() != 1 {
			t.Error("it is no longer made, although somebody waits")
		}
		cancel()
		waiting.Wait()
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if o.admin.AdviceBeingMade() != 0 {
			t.Error("it is made, although the last one left")
		}
		poll(0)
		release()
		synctest.Wait()
		out := poll(0)
		if out.GetAdvice() == nil || out.GetProgress() != nil {
			t.Errorf("in the end: %v", out)
		}
		// What there is is shown while newer advice is made.
		if _, err := o.SetRoutingConfig(t.Context(), &v1.SetRoutingConfigRequest{Config: &v1.RoutingConfig{PrefixLength: new(uint32(1024))}}); err != nil {
			t.Fatal(err)
		}
		release = o.admin.HoldAdvice()
		if newer := poll(0); newer.GetAdvice().GetMade() == nil || newer.GetProgress() == nil {
			t.Errorf("after a change: %v", newer)
		}
		release()
	})
}

// A pool that is routed in another way meanwhile gets advice for how it is routed.
func TestAdviceFollowsTheRouting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperator(t, withRequests(remembered(600), 1024))
		release := o.admin.HoldAdvice()
		lengths := make(chan uint32, 2)
		ask := func() {
			out, err := o.GetAdvice(t.Context(), &v1.GetAdviceRequest{})
			if err != nil {
				t.Error(err)
			}
			lengths <- out.GetAdvice().GetPresent().GetPrefixLength()
		}
		go ask()
		synctest.Wait()
		if _, err := o.SetRoutingConfig(t.Context(), &v1.SetRoutingConfigRequest{Config: &v1.RoutingConfig{PrefixLength: new(uint32(4096))}}); err != nil {
			t.Fatal(err)
		}
		go ask()
		synctest.Wait()
		release()
		if a, b := <-lengths, <-lengths; a != 4096 || b != 4096 {
			t.Errorf("advice for a prefix_length of %d and %d, which is 4096", a, b)
		}
	})
}

func TestAdviceRefusals(t *testing.T) {
	o := newOperator(t)
	remembering := newOperator(t, withRequests(remembered(1), 0))
	deserted := newOperator(t, withRequests(remembered(600), 0))
	if _, err := deserted.pool.SetBackends(nil); err != nil {
		t.Fatal(err)
	}
	get := func(o *operator, in *v1.GetAdviceRequest) error {
		_, err := o.GetAdvice(t.Context(), in)
		return err
	}
	for _, tc := range []struct {
		err  error
		code connect.Code
		text string
	}{
		{get(o, &v1.GetAdviceRequest{}), connect.CodeFailedPrecondition, "limits.recent_requests_bytes"},
		{get(remembering, &v1.GetAdviceRequest{Pool: "x"}), connect.CodeNotFound, `there is no pool "x"`},
		{get(remembering, &v1.GetAdviceRequest{Wait: durationpb.New(-1)}), connect.CodeInvalidArgument, "wait: -1ns is not in 0s..10m0s"},
		{get(remembering, &v1.GetAdviceRequest{Wait: durationpb.New(11 * time.Minute)}), connect.CodeInvalidArgument, "wait: 11m"},
		{get(deserted, &v1.GetAdviceRequest{}), connect.CodeFailedPrecondition, "the pool has no backends"},
	} {
		if codeOf(tc.err) != tc.code || !strings.Contains(tc.err.Error(), tc.text) {
			t.Errorf("got %v, want %v about %s", tc.err, tc.code, tc.text)
		}
	}
	remembering.admin.Close()
	if err := get(remembering, &v1.GetAdviceRequest{}); codeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("at the end: %v", err)
	}
}

// Only one pool has its advice made at a time, and the end of the service ends it.
func TestAdviceEndsWithTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperator(t, withRequests(remembered(600), 0))
		if _, err := o.router.AddPool(router.PoolSpec{Name: "second", Config: router.DefaultConfig(), Ejection: backends.DefaultEjection(), Backends: []backends.Spec{{URL: "http://c:1", Rank: backends.NoRank}}}); err != nil {
			t.Fatal(err)
		}
		o.admin.HoldAdvice()
		var waiting sync.WaitGroup
		for _, pool := range []string{"pool", "second"} {
			waiting.Go(func() {
				_, err := o.GetAdvice(t.Context(), &v1.GetAdviceRequest{Pool: pool})
				if e, ok := errors.AsType[*connect.Error](err); !ok || e.Code() != connect.CodeFailedPrecondition {
					t.Errorf("%s: %v", pool, err)
				}
			})
		}
		synctest.Wait()
		if n := o.admin.AdviceBeingMade(); n != 2 {
			t.Errorf("advice is made on %d pools", n)
		}
		o.admin.Close()
		waiting.Wait()
	})
}
