package gateway

import (
	"context"
	"net/http"
	"testing"

	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// newDouble returns a running engine double that serves the model m.
func newDouble(t *testing.T, change func(*server.Config)) http.Handler {
	t.Helper()
	cfg := server.DefaultConfig()
	cfg.Model = []string{"m"}
	if change != nil {
		change(&cfg)
	}
	double, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- double.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return double
}

// fault breaks or mends the double at an address.
func (s *stack) fault(addr, body string) {
	s.t.Helper()
	if status, _, answer := s.request(http.MethodPost, "http://"+addr+"/sim/fault", body, "Content-Type", "application/json"); status != http.StatusOK {
		s.t.Fatalf("fault %s: %d %s", body, status, answer)
	}
}
