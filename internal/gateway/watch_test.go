package gateway

import (
	"errors"
	"testing"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/transport"
)

// TestSilenceFollowsEveryLook: what counts is whether the last look found anybody, not
// what began the failure.
func TestSilenceFollowsEveryLook(t *testing.T) {
	g := &Gateway{}
	hooks, b := g.healthHooks(), new(backends.Backend)
	for i, step := range []struct {
		err       error
		answering bool
	}{
		{errors.New("status 500"), true},
		{&transport.Failure{Kind: transport.Dial}, false},
		{errors.New("status 500"), true},
		{&transport.Failure{Kind: transport.FirstByteTimeout}, false},
		{nil, true},
	} {
		hooks.Asked(b, step.err)
		if got := g.silent.answering(b); got != step.answering {
			t.Errorf("look %d (%v): answering is %v, want %v", i+1, step.err, got, step.answering)
		}
	}
}
