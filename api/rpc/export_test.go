package rpc

import (
	"context"
	"net/http"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
)

// RegisterEmpty adds to mux what takes the calls of the service within the same bounds, by
// the same codecs, and does nothing: what a call costs without a decision.
func (s *Service) RegisterEmpty(mux *http.ServeMux) { s.mount(mux, empty{}) }

type empty struct {
	warmroutev1connect.UnimplementedRoutingServiceHandler
}

func (empty) Route(context.Context, *v1.RouteRequest) (*v1.RouteResponse, error) {
	return &v1.RouteResponse{}, nil
}

// Owners is how many owners hold anything.
func (s *Service) Owners() int {
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	return len(s.held.owners)
}

// HoldAdvice has no advice made until it is released.
func (a *Admin) HoldAdvice() (release func()) {
	a.advisor.turn <- struct{}{}
	return func() { <-a.advisor.turn }
}

// AdviceBeingMade is on how many pools advice is being made, or to be made.
func (a *Admin) AdviceBeingMade() int {
	a.advisor.mu.Lock()
	defer a.advisor.mu.Unlock()
	n := 0
	for _, c := range a.advisor.pools {
		if c.making != nil {
			n++
		}
	}
	return n
}
