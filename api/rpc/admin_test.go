package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/api/rpc"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex/redisindex"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
	"github.com/warmroute/warmroute/router"
)

// operator is an admin service over a world's router, and what it logs.
type operator struct {
	*world
	warmroutev1connect.AdminServiceClient

	admin  *rpc.Admin
	shared *board
	log    bytes.Buffer
	live   chan feedback.Record
}

// board is what two routers share.
type board struct {
	mu     sync.Mutex
	values map[string]string
}

func (b *board) Set(_ string, values map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.values, values)
}

func (b *board) Settings(string) map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.values)
}

func newOperator(t testing.TB, change ...func(*setup)) *operator {
	t.Helper()
	var s setup
	for _, c := range change {
		c(&s)
	}
	o := &operator{world: newWorld(t, change...), live: make(chan feedback.Record, 8), shared: &board{values: make(map[string]string)}}
	missed := uint64(3)
	var err error
	o.admin, err = rpc.NewAdmin(rpc.AdminOptions{
		Router: o.router,
		Recent: func(n int) []feedback.Record {
			all := o.recorded()
			return all[:min(n, len(all))]
		},
		Follow: func() (<-chan feedback.Record, func() uint64, func()) {
			return o.live, func() uint64 { defer func() { missed = 0 }(); return missed }, func() {}
		},
		Requests: s.requests,
		Settings: o.shared,
		Logger:   slog.New(slog.NewJSONHandler(&o.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	o.admin.Register(mux)
	server, err := o.network.Serve("admin:9090", mux)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		o.admin.Close()
		server.Close()
	})
	o.AdminServiceClient = warmroutev1connect.NewAdminServiceClient(o.http(false), "http://admin:9090")
	return o
}

// logged returns the messages of the log.
func (o *operator) logged() []string {
	var all []string
	for line := range strings.Lines(o.log.String()) {
		var entry struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			o.t.Error(err)
		}
		all = append(all, entry.Msg)
	}
	return all
}

// A backend stays as long as it is registered again, and its requests go on when it leaves.
func TestRegisterBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperator(t)
		in := &v1.RegisterBackendRequest{Url: "http://NEW:8000/", Rank: new(uint32(2)), Weight: 2, ConcurrencyThreshold: 9, Lease: durationpb.New(time.Minute)}
		out, err := o.RegisterBackend(t.Context(), in)
		if err != nil || out.GetBackend() != "new:8000#2" || time.Until(out.GetLeaseDeadline().AsTime()) != time.Minute {
			t.Fatalf("register: %v, %v", out, err)
		}
		listed, err := o.ListBackends(t.Context(), &v1.ListBackendsRequest{})
		if err != nil || len(listed.GetBackends()) != 4 {
			t.Fatalf("list: %v, %v", listed, err)
		}
		want := &v1.Backend{
			Pool: "pool", Id: "new:8000#2", Url: "http://new:8000", Rank: new(uint32(2)), State: "up", Weight: 2, Limit: 9,
			PrefillRate: 2000, Registered: true, LeaseDeadline: out.GetLeaseDeadline(),
		}
		if diff := cmp.Diff(want, listed.GetBackends()[3], protocmp.Transform()); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
		time.Sleep(50 * time.Second)
		if _, err := o.RegisterBackend(t.Context(), in); err != nil {
			t.Error(err)
		}
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if n := len(o.pool.Backends()); n != 4 {
			t.Errorf("%d backends, although it was registered again", n)
		}
		for _, b := range o.pool.Backends() {
			b.Drain(b.ID != "new:8000#2")
		}
		configured := o.pool.Backends()[:3]
		if _, err := o.pool.SetBackends([]backends.Spec{configured[0].Spec(), configured[1].Spec(), configured[2].Spec()}); err != nil || len(o.pool.Backends()) != 4 {
			t.Errorf("the list that is configured was read again: %v, %d backends", err, len(o.pool.Backends()))
		}
		d := o.route(ask(chat("m", "a")))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if n := len(o.pool.Backends()); n != 3 {
			t.Errorf("%d backends after the lease", n)
		}
		if !o.report(answered(d.GetDecisionId())).GetAccepted() {
			t.Error("its request did not go on")
		}
		if _, err := o.RegisterBackend(t.Context(), in); err != nil {
			t.Error(err)
		}
		if _, err := o.DeregisterBackend(t.Context(), &v1.DeregisterBackendRequest{Backend: "new:8000#2"}); err != nil || len(o.pool.Backends()) != 3 {
			t.Errorf("deregister: %v, %d backends", err, len(o.pool.Backends()))
		}
		wantLog := []string{"backend registered", "backend left: it was not registered again", "backend registered", "backend deregistered"}
		if diff := cmp.Diff(wantLog, o.logged()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestAdminRefusals(t *testing.T) {
	o := newOperator(t)
	ctx := t.Context()
	register := func(change func(*v1.RegisterBackendRequest)) error {
		in := &v1.RegisterBackendRequest{Url: "http://new:8000"}
		change(in)
		_, err := o.RegisterBackend(ctx, in)
		return err
	}
	for _, tc := range []struct {
		err  error
		code connect.Code
		text string
	}{
		{register(func(r *v1.RegisterBackendRequest) { r.Pool = "other" }), connect.CodeNotFound, `there is no pool "other"`},
		{register(func(r *v1.RegisterBackendRequest) { r.Url = "ftp://x" }), connect.CodeInvalidArgument, "url: "},
		{register(func(r *v1.RegisterBackendRequest) { r.Rank = new(uint32(70000)) }), connect.CodeInvalidArgument, "rank: 70000"},
		{register(func(r *v1.RegisterBackendRequest) { r.Weight = -1 }), connect.CodeInvalidArgument, "weight: -1"},
		{register(func(r *v1.RegisterBackendRequest) { r.ConcurrencyThreshold = 2000 }), connect.CodeInvalidArgument, "concurrency_threshold: 2000"},
		{register(func(r *v1.RegisterBackendRequest) { r.Lease = durationpb.New(time.Millisecond) }), connect.CodeInvalidArgument, "lease: 1ms"},
		{register(func(r *v1.RegisterBackendRequest) { r.Url = "http://b1:8000" }), connect.CodeAlreadyExists, `"b1:8000" is in the configuration`},
		{second(o.DeregisterBackend(ctx, &v1.DeregisterBackendRequest{Backend: "b1:8000"})), connect.CodeInvalidArgument, "was not registered"},
		{second(o.DrainBackend(ctx, &v1.DrainBackendRequest{Backend: "b9:8000"})), connect.CodeNotFound, `there is no backend "b9:8000"`},
		{second(o.UndrainBackend(ctx, &v1.UndrainBackendRequest{})), connect.CodeInvalidArgument, "backend: is missing"},
		{second(o.ListBackends(ctx, &v1.ListBackendsRequest{Pool: "x"})), connect.CodeNotFound, `"x"`},
		{second(o.GetHitReport(ctx, &v1.GetHitReportRequest{Pool: "x"})), connect.CodeNotFound, `"x"`},
		{second(o.GetHitReport(ctx, &v1.GetHitReportRequest{Since: durationpb.New(time.Second)})), connect.CodeInvalidArgument, "since: 1s is not in 1m0s..24h0m0s"},
		{second(o.GetHitReport(ctx, &v1.GetHitReportRequest{Since: durationpb.New(25 * time.Hour)})), connect.CodeInvalidArgument, "since: 25h"},
		{second(o.GetIndexStats(ctx, &v1.GetIndexStatsRequest{Pool: "x"})), connect.CodeNotFound, `"x"`},
		{second(o.ListDecisions(ctx, &v1.ListDecisionsRequest{Limit: 10_001})), connect.CodeInvalidArgument, "limit: 10001"},
		{second(o.SetRoutingConfig(ctx, &v1.SetRoutingConfigRequest{Config: &v1.RoutingConfig{Strategy: new("BEST")}})), connect.CodeInvalidArgument, `config: strategy: "BEST"`},
		{second(o.SetRoutingConfig(ctx, &v1.SetRoutingConfigRequest{Config: &v1.RoutingConfig{W: new(9.0)}})), connect.CodeInvalidArgument, "config: w: 9"},
		{second(o.SetRoutingConfig(ctx, &v1.SetRoutingConfigRequest{Config: &v1.RoutingConfig{W: new(math.NaN())}})), connect.CodeInvalidArgument, "config: w: NaN"},
		{second(o.SetRoutingConfig(ctx, &v1.SetRoutingConfigRequest{Config: &v1.RoutingConfig{Strategy: new("")}})), connect.CodeInvalidArgument, "config: strategy: is empty"},
		{second(o.SetRoutingConfig(ctx, &v1.SetRoutingConfigRequest{Config: &v1.RoutingConfig{PrefixLength: new(uint32(math.MaxUint32))}})), connect.CodeInvalidArgument, "config: prefix_length"},
		{second(o.SetRoutingConfig(ctx, &v1.SetRoutingConfigRequest{Config: &v1.RoutingConfig{}})), connect.CodeInvalidArgument, "config: changes nothing"},
	} {
		if codeOf(tc.err) != tc.code || !strings.Contains(tc.err.Error(), tc.text) {
			t.Errorf("got %v, want %v about %s", tc.err, tc.code, tc.text)
		}
	}
	if len(o.pool.Backends()) != 3 || len(o.logged()) != 0 {
		t.Errorf("%d backends, log %v", len(o.pool.Backends()), o.logged())
	}
}

func TestDrain(t *testing.T) {
	o := newOperator(t)
	d := o.route(ask(chat("m", "a")))
	id := d.GetTarget().GetBackend()
	out, err := o.DrainBackend(t.Context(), &v1.DrainBackendRequest{Backend: id})
	if err != nil || out.GetInFlight() != 1 {
		t.Errorf("drain: %v, %v", out, err)
	}
	o.report(answered(d.GetDecisionId()))
	if again := o.route(ask(chat("m", "a"))); again.GetTarget().GetBackend() == id {
		t.Error("a drained backend gets a request")
	}
	if _, err := o.UndrainBackend(t.Context(), &v1.UndrainBackendRequest{Pool: "pool", Backend: id}); err != nil {
		t.Error(err)
	}
	if again := o.route(ask(chat("m", "a"))); again.GetTarget().GetBackend() != id {
		t.Errorf("after the drain: %v", again)
	}
	stats, err := o.GetIndexStats(t.Context(), &v1.GetIndexStatsRequest{})
	if err != nil || len(stats.GetBackends()) != 3 || stats.GetBackends()[0].GetBlockBytes() != 256 || stats.GetBackends()[0].GetCapacity() == 0 {
		t.Errorf("index: %v, %v", stats, err)
	}
}

// Only what is named changes, it is logged and shared, and can be taken back.
func TestSetRoutingConfig(t *testing.T) {
	o := newOperator(t)
	change := &v1.RoutingConfig{Strategy: new(router.PrefixHash), PrefixLength: new(uint32(2048))}
	out, err := o.SetRoutingConfig(t.Context(), &v1.SetRoutingConfigRequest{Config: change})
	if err != nil {
		t.Fatal(err)
	}
	want := &v1.RoutingConfig{Strategy: new("PREFIX_HASH"), PrefixLength: new(uint32(2048)), ConcurrencyThreshold: new(uint32(128)), MinMatchRatio: new(0.25), W: new(2.0)}
	if diff := cmp.Diff(want, out.GetConfig(), protocmp.Transform()); diff != "" || out.GetBefore().GetStrategy() != "PREFIX_AWARE" || !out.GetShared() {
		t.Errorf("before %v, shared %v (-want +got):\n%s", out.GetBefore(), out.GetShared(), diff)
	}
	got, err := o.GetRoutingConfig(t.Context(), &v1.GetRoutingConfigRequest{})
	if diff := cmp.Diff([]*v1.PoolRouting{{Pool: "pool", Config: want, Changed: change}}, got.GetPools(), protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("got %v (-want +got):\n%s", err, diff)
	}
	if _, err := o.SetRoutingConfig(t.Context(), &v1.SetRoutingConfigRequest{Config: change}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"strategy": "PREFIX_HASH", "prefix_length": "2048"}, o.shared.Settings("")); diff != "" || len(o.logged()) != 1 {
		t.Errorf("log %v, shared (-want +got):\n%s", o.logged(), diff)
	}
	for _, part := range []string{"PREFIX_AWARE → PREFIX_HASH", `"prefix_length":"0 → 2048"`, `"pool":"pool"`, `"by":`} {
		if !strings.Contains(o.log.String(), part) {
			t.Errorf("the log has no %s: %s", part, o.log.String())
		}
	}
	back, err := o.SetRoutingConfig(t.Context(), &v1.SetRoutingConfigRequest{Reset_: true, Config: &v1.RoutingConfig{W: new(3.0)}})
	want.Strategy, want.PrefixLength, want.W = new("PREFIX_AWARE"), new(uint32(0)), new(3.0)
	if diff := cmp.Diff(want, back.GetConfig(), protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("after the reset: %v (-want +got):\n%s", err, diff)
	}
}

// What another router sets holds here too, as far as this version understands it, and goes
// back to this router's own configuration.
func TestAdopt(t *testing.T) {
	o := newOperator(t, func(s *setup) { s.config.ConcurrencyThreshold = 77 })
	o.shared.Set("", map[string]string{"strategy": "RANDOM", "concurrency_threshold": "20", "w": "lead", "colour": "blue", "min_match_ratio": "7"})
	o.admin.Adopt("pool")
	o.admin.Adopt("no such pool")
	want := router.DefaultConfig()
	want.Strategy, want.ConcurrencyThreshold = router.Random, 20
	if diff := cmp.Diff(want, o.pool.Config()); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
	if want := []string{"what was set makes no sense here", "routing changed"}; !slices.Equal(o.logged(), want) || !strings.Contains(o.log.String(), `"by":"another router"`) {
		t.Errorf("log: %s", o.log.String())
	}
	o.shared.Set("", map[string]string{"strategy": "", "concurrency_threshold": "", "w": "", "min_match_ratio": ""})
	o.admin.Adopt("pool")
	want.Strategy, want.ConcurrencyThreshold = router.PrefixAware, 77
	if diff := cmp.Diff(want, o.pool.Config()); diff != "" {
		t.Errorf("taken back (-want +got):\n%s", diff)
	}
}

// Strategies change a hundred times at 200 requests a second: none fails, each is decided by
// the strategy of its moment and says so, and those in flight end as they would have.
func TestSwitchingAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperator(t)
		c := o.client()
		strategies := router.Strategies()
		const switches, perSwitch, pace = 100, 40, 5 * time.Millisecond
		var calls sync.WaitGroup
		for i := range switches {
			now := strategies[i%len(strategies)]
			if _, err := o.SetRoutingConfig(t.Context(), &v1.SetRoutingConfigRequest{Config: &v1.RoutingConfig{Strategy: &now}}); err != nil {
				t.Error(err)
			}
			for n := range perSwitch {
				calls.Go(func() {
					d, err := c.Route(t.Context(), ask(short(fmt.Sprint(n%7))))
					if err != nil || d.GetStrategy() != now {
						t.Errorf("after switch %d to %s: %s decided, %v", i, now, d.GetStrategy(), err)
						return
					}
					time.Sleep(time.Duration(n) * 10 * time.Millisecond) // some over the next two switches
					if r, err := c.Report(t.Context(), answered(d.GetDecisionId())); err != nil || !r.GetAccepted() {
						t.Errorf("report: %v, %v", r, err)
					}
				})
				time.Sleep(pace)
			}
		}
		calls.Wait()
		by := make(map[string]int)
		for _, r := range o.recorded() {
			if r.Result != feedback.Success {
				t.Errorf("%s ended as %v", r.DecisionID, r.Result)
			}
			by[r.Strategy]++
		}
		for _, s := range strategies {
			if want := switches * perSwitch / len(strategies); by[s] != want {
				t.Errorf("%d records of %s, want %d", by[s], s, want)
			}
		}
		if o.inFlight() != 0 || len(o.logged()) != switches {
			t.Errorf("%d in flight, %d lines in the log", o.inFlight(), len(o.logged()))
		}
	})
}

