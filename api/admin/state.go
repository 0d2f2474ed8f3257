package admin

import (
	"net/http"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// fleet is the answer of /debug/state.
type fleet struct {
	Pools []pool `json:"pools"`
	// Sharing is how far the index is shared; absent where it is not meant to be.
	Sharing *sharing `json:"sharing,omitempty"`
}

type pool struct {
	Name     string   `json:"name"`
	Strategy string   `json:"strategy"`
	Models   []string `json:"models"`
	// BytesPerToken is how many bytes of prompt a token is, as answers have shown.
	BytesPerToken float64 `json:"bytes_per_token"`
	// Waiting is how many requests wait for a slot.
	Waiting  int       `json:"waiting"`
	Backends []backend `json:"backends"`
}

type backend struct {
	ID             string  `json:"id"`
	URL            string  `json:"url"`
	State          string  `json:"state"`
	Answering      bool    `json:"answering"`
	InFlight       int     `json:"in_flight"`
	Limit          int     `json:"limit"`
	QueuedTokens   int     `json:"queued_tokens"`
	PrefillRate    float64 `json:"prefill_rate"` // tokens per second
	IndexBlocks    int     `json:"index_blocks"`
	CapacityBlocks int     `json:"capacity_blocks"`
	EvictedBlocks  uint64  `json:"evicted_blocks"`
	// HorizonAge is the time since the horizon; null before it ever moved.
	HorizonAge *float64 `json:"horizon_age_s"`
	// Hopeless: it never confirmed a hit. Silent: its answers report no cached tokens.
	Hopeless bool     `json:"hopeless"`
	Silent   bool     `json:"silent"`
	Weight   float64  `json:"weight"`
	Models   []string `json:"models"`
	// Engine is what its metrics said; null while they said nothing.
	Engine *engine `json:"engine"`
	// Scrape is how reading them goes; null where they are not read.
	Scrape *scraped `json:"scrape"`
}

// engine is what an engine's metrics say of it; null is what they do not say.
type engine struct {
	Name           string   `json:"name"`
	Running        *int     `json:"running"`
	Waiting        *int     `json:"waiting"`
	KVUsage        *float64 `json:"kv_usage"`
	CapacityTokens *int     `json:"capacity_tokens"`
	BlockTokens    *int     `json:"block_tokens"`
	CachingOff     bool     `json:"caching_off"`
	Asleep         *bool    `json:"asleep"`
	// Started is when the process did, in unix seconds.
	Started *float64 `json:"started"`
}

// scraped is how reading an engine's metrics goes.
type scraped struct {
	// Age is the time since they were last read; null when never.
	Age      *float64 `json:"age_s"`
	Duration *float64 `json:"duration_s"`
	Good     uint64   `json:"good"`
	Failed   uint64   `json:"failed"`
	Error    string   `json:"error,omitempty"`
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
		one := pool{
			Name: p.Name(), Strategy: p.Config().Strategy, Models: named(listed[p]),
			BytesPerToken: p.BytesPerToken(), Waiting: p.Waiting(), Backends: []backend{},
		}
		for _, s := range p.Status(now) {
			one.Backends = append(one.Backends, h.describe(s, now))
		}
		shown.Pools = append(shown.Pools, one)
	}
	shown.Sharing = h.describeSharing()
	reply(w, http.StatusOK, shown)
}

func (h *handler) describe(s router.BackendStatus, now time.Time) backend {
	b := backend{
		ID: s.Backend.ID, URL: s.Backend.URL.Redacted(), State: s.State.String(), Answering: h.Answering(s.Backend),
		InFlight: s.InFlight, Limit: s.Limit, QueuedTokens: s.Queued, PrefillRate: s.PrefillRate,
		IndexBlocks: s.Index.Blocks, CapacityBlocks: s.Index.Capacity, EvictedBlocks: s.Index.Evicted,
		Hopeless: s.Hopeless, Silent: s.Silent,
		Weight: s.Backend.Weight(), Models: named(served(s.Backend)),
		Engine: describeEngine(s.Engine), Scrape: h.describeScrape(s.Backend, now),
	}
	if !s.Horizon.IsZero() {
		b.HorizonAge = new(now.Sub(s.Horizon).Seconds())
	}
	return b
}

func describeEngine(s feedback.EngineState) *engine {
	if s.Engine == "" {
		return nil
	}
	return &engine{
		Name:           s.Engine,
		Running:        known(s.Running, s.HasRunning),
		Waiting:        known(s.Waiting, s.HasWaiting),
		KVUsage:        known(s.KVUsage, s.HasKVUsage),
		CapacityTokens: known(s.CapacityTokens, s.CapacityTokens > 0),
		BlockTokens:    known(s.BlockTokens, s.BlockTokens > 0),
		CachingOff:     s.CachingOff,
		Asleep:         known(s.Asleep, s.HasSleep),
		Started:        known(s.Started, s.Started > 0),
	}
}

func (h *handler) describeScrape(b *backends.Backend, now time.Time) *scraped {
	status, ok := h.Scrapes(b)
	if !ok {
		return nil
	}
	shown := &scraped{
		Age:      known(max(now.Sub(status.Last), 0).Seconds(), status.Good > 0),
		Duration: known(status.Took.Seconds(), status.Good > 0),
		Good:     status.Good, Failed: status.Bad,
	}
	if status.Err != nil {
		shown.Error = status.Err.Error()
	}
	return shown
}

// known keeps what is not known apart from 0.
func known[T any](value T, has bool) *T {
	if !has {
		return nil
	}
	return &value
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
