package admin

import (
	"fmt"
	"net/http"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/router"
)

// readiness is the answer of /readyz.
type readiness struct {
	// Status is ready, degraded, starting, unavailable or stopping. Degraded is ready: the
	// index is not shared with other routers at the moment, although it is meant to be.
	// Starting: not all that discovery asks has answered yet.
	Status   string          `json:"status"`
	Backends int             `json:"backends"`
	Serving  int             `json:"serving"`
	Pools    []poolReadiness `json:"pools"`
}

// poolReadiness counts a pool's backends by what keeps them from serving.
type poolReadiness struct {
	Name        string `json:"name"`
	Backends    int    `json:"backends"`
	Serving     int    `json:"serving"`
	Up          int    `json:"up"`
	Cooling     int    `json:"cooling"`
	Ejected     int    `json:"ejected"`
	Draining    int    `json:"draining"`
	Asleep      int    `json:"asleep"`
	Unreachable int    `json:"unreachable"`
	// NotAnswering and NotLearned are of those that are up or cooling: they did not
	// answer when last asked, or have not said yet what they serve.
	NotAnswering int `json:"not_answering"`
	NotLearned   int `json:"not_learned"`
	// Discovering: some source of its backends has yet to answer for the first time.
	Discovering bool `json:"discovering"`
}

func (h *handler) readyz(w http.ResponseWriter, _ *http.Request) {
	r := h.readiness()
	status := http.StatusOK
	if !r.ready() {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "2")
	}
	reply(w, status, r)
}

// Ready reports what /readyz does, and says it in a few words.
func Ready(o Options) (ready bool, words string) {
	h := &handler{o.withDefaults()}
	r := h.readiness()
	return r.ready(), fmt.Sprintf("%s: %d of %d backends can serve", r.Status, r.Serving, r.Backends)
}

// ready reports whether requests are welcome.
func (r readiness) ready() bool { return r.Status == "ready" || r.Status == "degraded" }

func (h *handler) readiness() readiness {
	r := readiness{Status: "ready", Pools: []poolReadiness{}}
	starting := false
	for _, p := range h.Router.Pools() {
		one := h.poolReadiness(p)
		starting = starting || one.Discovering
		r.Backends += one.Backends
		r.Serving += one.Serving
		r.Pools = append(r.Pools, one)
	}
	switch {
	case h.Stopping():
		r.Status = "stopping"
	case starting:
		r.Status = "starting"
	case r.Serving == 0:
		r.Status = "unavailable"
	default:
		if s, shared := h.Sharing(); shared && s.Sharing != router.Fresh {
			r.Status = "degraded"
		}
	}
	return r
}

// poolReadiness counts who can serve: a backend that cools will in a moment, one
// that is ejected may not.
func (h *handler) poolReadiness(p *router.Pool) poolReadiness {
	one := poolReadiness{Name: p.Name(), Discovering: h.Discovering(p)}
	now := h.Now()
	for _, b := range p.Backends() {
		one.Backends++
		switch b.State(now) {
		case backends.Up:
			one.Up++
		case backends.Cooling:
			one.Cooling++
		case backends.Ejected:
			one.Ejected++
			continue
		case backends.Draining:
			one.Draining++
			continue
		case backends.Asleep:
			one.Asleep++
			continue
		case backends.Unreachable:
			if b.OutOfTouch() {
				one.NotAnswering++
			} else {
				one.Unreachable++
			}
			continue
		}
		_, learned := b.Models()
		switch {
		case !h.Answering(b):
			one.NotAnswering++
		case !learned && len(p.Models()) == 0:
			one.NotLearned++
		default:
			one.Serving++
		}
	}
	return one
}
