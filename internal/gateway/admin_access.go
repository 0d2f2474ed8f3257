package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/warmroute/warmroute/api/admin"
	"github.com/warmroute/warmroute/api/dashboard"
	"github.com/warmroute/warmroute/api/keys"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/api/rpc"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
)

// adminGate lets operators in at the admin port, and everybody to what says whether the router
// is alive and ready.
type adminGate struct {
	operators   atomic.Pointer[keys.Operators]
	certificate bool        // clients must have shown one, too
	openMetrics atomic.Bool // to who has neither
	name        string      // that the port listens by
}

func newAdminGate(c *config.Config) *adminGate {
	g := &adminGate{certificate: c.AdminTLS.ClientCAFile != "", name: hostOf(c.AdminListen)}
	g.configure(c)
	return g
}

// configure has other keys let in from now on.
func (g *adminGate) configure(c *config.Config) {
	var all []keys.Key
	for _, k := range c.AdminKeys {
		all = append(all, keys.Key{Name: k.Name, TokenSHA256: k.TokenSHA256})
	}
	g.operators.Store(keys.NewOperators(all))
	g.openMetrics.Store(c.MetricsWithoutKey)
}

// before is next for those who are let in.
func (g *adminGate) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.open(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		operator, refusal := g.admit(r)
		switch {
		case refusal == nil:
			next.ServeHTTP(w, r.WithContext(rpc.WithOperator(r.Context(), operator)))
		case strings.HasPrefix(r.URL.Path, "/"+warmroutev1connect.AdminServiceName+"/"):
			rpc.Refuse(w, r, refusal)
		default:
			admin.Refuse(w, refusal)
		}
	})
}

// own reports whether the port goes by what a request calls it. Whoever owns a name can have it
// lead here, and then their pages, in the browser of somebody who may reach this port, are pages
// of this port. Nobody can do that with an address.
func (g *adminGate) own(host string) bool {
	name := hostOf(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "" || strings.EqualFold(name, "localhost") || strings.EqualFold(name, g.name)
}

// hostOf is the host of host:port, or of what has no port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

// open reports whether a path is for everybody.
func (g *adminGate) open(path string) bool {
	return path == "/healthz" || path == "/readyz" || dashboard.Serves(path) || path == "/metrics" && g.openMetrics.Load()
}

// admit finds out which operator a request is from, or why it is not let in.
func (g *adminGate) admit(r *http.Request) (operator string, refusal *proxy.Error) {
	if g.certificate && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
		return "", &proxy.Error{
			Status: http.StatusUnauthorized, Code: proxy.CodeNoCredentials,
			Message: "the admin port wants a client certificate that admin_tls.client_ca_file signed",
		}
	}
	operators := g.operators.Load()
	if !operators.Some() {
		if !g.certificate && !g.own(r.Host) {
			return "", &proxy.Error{
				Status: http.StatusMisdirectedRequest, Code: proxy.CodeForbidden,
				Message: fmt.Sprintf("the admin port has no keys (admin_keys), so it answers by its addresses, %q and localhost only, not as %q", g.name, r.Host),
			}
		}
		return "", nil
	}
	token := keys.Token(r)
	if token == "" {
		return "", &proxy.Error{
			Status: http.StatusUnauthorized, Code: proxy.CodeNoCredentials, Challenge: "Bearer",
			Message: "the admin port wants a key: send Authorization: Bearer … with one of admin_keys (warmroute: WARMROUTE_ADMIN_KEY)",
		}
	}
	name, known := operators.Who(token)
	if !known {
		return "", &proxy.Error{
			Status: http.StatusUnauthorized, Code: proxy.CodeBadCredentials, Challenge: "Bearer",
			Message: "the key is not one of the admin port's (admin_keys[].token_sha256)",
		}
	}
	return name, nil
}
