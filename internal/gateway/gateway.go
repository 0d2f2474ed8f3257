package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/api/admin"
	"github.com/warmroute/warmroute/api/anthropic"
	"github.com/warmroute/warmroute/api/dashboard"
	"github.com/warmroute/warmroute/api/keys"
	"github.com/warmroute/warmroute/api/openai"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/api/rpc"
	"github.com/warmroute/warmroute/api/sagemaker"
	"github.com/warmroute/warmroute/backends/discovery"
	"github.com/warmroute/warmroute/backends/health"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/feedback/scrape"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/telemetry"
	"github.com/warmroute/warmroute/kvindex/redisindex"
	"github.com/warmroute/warmroute/router"
)

// Options are what a gateway is made of. Only Config must be set.
type Options struct {
	// Config is how the router is configured.
	Config *config.Config
	// Logger gets access records and events. Default: they are discarded.
	Logger *slog.Logger
	// Level is the lowest level that Logger logs, where that can be changed.
	Level *slog.LevelVar
	// Version is the program's version, for build_info and the admin port.
	Version string
	// Listener and AdminListener take the place of the configured addresses.
	Listener, AdminListener net.Listener
	// DialContext takes the place of the network towards the engines.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Seed makes decision ids and random choices repeatable. 0 means random.
	Seed uint64

	// sources takes the place of what the configuration says of a pool's.
	sources func(*config.Pool) ([]discovery.Named, error)
}

// Gateway is a router process.
type Gateway struct {
	config    *config.Config
	logger    *slog.Logger
	level     *slog.LevelVar // nil where it cannot be changed
	reloading reloading
	router    *router.Router
	shared    *redisindex.Index // nil where the index is this router's own
	transport *transport.Transport
	telemetry *telemetry.Telemetry
	lately    *recent.Store // nil where nothing is remembered
	poller    *health.Poller
	prober    *health.Prober // nil where engines are not probed
	finders   []*finder
	routing   *rpc.Service
	operators *rpc.Admin
	adminGate *adminGate
	ring      *keys.Ring // nil where the data plane is for everybody
	silent    silence
	// scraper is nil where engines' metrics are not read.
	scraper    *scrape.Scraper
	unreadable unreadable

	listener, adminListener net.Listener
	server, adminServer     *http.Server
	readiness               func() (ready bool, words string)
	began                   time.Time
	dataTLS, adminTLS       *secured // nil where the port is not encrypted
	stopping                atomic.Bool
	handling                atomic.Int64 // requests of the data plane
}

// New puts a gateway together and opens its ports. The error names the setting that
// makes no sense, or the port that is taken. A gateway that is never run must be
// closed.
func New(o Options) (*Gateway, error) {
	if _, err := o.Config.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{config: o.Config, logger: o.Logger, level: o.Level, began: time.Now()}
	g.reloading.running = o.Config
	if err := g.build(o); err != nil {
		return nil, err
	}
	if err := g.open(o); err != nil {
		g.unshare()
		g.transport.Close()
		return nil, errors.Join(err, g.telemetry.Close())
	}
	return g, nil
}

// build makes everything but the ports.
func (g *Gateway) build(o Options) error {
	if n := o.Config.Limits.RecentRequestsBytes; n > 0 {
		g.lately = recent.New(int(n))
	}
	var err error
	g.telemetry, err = telemetry.New(telemetry.Options{
		Requests: g.lately,
		Logger:   o.Logger,
		Version:  o.Version,
		Dialects: []string{"openai", "anthropic", "sagemaker", rpc.Dialect},
		RequestLog: telemetry.RequestLogConfig{
			Path: o.Config.RequestLog.Path, MaxBytes: int64(o.Config.RequestLog.MaxBytes),
		},
	})
	if err != nil {
		return err
	}
	seed, random := o.Seed, rand.Uint64
	if seed == 0 {
		seed = rand.Uint64() //nolint:gosec // ids need to differ, not to be secret
	} else {
		random = seeded(seed)
	}
	index, err := g.newIndex()
	if err != nil {
		return err
	}
	g.router = router.New(router.Options{
		Index: index,
		Hooks: g.hooks(),
		Seed:  seed,
		Epoch: time.Now(),
	})
	for _, spec := range o.Config.PoolSpecs() {
		if _, err := g.router.AddPool(spec); err != nil {
			return fmt.Errorf("pool %q: %w", spec.Name, err)
		}
	}
	g.telemetry.Watch(g.router)
	if g.shared != nil {
		g.shared.Share(g.router)
	}

	carrier := o.Config.TransportConfig()
	carrier.DialContext = o.DialContext
	g.transport = transport.New(carrier)
	g.poller = health.NewPoller(health.Config{Header: g.credentials}, g.transport, g.healthHooks())
	if o.Config.Health.Enabled {
		g.prober = g.newProber()
	}
	if o.Config.Scrape.Enabled {
		g.scraper = g.newScraper()
	}
	g.telemetry.ReadScrapes(g.scrapeStatus)
	if err := g.newFinders(o); err != nil {
		return err
	}

	g.ring = newRing(o.Config.Keys)
	forward, err := proxy.New(proxy.Options{
		Router:    g.router,
		Transport: g.transport,
		Limits: proxy.Limits{
			BodyBytes:           int64(o.Config.Limits.BodyBytes),
			BodiesInFlightBytes: int64(o.Config.Limits.BodiesInFlightBytes),
			MaxQueued:           o.Config.Limits.MaxQueued,
			QueueShare:          o.Config.Limits.QueueShare,
		},
		QueueWait:          o.Config.Timeouts.Queue,
		InjectUsage:        o.Config.InjectUsage,
		DecisionHeaders:    o.Config.DecisionHeaders,
		AllowPin:           o.Config.AllowBackendPin,
		ForwardCredentials: o.Config.ForwardsCredentials(),
		UpstreamKey:        o.Config.UpstreamKey,
		ForwardRank:        o.Config.ForwardsRank,
		Admit:              g.admit(),
		KeySeed:            o.Config.KeySeed.Reveal(),
		Stopping:           g.stopping.Load,
		Observe:            g.observe,
		Logger:             o.Logger,
		Random:             random,
	})
	if err != nil {
		return err
	}
	if err := g.telemetry.ReadBodies(forward.Bodies().Held); err != nil {
		return err
	}
	if g.routing, err = newRouting(o, g, forward, random); err != nil {
		return err
	}
	if g.dataTLS, err = g.secure("data", "tls", o.Config.TLS, false); err != nil {
		return err
	}
	if g.adminTLS, err = g.secure("admin", "admin_tls", o.Config.AdminTLS, true); err != nil {
		return err
	}
	g.server = g.newServer(g.dataTLS, g.counted(surfaces(forward, g.routing, g.endpoints(o.Config, forward, random))))
	if g.operators, err = newOperators(o, g); err != nil {
		return err
	}
	shown := admin.Options{
		Router:      g.router,
		Metrics:     g.telemetry.Handler(),
		Recent:      g.telemetry.Recent,
		Stopping:    g.stopping.Load,
		Answering:   g.silent.answering,
		Discovering: g.discovering,
		Scrapes:     g.scrapeStatus,
		Sharing:     g.sharing,
		Version:     o.Version,
	}
	g.adminGate = newAdminGate(o.Config)
	page, err := dashboard.New(o.Version)
	if err != nil {
		return err
	}
	g.adminServer = g.newServer(g.adminTLS, g.adminGate.before(adminSurfaces(g.operators, page, shown)))
	g.readiness = func() (bool, string) { return admin.Ready(shown) }
	return nil
}

