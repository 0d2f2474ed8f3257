package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/feedback/tuning"
	"github.com/warmroute/warmroute/router"
)

// DefaultRecent is how many records are kept for the admin port.
const DefaultRecent = 512

// Options are a telemetry's settings. The zero value works.
type Options struct {
	// Logger gets the access records. Default: they are discarded.
	Logger *slog.Logger
	// Version is the program's version, for build_info. Default "unknown".
	Version string
	// Recent is how many records are kept. Default [DefaultRecent].
	Recent int
	// Dialects are the names that records give to dialects; any other is folded to
	// "other".
	Dialects []string
	// RequestLog says where the request log goes. Default: there is none.
	RequestLog RequestLogConfig
	// Requests, where it is not nil, remembers the requests that ended last.
	Requests *recent.Store
}

// Telemetry counts, logs and remembers. All methods are safe for concurrent use.
type Telemetry struct {
	registry *prometheus.Registry
	metrics  *metrics
	backends *backendCollector
	logger   *slog.Logger
	ring     *ring
	dialects map[string]bool
	router   atomic.Pointer[router.Router]
	requests *requestLog   // nil where there is none
	lately   *recent.Store // nil where nothing is remembered

	reloads   *reloads
	hits      hits
	followers followers
}

// New returns a telemetry with a registry of its own. One that is never run must be closed.
func New(o Options) (*Telemetry, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
	if o.Recent <= 0 {
		o.Recent = DefaultRecent
	}
	t := &Telemetry{
		registry: prometheus.NewRegistry(),
		logger:   o.Logger,
		ring:     newRing(o.Recent),
		lately:   o.Requests,
		dialects: make(map[string]bool),
	}
	for _, name := range o.Dialects {
		t.dialects[name] = true
	}
	m, err := newMetrics(t.registry)
	if err != nil {
		return nil, err
	}
	t.metrics = m
	t.backends = newBackendCollector(&t.router)
	t.reloads = newReloads()
	m.buildInfo.WithLabelValues(o.Version, runtime.Version()).Set(1)
	err = errors.Join(
		t.registry.Register(t.backends),
		t.registry.Register(t.reloads.total),
		t.registry.Register(t.reloads.last),
		t.registry.Register(newPoolCollector(&t.router)),
		t.registry.Register(collectors.NewGoCollector()),
		t.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
	if o.Requests != nil {
		err = errors.Join(err, t.registry.Register(newRecentCollector(o.Requests)))
	}
	if err != nil {
		return nil, err
	}
	if c := o.RequestLog; c.Path != "" {
		file, err := openLineFile(c.Path, c.MaxBytes)
		if err != nil {
			return nil, fmt.Errorf("request_log.path: %w", err)
		}
		t.requests = newRequestLog(file, o.Logger, m.requestLogDropped)
	}
	return t, nil
}

// Stepped counts a step of automatic mode: once when it is made, and once when it has met its fate.
func (t *Telemetry) Stepped(pool string, s *tuning.Step) {
	t.metrics.tuningSteps.WithLabelValues(pool, string(s.Setting), string(s.Fate)).Inc()
}

// Run writes the request log until ctx ends and what was observed before is written, or two
// seconds later. What goes wrong with the file is logged: the error is nil.
func (t *Telemetry) Run(ctx context.Context) error {
	if t.requests != nil {
		t.requests.run(ctx)
	}
	return nil
}

// Close gives up the request log of a telemetry that is not run.
func (t *Telemetry) Close() error {
	if t.requests == nil {
		return nil
	}
	return t.requests.sink.close()
}

// ReadBodies adds a gauge of the bytes of request bodies that are held now.
func (t *Telemetry) ReadBodies(held func() int64) error {
	return t.registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "body_bytes_in_flight", Help: "Bytes of request bodies held now.",
	}, func() float64 { return float64(held()) }))
}

// Watch names the router whose backends are described on each scrape, and makes
// the series of its pools. It is called once its pools are there.
func (t *Telemetry) Watch(r *router.Router) {
	t.router.Store(r)
	dialects := []string{other}
	for name := range t.dialects {
		dialects = append(dialects, name)
	}
	t.metrics.prepare(none, "", dialects)
	for _, p := range r.Pools() {
		t.metrics.prepare(p.Name(), p.Config().Strategy, dialects)
	}
}

// Hooks returns what the router tells telemetry of.
func (t *Telemetry) Hooks() router.Hooks {
	return router.Hooks{
		Decided:      t.decided,
		Completed:    t.completed,
		Ejected:      t.ejected,
		Returned:     t.returned,
		Judged:       t.judged,
		HorizonMoved: t.horizonMoved,
		Accounted:    t.accounted,
		Hopeless:     t.hopeless,
		Silent:       t.silent,
	}
}

// Handler serves the metrics in the formats that Prometheus reads.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorLog:      errorLog{t.logger},
		ErrorHandling: promhttp.ContinueOnError,
		Registry:      t.registry,
	})
}

// Recent returns up to n of the latest records, newest first.
func (t *Telemetry) Recent(n int) []feedback.Record { return t.ring.latest(n) }

// errorLog gives promhttp's complaints to slog.
type errorLog struct{ logger *slog.Logger }

// Println implements promhttp.Logger.
func (l errorLog) Println(v ...any) {
	for _, part := range v {
		if err, ok := part.(error); ok {
			l.logger.Error("metrics", slog.String("error", err.Error()))
		}
	}
}
