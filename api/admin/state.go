package admin

import (
	"net/http"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/router"
)

// fleet is the answer of /debug/state.
type fleet struct {
	Pools []pool `json:"pools"`
}

type pool struct {
	Name     string    `json:"name"`
	Strategy string    `json:"strategy"`
	Models   []string  `json:"models"`
	Backends []backend `json:"backends"`
}

type backend struct {
	ID             string   `json:"id"`
	URL            string   `json:"url"`
	State          string   `json:"state"`
	Answering      bool     `json:"answering"`
	InFlight       int      `json:"in_flight"`
	Limit          int      `json:"limit"`
	QueuedTokens   int      `json:"queued_tokens"`
	IndexBlocks    int      `json:"index_blocks"`
	CapacityBlocks int      `json:"capacity_blocks"`
	EvictedBlocks  uint64   `json:"evicted_blocks"`
	Weight         float64  `json:"weight"`
	Models         []string `json:"models"`
}

func (h *handler) state(w http.ResponseWriter, _ *http.Request) {
	now := h.Now()
	pools := h.Router.Pools()
	listed := make(map[*router.Pool][]string)
	for _, m := range h.Router.Models() {
		listed[m.Pool] = append(listed[m.Pool], m.Name)
	}
	shown := fleet{Pools: make([]pool, 0, len(pools))}
	for _, p := range pools {
		one := pool{Name: p.Name(), Strategy: p.Config().Strategy, Models: named(listed[p]), Backends: []backend{}}
		for _, s := range p.Status(now) {
			one.Backends = append(one.Backends, backend{
				ID: s.Backend.ID, URL: s.Backend.URL.Redacted(), State: s.State.String(), Answering: h.Answering(s.Backend),
				InFlight: s.InFlight, Limit: s.Limit, QueuedTokens: s.Queued,
				IndexBlocks: s.Index.Blocks, CapacityBlocks: s.Index.Capacity, EvictedBlocks: s.Index.Evicted,
				Weight: s.Backend.Weight(), Models: named(served(s.Backend)),
			})
		}
		shown.Pools = append(shown.Pools, one)
	}
	reply(w, http.StatusOK, shown)
}

func served(b *backends.Backend) []string {
	models, _ := b.Models()
	names := make([]string, 0, len(models))
	for _, m := range models {
		names = append(names, m.ID)
	}
	return names
}

// named makes an empty list [] rather than null.
func named(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

// readiness is the answer of /readyz.
type readiness struct {
	// Status is ready, unavailable or stopping.
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
	Unreachable int    `json:"unreachable"`
	// NotAnswering and NotLearned are of those that are up or cooling: they did not
	// answer when last asked, or have not said yet what they serve.
	NotAnswering int `json:"not_answering"`
	NotLearned   int `json:"not_learned"`
}

func (h *handler) readyz(w http.ResponseWriter, _ *http.Request) {
	r := h.readiness()
	status := http.StatusOK
	if r.Status != "ready" {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "2")
	}
	reply(w, status, r)
}

func (h *handler) readiness() readiness {
	r := readiness{Status: "ready", Pools: []poolReadiness{}}
	for _, p := range h.Router.Pools() {
		one := h.poolReadiness(p)
		r.Backends += one.Backends
		r.Serving += one.Serving
		r.Pools = append(r.Pools, one)
	}
	switch {
	case h.Stopping():
		r.Status = "stopping"
	case r.Serving == 0:
		r.Status = "unavailable"
	}
	return r
}

// poolReadiness counts who can serve: a backend that cools will in a moment, one
// that is ejected may not.
func (h *handler) poolReadiness(p *router.Pool) poolReadiness {
	one := poolReadiness{Name: p.Name()}
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
		case backends.Unreachable:
			one.Unreachable++
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
