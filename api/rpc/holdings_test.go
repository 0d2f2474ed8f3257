package rpc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/warmroute/warmroute/api/proxy"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// byKey lets in whoever names a key.
func byKey(s *setup) {
	s.options.Admit = func(r *http.Request) (proxy.Visitor, *proxy.Error) {
		return proxy.Visitor{Key: r.Header.Get("Authorization")}, nil
	}
}

// as shows a key with every call.
func as(key string) connect.ClientOption {
	return connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("Authorization", key)
			return next(ctx, r)
		}
	}))
}

// Of all decisions that may be open, one owner holds its share; what is refused for other reasons
// is not held.
func TestDecisionsThatAnOwnerHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, byKey, func(s *setup) { s.options.MaxLeases = 6 })
		one, two := w.client(as("one")), w.client(as("two"))
		for range 10 {
			if _, err := one.Route(t.Context(), &v1.RouteRequest{Prompt: short("x"), TriedBackends: []string{"b1:8000", "b2:8000#1", "b3:8000/base"}}); codeOf(err) != connect.CodeUnavailable {
				t.Fatalf("with nobody left: %v", err)
			}
		}
		if w.service.Owners() != 0 {
			t.Error("who got no decision holds one")
		}
		var last string
		for range 3 {
			out, err := one.Route(t.Context(), ask(short("a")))
			if err != nil {
				t.Fatal(err)
			}
			last = out.GetDecisionId()
		}
		if _, err := one.Route(t.Context(), ask(short("a"))); codeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "3 decisions of yours are open already") {
			t.Errorf("a fourth of six: %v", err)
		}
		for range 3 {
			if _, err := two.Route(t.Context(), ask(short("b"))); err != nil {
				t.Errorf("another's: %v", err)
			}
		}
		for range 2 {
			if out, err := one.Report(t.Context(), answered(last)); err != nil {
				t.Errorf("%v, %v", out, err)
			}
		}
		if out, err := one.Route(t.Context(), ask(short("a"))); err != nil {
			t.Errorf("after a report, twice: %v, %v", out, err)
		}
		if _, err := one.Route(t.Context(), ask(short("a"))); codeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("and one more: %v", err)
		}
		time.Sleep(121 * time.Second)
		synctest.Wait()
		if w.inFlight() != 0 || w.service.OpenDecisions() != 0 || w.service.Owners() != 0 {
			t.Errorf("%d in flight, %d open, %d owners after the leases", w.inFlight(), w.service.OpenDecisions(), w.service.Owners())
		}
		for range 3 {
			if _, err := one.Route(t.Context(), ask(short("a"))); err != nil {
				t.Errorf("after the leases: %v", err)
			}
		}
		w.service.Close()
		if w.inFlight() != 0 || w.bodies.Held() != 0 || w.service.Owners() != 0 {
			t.Errorf("%d in flight, %d bytes held, %d owners in the end", w.inFlight(), w.bodies.Held(), w.service.Owners())
		}
	})
}
