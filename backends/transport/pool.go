package transport

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/backends"
)

// maxHeaderBytes bounds the headers of an answer.
const maxHeaderBytes = 1 << 20

// pool holds the connections to one backend.
type pool struct {
	config  *Config
	named   bool // by a host name, which may move to another address
	current atomic.Pointer[generation]
}

// generation is the connections made in one stretch of time.
type generation struct {
	transport *http.Transport
	born      time.Time
}

func newPool(c *Config, b *backends.Backend) *pool {
	p := &pool{config: c}
	_, err := netip.ParseAddr(b.URL.Hostname())
	p.named = err != nil
	p.current.Store(p.generate())
	return p
}

// transport returns what carries the next request.
func (p *pool) transport() *http.Transport {
	g := p.current.Load()
	if !p.named || time.Since(g.born) < p.config.MaxConnAge {
		return g.transport
	}
	next := p.generate()
	if p.current.CompareAndSwap(g, next) {
		// Connections in use are closed, not kept, when their answers end.
		g.transport.CloseIdleConnections()
		return next.transport
	}
	return p.current.Load().transport
}

func (p *pool) close() { p.current.Load().transport.CloseIdleConnections() }

func (p *pool) generate() *generation {
	d := dialer{connect: p.config.Connect, dial: p.config.DialContext, tls: &tls.Config{}}
	if p.config.TLS != nil {
		d.tls = p.config.TLS.Clone()
	}
	if len(d.tls.NextProtos) == 0 {
		d.tls.NextProtos = []string{"h2", "http/1.1"}
	}
	return &generation{
		born: time.Now(),
		transport: &http.Transport{
			DialContext:            d.plain,
			DialTLSContext:         d.secure,
			TLSClientConfig:        d.tls,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			IdleConnTimeout:        p.config.IdleConn,
			MaxIdleConns:           p.config.MaxIdlePerBackend,
			MaxIdleConnsPerHost:    p.config.MaxIdlePerBackend,
			MaxResponseHeaderBytes: maxHeaderBytes,
			HTTP2: &http.HTTP2Config{
				// A dead connection must not hold many streams until timeouts.idle.
				SendPingTimeout: 15 * time.Second,
				PingTimeout:     10 * time.Second,
			},
		},
	}
}
