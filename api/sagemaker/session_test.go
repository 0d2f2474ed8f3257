package sagemaker_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/warmroute/warmroute/api/sagemaker"
	"github.com/warmroute/warmroute/router"
)

// A session stays in the variant that it began in, though others share the endpoint's weight.
func TestSessionsStayInTheirVariant(t *testing.T) {
	blue, green := newEngine(t, nil), newEngine(t, nil)
	f := start(t, nil, func(s *setup) {
		s.pools = []router.PoolSpec{pool("blue", blue.url), pool("green", green.url)}
		s.variants = []sagemaker.Variant{{Endpoint: "ep", Name: "blue", Weight: 1}, {Endpoint: "ep", Name: "green", Weight: 1}}
	})
	used := make(map[string]bool)
	for i := range 12 {
		session := fmt.Sprint("session-", i)
		home := ""
		for turn := range 5 {
			a := f.send(invoke, `{"messages":[]}`, "X-Amzn-SageMaker-Session-Id", session)
			variant := a.Header.Get("X-Amzn-Invoked-Production-Variant")
			if a.StatusCode != http.StatusOK || turn > 0 && variant != home {
				t.Errorf("turn %d of %s: %d in variant %s, before in %s", turn, session, a.StatusCode, variant, home)
			}
			home = variant
		}
		used[home] = true
	}
	if len(used) != 2 {
		t.Errorf("all sessions are in %v", used)
	}
}
