package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/internal/config"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// fourEach has two tenants and eight slots, of which one may hold four over RPC.
func fourEach(c *config.Config) {
	c.Pools[0].Models = []config.Model{{Name: "m"}}
	c.Pools[0].Routing.ConcurrencyThreshold, c.Pools[0].Routing.OnSaturation = 4, router.Reject
	c.Pools[0].Routing.LoadFactor = 0
	keyed(c, config.Key{Name: "a", Tenant: "t"}, config.Key{Name: "a2", Tenant: "t"}, config.Key{Name: "b"})
}

// routed asks for a decision, with a key, for so many answers and with such a lease, 0 for the
// default.
func (s *stack) routed(key string, n int, lease time.Duration, options ...connect.ClientOption) (id string, err error) {
	in := &v1.RouteRequest{Prompt: asked("/v1/chat/completions", fmt.Sprintf(`{"model":"m","n":%d,"messages":[{"role":"user","content":"hi"}]}`, n))}
	if lease > 0 {
		in.Lease = durationpb.New(lease)
	}
	out, err := s.routingClient(key, options...).Route(s.t.Context(), in)
	return out.GetDecisionId(), err
}

// reported says that a decision came to its end.
func (s *stack) reported(key, id string) {
	s.t.Helper()
	out, err := s.routingClient(key).Report(s.t.Context(), &v1.ReportRequest{DecisionId: id, Outcome: v1.Outcome_OUTCOME_ANSWERED, Status: 200})
	if err != nil || !out.GetAccepted() {
		s.t.Errorf("report of %s: %v, %v", id, out, err)
	}
}

// atShare reports whether a call was refused because its tenant holds its share.
func atShare(err error) bool {
	refused, ok := errors.AsType[*connect.Error](err)
	return ok && refused.Code() == connect.CodeResourceExhausted && strings.Contains(refused.Message(), "limits.queue_share") && refused.Meta().Get("Retry-After") == "1"
}

// slotsTaken is how many slots of all backends are taken.
func (s *stack) slotsTaken() (n int) {
	for _, b := range s.backends() {
		n += b.InFlight()
	}
	return n
}

// One tenant holds its share of a pool's slots by decisions that it does not report, by all its keys
// together, and others find the rest; what is reported, or whose lease is over, makes room.
func TestSlotsThatATenantHolds(t *testing.T) {
	for name, options := range map[string][]connect.ClientOption{"Connect": nil, "JSON": {connect.WithProtoJSON()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, fourEach, map[string]http.Handler{"b1:8000": new(engine), "b2:8000": new(engine)})
			synctest.Wait()
			var made atomic.Int64
			var first atomic.Value
			var callers sync.WaitGroup
			for i := range 40 { // at once
				callers.Go(func() {
					id, err := s.routed([]string{"a", "a2"}[i%2], 1, 0, options...)
					switch {
					case err == nil:
						made.Add(1)
						first.Store(id)
					case !atShare(err) || !strings.Contains(err.Error(), `4 slots of pool "default"`):
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			callers.Wait()
			if made.Load() != 4 || s.slotsTaken() != 4 {
				t.Errorf("%s: a tenant holds %d decisions, %d slots of 8", name, made.Load(), s.slotsTaken())
			}
			if status, _, body := s.chat("hi", "", "Authorization", "Bearer a"); status != http.StatusOK {
				t.Errorf("%s: what the tenant sends through the proxy got %d %s", name, status, body)
			}
			for range 4 {
				if _, err := s.routed("b", 1, 0, options...); err != nil {
					t.Errorf("%s: another tenant: %v", name, err)
				}
			}
			if _, err := s.routed("b", 1, 0, options...); !atShare(err) {
				t.Errorf("%s: another tenant's fifth: %v", name, err)
			}

			s.reported("a", first.Load().(string))
			if _, err := s.routed("a2", 1, 0, options...); err != nil {
				t.Errorf("%s: after a report: %v", name, err)
			}
			if _, err := s.routed("a", 1, 0, options...); !atShare(err) {
				t.Errorf("%s: and one more: %v", name, err)
			}
			time.Sleep(121 * time.Second)
			synctest.Wait()
			if s.slotsTaken() != 0 || s.routing.OpenDecisions() != 0 {
				t.Errorf("%s: %d slots, %d decisions after the leases", name, s.slotsTaken(), s.routing.OpenDecisions())
			}

			// What asks for more answers than the share has room for is served while its tenant holds nothing.
			if _, err := s.routed("a", 3, 0, options...); err != nil {
				t.Errorf("%s: three answers of four: %v", name, err)
			}
			if _, err := s.routed("a", 2, 0, options...); !atShare(err) {
				t.Errorf("%s: two more: %v", name, err)
			}
			large, err := s.routed("b", 8, 0, options...)
			if err != nil {
				t.Fatalf("%s: eight answers of one who holds nothing: %v", name, err)
			}
			s.reported("b", large)
			if got := s.slotsTaken(); got != 3 {
				t.Errorf("%s: %d slots are taken", name, got)
			}
			s.stop()
			if got := s.slotsTaken(); got != 0 {
				t.Errorf("%s: %d slots are taken in the end", name, got)
			}
		})
	}
}

// Whoever may use a pool alone has all of it, until somebody else may.
func TestSlotsOfATenantAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began *config.Config
		s := start(t, func(c *config.Config) {
			fourEach(c)
			c.Keys = c.Keys[:2]
			other := c.Pools[0]
			other.Name, other.Models = "other", []config.Model{{Name: "o"}}
			c.Pools = append(c.Pools, other)
			keyed(c, config.Key{Name: "elsewhere", Pools: []string{"other"}})
			began = c
		}, map[string]http.Handler{"b1:8000": new(engine), "b2:8000": new(engine)})
		synctest.Wait()
		var ids []string
		for range 8 {
			id, err := s.routed("a", 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		if _, err := s.routed("a", 1, 0); err == nil || atShare(err) {
			t.Errorf("the ninth of eight slots: %v", err)
		}
		next := *began
		keyed(&next, config.Key{Name: "b"})
		if err := s.Reload(&next); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids[:4] {
			s.reported("a2", id)
		}
		if _, err := s.routed("a", 1, 0); !atShare(err) {
			t.Errorf("with others, holding four: %v", err)
		}
		s.reported("a", ids[4])
		if _, err := s.routed("a", 1, 0); err != nil {
			t.Errorf("with others, holding three: %v", err)
		}
		s.stop()
	})
}

// Who waits for a slot holds one already, and none any more when it has left.
func TestSlotsOfATenantThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(c *config.Config) {
			fourEach(c)
			c.Pools[0].Routing.ConcurrencyThreshold, c.Pools[0].Routing.OnSaturation = 2, router.Queue
		}, map[string]http.Handler{"b1:8000": new(engine)})
		synctest.Wait()
		id, err := s.routed("b", 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		wait := func() (leave context.CancelFunc, done chan error) {
			ctx, leave := context.WithCancel(t.Context())
			done = make(chan error, 1)
			go func() {
				_, err := s.routingClient("a").Route(ctx, &v1.RouteRequest{Prompt: asked("/v1/chat/completions", chatBody("hi"))})
				done <- err
			}()
			synctest.Wait()
			return leave, done
		}
		for range 3 {
			leave, done := wait()
			if _, err := s.routed("a", 1, 0); !atShare(err) {
				t.Errorf("while one of its own waits: %v", err)
			}
			leave()
			if err := <-done; connect.CodeOf(err) != connect.CodeCanceled {
				t.Errorf("one that left: %v", err)
			}
			synctest.Wait()
		}
		leave, done := wait()
		defer leave()
		s.reported("b", id)
		if err := <-done; err != nil {
			t.Errorf("one that waited: %v", err)
		}
		if got := s.slotsTaken(); got != 1 {
			t.Errorf("%d slots are taken", got)
		}
		s.stop()
	})
}

