package gateway

import (
	"io"
	"net/http"

	"github.com/warmroute/warmroute/api/keys"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
)

// admit returns what lets in those who have one of the keys, nil where there are none.
func admit(configured []config.Key) func(*http.Request) (proxy.Visitor, *proxy.Error) {
	if len(configured) == 0 {
		return nil
	}
	var all []keys.Key
	for _, k := range configured {
		all = append(all, keys.Key{
			Name: k.Name, TokenSHA256: k.TokenSHA256, AccessKeyID: k.AccessKeyID, Secret: k.Secret.Reveal(),
			Pools: k.Pools, Tenant: k.Tenant, RequestsPerSecond: k.RequestsPerSecond,
		})
	}
	return keys.New(all, nil).Admit
}

// closeRouting answers for the routing service where there are keys: its clients have no
// way to show one. The status is what gRPC's clients read, the body what Connect's do.
func closeRouting(mux *http.ServeMux) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"code":"unauthenticated","message":"the routing service is closed while there are keys"}`)
	})
	mux.Handle("/"+warmroutev1connect.RoutingServiceName+"/", refuse)
}

// credentials are the headers by which a backend's engine lets this router in.
func (g *Gateway) credentials(b *backends.Backend) http.Header {
	if p := g.poolOf(b); p != nil {
		if key := g.config.UpstreamKey(p.Name()); key != "" {
			return http.Header{"Authorization": {"Bearer " + key}}
		}
	}
	return nil
}