// The same as fast as it goes: no request fails, and each has a reason of its strategy.
func TestSwitchingUnderLoad(t *testing.T) {
	o := newOperator(t)
	by := map[string][]string{
		router.Random:            {"random"},
		router.LeastOutstanding:  {"fewest_outstanding"},
		router.PrefixHash:        {"hashed_prefix", "hash_overflow"},
		router.PrefixAware:       {"longest_match", "no_match", "queue_guard", "overflow", "overflow_holder"},
		router.LeastExpectedTTFT: {"cheapest_ttft"},
	}
	var load sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				d, err := o.service.Route(context.Background(), ask(short(fmt.Sprint(n%5))))
				if err != nil {
					t.Error(err)
					return
				}
				if !strings.Contains(" "+strings.Join(by[d.GetStrategy()], " ")+" ", " "+d.GetReason()+" ") {
					t.Errorf("%s decided for the reason %s", d.GetStrategy(), d.GetReason())
				}
				if r, err := o.service.Report(context.Background(), answered(d.GetDecisionId())); err != nil || !r.GetAccepted() {
					t.Errorf("report: %v, %v", r, err)
				}
			}
		})
	}
	strategies := router.Strategies()
	for i := range 100 {
		if _, err := o.admin.SetRoutingConfig(t.Context(), &v1.SetRoutingConfigRequest{Config: &v1.RoutingConfig{
			Strategy: new(strategies[i%len(strategies)]), ConcurrencyThreshold: new(uint32(200 + i)), PrefixLength: new(uint32(1024 + i)),
		}}); err != nil {
			t.Error(err)
		}
		o.route(ask(short("between"))) // so that each is used
	}
	close(stop)
	load.Wait()
	if o.inFlight() != 100 {
		t.Errorf("%d in flight, want the 100 that are open", o.inFlight())
	}
	if len(o.logged()) != 100 {
		t.Errorf("%d lines in the log", len(o.logged()))
	}
}