// Without keys nobody's decisions are counted, and a lease may last an hour; with one, ten minutes
// at a time.
func TestLeasesWithKeys(t *testing.T) {
	for _, withKeys := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(c *config.Config) {
				fourEach(c)
				if !withKeys {
					c.Keys = nil
				}
			}, map[string]http.Handler{"b1:8000": new(engine), "b2:8000": new(engine)})
			synctest.Wait()
			key := map[bool]string{true: "a"}[withKeys]
			for lease, allowed := range map[time.Duration]bool{time.Hour: !withKeys, 10*time.Minute + 1: !withKeys, 10 * time.Minute: true} {
				id, err := s.routed(key, 1, lease)
				if (err == nil) != allowed || err != nil && (connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "lease: ")) {
					t.Errorf("keys %v, a lease of %v: %v", withKeys, lease, err)
				}
				if err != nil {
					continue
				}
				out, err := s.routingClient(key).Report(t.Context(), &v1.ReportRequest{DecisionId: id, Outcome: v1.Outcome_OUTCOME_IN_PROGRESS, Lease: durationpb.New(time.Hour)})
				if (err == nil) != !withKeys || withKeys && !strings.Contains(err.Error(), "is not in 1s..10m0s") || !withKeys && !out.GetAccepted() {
					t.Errorf("keys %v, renewed for an hour: %v, %v", withKeys, out, err)
				}
				if out, err := s.routingClient(key).Report(t.Context(), &v1.ReportRequest{DecisionId: id, Outcome: v1.Outcome_OUTCOME_IN_PROGRESS}); err != nil || time.Until(out.GetLeaseDeadline().AsTime()) != lease {
					t.Errorf("keys %v, renewed: %v, %v", withKeys, out, err)
				}
			}
			if withKeys {
				time.Sleep(10*time.Minute + time.Second)
				synctest.Wait()
				if got := s.slotsTaken(); got != 0 {
					t.Errorf("%d slots are held after ten minutes", got)
				}
			} else {
				for s.slotsTaken() < 8 {
					if _, err := s.routed("", 1, 0); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := s.routed("", 1, 0); err == nil || atShare(err) {
					t.Errorf("the ninth of eight slots: %v", err)
				}
			}
			s.stop()
		})
	}
}