// surfaces returns the endpoints of all dialects and the routing service. A path that is
// not written the shortest way is nobody's: the mux would redirect it, which clients of
// these APIs do not follow.
func surfaces(p *proxy.Proxy, routing *rpc.Service, endpoints sagemaker.Options) http.Handler {
	mux := http.NewServeMux()
	routing.Register(mux)
	openai.Register(mux, p)
	anthropic.Register(mux, p)
	sagemaker.Register(mux, endpoints)
	nobodys, noEndpoint := openai.NotFound(p), sagemaker.NotFound(p)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		switch {
		case shortest(path):
			mux.ServeHTTP(w, r)
		case strings.HasPrefix(path, "/endpoints/"):
			noEndpoint.ServeHTTP(w, r)
		default:
			nobodys.ServeHTTP(w, r)
		}
	})
}

// endpoints are the pools behind SageMaker's endpoints.
func (g *Gateway) endpoints(c *config.Config, p *proxy.Proxy, random func() uint64) sagemaker.Options {
	o := sagemaker.Options{Proxy: p, BodyBytes: int64(c.Limits.SageMakerBodyBytes), Random: random}
	for i, pool := range g.router.Pools() { // in the order of the configuration
		for _, name := range c.Pools[i].SageMakerEndpoints {
			o.Variants = append(o.Variants, sagemaker.Variant{
				Endpoint: name, Component: c.Pools[i].InferenceComponent,
				Name: c.Pools[i].VariantName(), Weight: c.Pools[i].VariantWeight, Pool: pool,
			})
		}
	}
	return o
}

// shortest reports whether an escaped path has no segment that is empty, "." or "..",
// other than an empty one at the end.
func shortest(p string) bool {
	short := path.Clean(p)
	return strings.HasPrefix(p, "/") && (p == short || p == short+"/")
}

// open takes the two ports.
func (g *Gateway) open(o Options) error {
	var err error
	if g.listener = o.Listener; g.listener == nil {
		if g.listener, err = listen("listen", g.config.Listen); err != nil {
			return err
		}
	}
	if g.adminListener = o.AdminListener; g.adminListener == nil {
		if g.adminListener, err = listen("admin_listen", g.config.AdminListen); err != nil {
			if o.Listener == nil {
				err = errors.Join(err, g.listener.Close())
			}
			return err
		}
	}
	return nil
}

// Ready reports what /readyz does, and says it in a few words.
func (g *Gateway) Ready() (ready bool, words string) { return g.readiness() }

// ShutdownTime is how long Run takes at most to return once its context has ended.
func (g *Gateway) ShutdownTime() time.Duration {
	return g.config.Timeouts.ShutdownDelay + g.config.Timeouts.ShutdownGrace + 3*settleWait
}

// Addr is the address of the data plane.
func (g *Gateway) Addr() net.Addr { return g.listener.Addr() }

// AdminAddr is the address of the admin port.
func (g *Gateway) AdminAddr() net.Addr { return g.adminListener.Addr() }

// Router returns what decides.
func (g *Gateway) Router() *router.Router { return g.router }

// Requests are those that ended last, nil where the configuration says that none are
// remembered.
func (g *Gateway) Requests() *recent.Store { return g.lately }

// Close gives up the ports of a gateway that is not run.
func (g *Gateway) Close() error {
	g.routing.Close()
	g.operators.Close()
	g.unshare()
	g.transport.Close()
	return errors.Join(g.listener.Close(), g.adminListener.Close(), g.telemetry.Close())
}
