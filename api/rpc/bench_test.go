package rpc_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/warmroute/warmroute/api/rpc"
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

// heldPrompt is as long, and another.
func heldPrompt() *v1.RouteRequest {
	return ask(original("/v1/chat/completions", fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%q}]}`, strings.Repeat("8 letters 7more. ", 478))))
}

func route(b *testing.B, s *rpc.Service, in *v1.RouteRequest) *v1.RouteResponse {
	d, err := s.Route(b.Context(), in)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// answer reports that a prompt was answered.
func answer(b *testing.B, w *world, id string) {
	if _, err := w.service.Report(b.Context(), &v1.ReportRequest{DecisionId: id, Outcome: v1.Outcome_OUTCOME_ANSWERED, Status: 200}); err != nil {
		b.Fatal(err)
	}
}

func cancel(b *testing.B, w *world, id string) {
	if _, err := w.service.Report(b.Context(), &v1.ReportRequest{DecisionId: id, Outcome: v1.Outcome_OUTCOME_CANCELED}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRPC compares, over loopback and one connection, a Route of an 8 KiB prompt with
// two calls of the same protocol that do nothing, behind the same bounds and codecs: one
// that carries nothing, and one that carries the same prompt. The prompt is new, or one that
// a backend holds. All take turns, so that what else the machine does is alike for all; the
// figures are medians. The budget is a ratio of 1.3 to the call that carries the prompt.
// Client and server are one process, so the client's work is in all of them.
//
//	go test -run='^$' -bench=RPC -benchtime=3000x -count=5 ./api/rpc
func BenchmarkRPC(b *testing.B) {
	for _, protocol := range []struct {
		name    string
		options []connect.ClientOption
		http2   bool
	}{
		{"connect", nil, false},
		{"connect-h2c", nil, true},
		{"json", []connect.ClientOption{connect.WithProtoJSON()}, false},
		{"grpc", []connect.ClientOption{connect.WithGRPC()}, true},
		{"grpc-web", []connect.ClientOption{connect.WithGRPCWeb()}, false},
	} {
		b.Run(protocol.name, func(b *testing.B) {
			w := newWorld(b, func(s *setup) { s.options.Observe = func(*feedback.Record) {} })
			client := func(register func(*http.ServeMux)) warmroutev1connect.RoutingServiceClient {
				carrier := &http.Transport{Protocols: only(protocol.http2)}
				b.Cleanup(carrier.CloseIdleConnections)
				return warmroutev1connect.NewRoutingServiceClient(&http.Client{Transport: carrier}, listening(b, register), protocol.options...)
			}
			nothing, routing := client(w.service.RegisterEmpty), client(w.service.Register)
			in, none := eightKiB(), &v1.RouteRequest{}
			held := heldPrompt()
			answer(b, w, route(b, w.service, held).GetDecisionId())
			var empty, carry, fresh, known durations
			for b.Loop() {
				empty.time(b, func() error { return second(nothing.Route(b.Context(), none)) })
				carry.time(b, func() error { return second(nothing.Route(b.Context(), in)) })
				var d *v1.RouteResponse
				fresh.time(b, func() (err error) {
					d, err = routing.Route(b.Context(), in)
					return err
				})
				cancel(b, w, d.GetDecisionId()) // and nobody holds it any more
				known.time(b, func() (err error) {
					d, err = routing.Route(b.Context(), held)
					return err
				})
				answer(b, w, d.GetDecisionId())
			}
			b.ReportMetric(0, "ns/op") // of all four
			b.ReportMetric(empty.median(), "empty-µs")
			b.ReportMetric(carry.median(), "carry-µs")
			b.ReportMetric(fresh.median(), "new-µs")
			b.ReportMetric(known.median(), "held-µs")
			b.ReportMetric(fresh.median()/empty.median(), "new/empty")
			b.ReportMetric(fresh.median()/carry.median(), "new/carry")
			b.ReportMetric(known.median()/carry.median(), "held/carry")
		})
	}
}

// durations are how long calls took.
type durations []time.Duration

// time does a call.
func (d *durations) time(b *testing.B, call func() error) {
	start := time.Now()
	err := call()
	*d = append(*d, time.Since(start))
	if err != nil {
		b.Fatal(err)
	}
}

// median is in microseconds.
func (d durations) median() float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Nanoseconds()) / 1000
}

func second(_ any, err error) error { return err }

// listening returns the base URL of a server on loopback, of HTTP/1.1 and HTTP/2.
func listening(b *testing.B, register func(*http.ServeMux)) string {
	mux := http.NewServeMux()
	register(mux)
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	b.Cleanup(server.Close)
	return server.URL
}

// only is HTTP/2 without TLS, or HTTP/1.1.
func only(http2 bool) *http.Protocols {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	return protocols
}
