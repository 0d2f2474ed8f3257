package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/warmroute/warmroute/api/client"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/router"
)

// A caller of the routing service that asks and never reports holds its tenant's share of the
// slots and no more: others are served meanwhile, and its leases end.
func TestCallersThatNeverReport(t *testing.T) {
	f := start(t, setup{engines: 2, configure: func(c *config.Config) {
		c.Pools[0].Routing.ConcurrencyThreshold, c.Pools[0].Routing.OnSaturation = 4, router.Reject
		for _, name := range []string{"greedy", "other"} {
			c.Keys = append(c.Keys, config.Key{Name: name, TokenSHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(name)))})
		}
	}})
	question := client.Request{Path: "/v1/chat/completions", Body: []byte(`{"model":"sim","messages":[{"role":"user","content":"hi"}]}`)}
	greedy := client.New(f.url, client.WithKey("greedy"), client.WithLease(5*time.Second))
	defer greedy.Close()
	other := client.New(f.url, client.WithKey("other"))
	defer other.Close()
	held := 0
	for range 20 {
		_, err := greedy.Route(t.Context(), question)
		refused, share := errors.AsType[*connect.Error](err)
		switch {
		case err == nil:
			held++
		case !share || refused.Code() != connect.CodeResourceExhausted || refused.Meta().Get("Retry-After") != "1" || !strings.Contains(refused.Message(), "limits.queue_share"):
			t.Fatalf("refused with %v", err)
		}
	}
	if held != 4 {
		t.Errorf("it holds %d slots of 8", held)
	}
	for range 4 {
		d, err := other.Route(t.Context(), question)
		if err != nil {
			t.Fatalf("another caller: %v", err)
		}
		defer func() {
			if err := d.Done(client.Outcome{Ending: client.Answered, Status: 200}); err != nil {
				t.Error(err)
			}
		}()
	}
	if sum := f.inFlight()[0] + f.inFlight()[1]; sum != 8 {
		t.Errorf("%d are in flight", sum)
	}
	f.await("the leases end", func() bool { return f.inFlight()[0]+f.inFlight()[1] == 4 })
	d, err := greedy.Route(t.Context(), question)
	if err != nil {
		t.Fatalf("after its leases: %v", err)
	}
	if err := d.Done(client.Outcome{Ending: client.Canceled}); err != nil {
		t.Error(err)
	}
}
