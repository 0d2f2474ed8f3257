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
