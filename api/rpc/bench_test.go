package rpc_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/warmroute/warmroute/feedback"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
)

// eightKiB is a chat request of 8 KiB.
func eightKiB() *v1.RouteRequest {
	return ask(original("/v1/chat/completions", fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%q}]}`, strings.Repeat("sixteen letters ", 508))))
}

// BenchmarkRouteInProcess is what a decision costs a program that has the router in it:
// read, hash, decide, name two alternatives, keep the lease. Its budget is the 30 µs of
// route-ns; ns/op has the report that ends it too.
//
//	go test -run='^$' -bench=RouteInProcess -benchmem ./api/rpc
func BenchmarkRouteInProcess(b *testing.B) {
	w := newWorld(b, func(s *setup) { s.options.Observe = func(*feedback.Record) {} })
	in := eightKiB()
	var routing time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		d, err := w.service.Route(b.Context(), in)
		routing += time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
		cancel(b, w, d.GetDecisionId())
	}
	b.ReportMetric(float64(routing.Nanoseconds())/float64(b.N), "route-ns")
}

func cancel(b *testing.B, w *world, id string) {
	if _, err := w.service.Report(b.Context(), &v1.ReportRequest{DecisionId: id, Outcome: v1.Outcome_OUTCOME_CANCELED}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRPC compares, over loopback and one connection, a Route of an 8 KiB prompt with
// an empty call of the same protocol: the report of a decision that does not exist. The
// budget is a ratio of 1.3.
//
//	go test -run='^$' -bench=RPC ./api/rpc
func BenchmarkRPC(b *testing.B) {
	for _, protocol := range []struct {
		name    string
		options []connect.ClientOption
		http2   bool
	}{
		{"connect", nil, false},
		{"grpc", []connect.ClientOption{connect.WithGRPC()}, true},
	} {
		w := newWorld(b)
		mux := http.NewServeMux()
		w.service.Register(mux)
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		server := httptest.NewUnstartedServer(mux)
		server.Config.Protocols = protocols
		server.Start()
		b.Cleanup(server.Close)
		only := new(http.Protocols)
		only.SetHTTP1(!protocol.http2)
		only.SetUnencryptedHTTP2(protocol.http2)
		carrier := &http.Transport{Protocols: only}
		b.Cleanup(carrier.CloseIdleConnections)
		c := warmroutev1connect.NewRoutingServiceClient(&http.Client{Transport: carrier}, server.URL, protocol.options...)
		b.Run(protocol.name+"/empty", func(b *testing.B) {
			none := &v1.ReportRequest{DecisionId: "0123456789abcdef", Outcome: v1.Outcome_OUTCOME_CANCELED}
			for b.Loop() {
				if _, err := c.Report(b.Context(), none); err != nil {
					b.Fatal(err)
				}
			}
		})
		in := eightKiB()
		b.Run(protocol.name+"/route", func(b *testing.B) {
			for b.Loop() {
				d, err := c.Route(b.Context(), in)
				if err != nil {
					b.Fatal(err)
				}
				cancel(b, w, d.GetDecisionId())
			}
		})
	}
}
