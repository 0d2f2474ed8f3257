package gateway

import (
	"io"
	"net/http"

	"github.com/warmroute/warmroute/api/keys"
	"github.com/warmroute/warmroute/api/proxy"
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
		all = append(all, keys.Key{Name: k.Name, AccessKeyID: k.AccessKeyID, Secret: k.Secret.Reveal(), Pools: k.Pools})
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