// Decisions are listed and followed, those of other pools and refusals left out.
func TestDecisions(t *testing.T) {
	o := newOperator(t)
	d := o.route(ask(chat("m", "a")))
	o.report(answered(d.GetDecisionId()))
	if _, err := o.service.Route(t.Context(), ask(chat("unknown", "a"))); err == nil {
		t.Error("routed an unknown model")
	}
	list, err := o.ListDecisions(t.Context(), &v1.ListDecisionsRequest{})
	if err != nil || len(list.GetDecisions()) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	got := list.GetDecisions()[0]
	if got.GetDecisionId() != d.GetDecisionId() || got.GetResult() != "success" || got.GetReason() != d.GetReason() || got.GetUsage().GetPromptTokens() != 3000 || got.GetTtft() == nil {
		t.Errorf("listed %v, decided %v", got, d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, r := range []feedback.Record{{DecisionID: "x", Pool: "other"}, {Pool: "pool"}, {DecisionID: "y", Pool: "pool"}} {
		o.live <- r
	}
	stream, err := o.WatchDecisions(ctx, &v1.WatchDecisionsRequest{Pool: "pool"})
	if err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() || stream.Msg().GetDecision().GetDecisionId() != "y" || stream.Msg().GetMissed() != 3 {
		t.Errorf("followed %v, %v", stream.Msg(), stream.Err())
	}
	cancel()
	if stream.Receive() {
		t.Errorf("after the end came %v", stream.Msg())
	}
	stream.Close()
}

// With several pools, what is named must say which, unless only one has it.
func TestSeveralPools(t *testing.T) {
	o := newOperator(t)
	if _, err := o.router.AddPool(router.PoolSpec{
		Name: "second", Config: router.DefaultConfig(), Ejection: backends.DefaultEjection(), Models: []router.ModelSpec{{Name: "x"}},
		Backends: []backends.Spec{{URL: "http://b1:8000", Rank: backends.NoRank}, {URL: "http://b4:8000", Rank: backends.NoRank}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.SetRoutingConfig(t.Context(), &v1.SetRoutingConfigRequest{}); codeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a change of no pool: %v", err)
	}
	if _, err := o.DrainBackend(t.Context(), &v1.DrainBackendRequest{Backend: "b1:8000"}); codeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "pool: is missing") {
		t.Errorf("a backend of two pools: %v", err)
	}
	if _, err := o.DrainBackend(t.Context(), &v1.DrainBackendRequest{Backend: "b4:8000"}); err != nil {
		t.Error(err)
	}
	report, err := o.GetHitReport(t.Context(), &v1.GetHitReportRequest{})
	if err != nil || len(report.GetPools()) != 2 || report.GetPools()[1].GetPool() != "second" {
		t.Errorf("hits: %v, %v", report, err)
	}
}

// While decisions are watched they tell who took part, at most as many as asked for in a
// second, and the others are counted.
func TestWatchedDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperator(t)
		stream, err := o.WatchDecisions(t.Context(), &v1.WatchDecisionsRequest{PerSecond: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		synctest.Wait()
		d := o.route(ask(chat("m", "a")))
		o.report(answered(d.GetDecisionId()))
		list, err := o.ListDecisions(t.Context(), &v1.ListDecisionsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		got := list.GetDecisions()[0]
		if got.GetEligible() != 3 || len(got.GetCandidates()) != 3 {
			t.Fatalf("%d of %d candidates", len(got.GetCandidates()), got.GetEligible())
		}
		for i, c := range got.GetCandidates() {
			if chosen := c.GetTarget().GetBackend() == got.GetBackend(); chosen != (i == 0) || chosen != (c.GetPlace() == 1) || c.GetLimit() != 128 {
				t.Errorf("candidate %d of a request to %s: %v", i, got.GetBackend(), c)
			}
		}
		receive := func(id string, missed uint64) {
			t.Helper()
			if !stream.Receive() || stream.Msg().GetDecision().GetDecisionId() != id || stream.Msg().GetMissed() != missed {
				t.Errorf("got %v, %v; want %s after %d others", stream.Msg(), stream.Err(), id, missed)
			}
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			o.live <- feedback.Record{DecisionID: id, Pool: "pool"}
		}
		receive("a", 3) // of those the telemetry left out
		receive("b", 0)
		synctest.Wait()
		time.Sleep(time.Second)
		o.live <- feedback.Record{DecisionID: "e", Pool: "pool"}
		receive("e", 2)
	})
}

func TestHitHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperator(t)
		time.Sleep(7 * time.Second)
		out, err := o.GetHitHistory(t.Context(), &v1.GetHitHistoryRequest{})
		if err != nil || len(out.GetSteps()) != 2 {
			t.Errorf("%v, %v", out, err)
		}
		for _, tc := range []struct {
			in   *v1.GetHitHistoryRequest
			code connect.Code
		}{
			{&v1.GetHitHistoryRequest{Pool: "nobody"}, connect.CodeNotFound},
			{&v1.GetHitHistoryRequest{Since: durationpb.New(time.Second)}, connect.CodeInvalidArgument},
			{&v1.GetHitHistoryRequest{Since: durationpb.New(25 * time.Hour)}, connect.CodeInvalidArgument},
		} {
			if _, err := o.GetHitHistory(t.Context(), tc.in); codeOf(err) != tc.code {
				t.Errorf("%v: %v, want %v", tc.in, err, tc.code)
			}
		}
	})
}

