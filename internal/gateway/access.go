package gateway

import (
	"net/http"

	"github.com/warmroute/warmroute/api/keys"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/internal/config"
)

// newRing returns who may use the data plane, nil where that is everybody.
func newRing(configured []config.Key) *keys.Ring {
	if len(configured) == 0 {
		return nil
	}
	return keys.New(keysOf(configured), nil)
}

func keysOf(configured []config.Key) (all []keys.Key) {
	for _, k := range configured {
		all = append(all, keys.Key{
			Name: k.Name, TokenSHA256: k.TokenSHA256, AccessKeyID: k.AccessKeyID, Secret: k.Secret.Reveal(),
			Pools: k.Pools, Tenant: k.Tenant, RequestsPerSecond: k.RequestsPerSecond, TokensPerMinute: k.TokensPerMinute,
		})
	}
	return all
}

// admit lets in those who have one of the keys; nil lets in everybody.
func (g *Gateway) admit() func(*http.Request) (proxy.Visitor, *proxy.Error) {
	if g.ring == nil {
		return nil
	}
	return g.ring.Admit
}

// admitCalls is admit for the routing service.
func (g *Gateway) admitCalls() func(*http.Request) (proxy.Visitor, *proxy.Error) {
	if g.ring == nil {
		return nil
	}
	return g.ring.AdmitToken
}

// others reports whether a pool is for anybody beside an owner of keys; nil where there are none.
func (g *Gateway) others() func(owner, pool string) bool {
	if g.ring == nil {
		return nil
	}
	return g.ring.Others
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
