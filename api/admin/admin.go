package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/scrape"
	"github.com/warmroute/warmroute/kvindex/redisindex"
	"github.com/warmroute/warmroute/router"
)

// Options are what the admin port shows. Only Router must be set.
type Options struct {
	// Router is whose pools are shown.
	Router *router.Router
	// Metrics serves /metrics. Default: 404.
	Metrics http.Handler
	// Recent returns up to n of the latest access records, newest first. Default:
	// none.
	Recent func(n int) []feedback.Record
	// Stopping reports whether the process is shutting down. Default: never.
	Stopping func() bool
	// Answering reports whether a backend answered when it was last asked what it
	// serves. Default: always.
	Answering func(b *backends.Backend) bool
	// Discovering reports whether some source of a pool's backends has yet to answer for the
	// first time, which readiness waits for. Default: none.
	Discovering func(p *router.Pool) bool
	// Scrapes tells how reading a backend's metrics goes; ok is false where they are not
	// read. Default: nobody's are.
	Scrapes func(b *backends.Backend) (status scrape.Status, ok bool)
	// Sharing tells how far the index is shared with other routers; ok is false where it is
	// not meant to be. Default: it is not.
	Sharing func() (status redisindex.Status, ok bool)
	// Version is shown on the index page.
	Version string
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// handler is the admin port's routes.
type handler struct{ Options }

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.Metrics == nil {
		o.Metrics = http.NotFoundHandler()
	}
	if o.Recent == nil {
		o.Recent = func(int) []feedback.Record { return nil }
	}
	if o.Stopping == nil {
		o.Stopping = func() bool { return false }
	}
	if o.Answering == nil {
		o.Answering = func(*backends.Backend) bool { return true }
	}
	if o.Discovering == nil {
		o.Discovering = func(*router.Pool) bool { return false }
	}
	if o.Scrapes == nil {
		o.Scrapes = func(*backends.Backend) (scrape.Status, bool) { return scrape.Status{}, false }
	}
	if o.Sharing == nil {
		o.Sharing = func() (redisindex.Status, bool) { return redisindex.Status{}, false }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// New returns the handler of the admin port.
func New(o Options) http.Handler {
	o = o.withDefaults()
	h := &handler{o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/{$}", h.index)
	mux.Handle("GET /metrics", o.Metrics)
	mux.HandleFunc("GET /healthz", h.healthz)
	mux.HandleFunc("GET /readyz", h.readyz)
	mux.HandleFunc("GET /debug/state", h.state)
	mux.HandleFunc("GET /debug/decisions", h.decisions)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

const indexText = `warmroute %s, admin port

/                   the dashboard
/metrics            Prometheus metrics
/healthz            200 while the process lives
/readyz             200 while some backend can serve, else 503; counts by pool
/debug/state        pools and backends: state, load, index, engines; sharing
/debug/decisions    the latest decisions and why; ?n=50 says how many
/debug/pprof/       profiles of this process
`

func (h *handler) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, indexText, h.Version)
}

func (h *handler) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, "ok\n")
}

// maxDecisions bounds what one answer holds, and is how many records are looked
// through for decisions.
const maxDecisions = 10_000

func (h *handler) decisions(w http.ResponseWriter, r *http.Request) {
	n := 50
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > maxDecisions {
			reply(w, http.StatusBadRequest, problem{Error: fmt.Sprintf("n: want a number in 1..%d", maxDecisions)})
			return
		}
	}
	shown := make([]decision, 0, min(n, 512))
	for _, record := range h.Recent(maxDecisions) {
		if record.DecisionID == "" {
			continue // it ended before any
		}
		if len(shown) == n {
			break
		}
		shown = append(shown, describe(&record))
	}
	reply(w, http.StatusOK, struct {
		Decisions []decision `json:"decisions"`
	}{shown})
}

// Refuse answers a request that is not let in.
func Refuse(w http.ResponseWriter, e *proxy.Error) {
	e.SetHeaders(w.Header())
	reply(w, e.Status, problem{Error: e.Message})
}

type problem struct {
	Error string `json:"error"`
}

// reply writes a JSON answer that must not be cached.
func reply(w http.ResponseWriter, status int, body any) {
	text, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}