// Of sharing only what is known is told, and nothing where the index is this router's own.
func TestSharing(t *testing.T) {
	o := newOperator(t)
	stats, err := o.GetIndexStats(t.Context(), &v1.GetIndexStatsRequest{})
	if err != nil || stats.GetSharing() != nil {
		t.Errorf("%v, %v", stats.GetSharing(), err)
	}
	for _, tc := range []struct {
		status redisindex.Status
		want   *v1.Sharing
	}{
		{
			redisindex.Status{Sharing: router.Cut, Breaker: "open", SyncAge: time.Minute, LastError: "refused", Failures: map[redisindex.Failure]uint64{redisindex.Failures()[0]: 2, redisindex.Failures()[1]: 3}},
			&v1.Sharing{State: "cut", Breaker: "open", SyncAge: durationpb.New(time.Minute), LastError: "refused", Failures: 5},
		},
		{
			redisindex.Status{Sharing: router.Fresh, Peers: 2, Breaker: "closed", SyncAge: time.Second, Lag: time.Millisecond, ClockKnown: true, Queued: 4, Published: 10, Dropped: 1, Received: 7, Restoring: 3},
			&v1.Sharing{
				State: "fresh", Peers: 2, Breaker: "closed", SyncAge: durationpb.New(time.Second), Lag: durationpb.New(time.Millisecond),
				ClockOffset: durationpb.New(0), Queued: 4, Published: 11, Dropped: 1, Received: 7, Restoring: 3,
			},
		},
	} {
		admin, err := rpc.NewAdmin(rpc.AdminOptions{Router: o.router, Sharing: func() (redisindex.Status, bool) { return tc.status, true }})
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		got, err := admin.GetIndexStats(t.Context(), &v1.GetIndexStatsRequest{})
		if diff := cmp.Diff(tc.want, got.GetSharing(), protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}
