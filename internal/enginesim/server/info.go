package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// vllmVersion is the release whose behaviour the server follows.
const vllmVersion = "0.24.0"

// modelCard describes one served name.
type modelCard struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"`
	OwnedBy     string   `json:"owned_by"`
	Root        string   `json:"root"`
	Parent      *string  `json:"parent"`
	MaxModelLen *int     `json:"max_model_len"`
	Permission  []string `json:"permission"`
}

type modelList struct {
	Object string      `json:"object"`
	Data   []modelCard `json:"data"`
}

// handleModels serves GET /v1/models: the base model and its adapters.
func (s *Server) handleModels(w http.ResponseWriter, _ *http.Request) {
	list, created := modelList{Object: "list"}, s.fleet.current().started.Unix()
	for i, name := range s.cfg.Model {
		card := modelCard{
			ID: name, Object: "model", Created: created, OwnedBy: "vllm", Root: name, Permission: []string{},
		}
		if i == 0 {
			card.MaxModelLen = &s.maxTokens
		} else {
			card.Parent = &s.cfg.Model[0]
		}
		list.Data = append(list.Data, card)
	}
	writeJSON(w, http.StatusOK, list)
}

// handleHealth serves /health and /ping: 200 and no body while the loop runs,
// asleep or not.
func (s *Server) handleHealth(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-s.fleet.done:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	default:
	}
	if s.faults.isUnhealthy() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// handleLoad serves GET /load: the sequences that have not ended.
func (s *Server) handleLoad(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]int{"server_load": s.fleet.inFlight()})
}

func (s *Server) handleVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": vllmVersion})
}

// handleReset serves POST /reset_prefix_cache, which answers 200 whether or not
// it did anything.
func (s *Server) handleReset(w http.ResponseWriter, r *http.Request) {
	preempt, _ := strconv.ParseBool(r.URL.Query().Get("reset_running_requests"))
	s.fleet.each(func(now time.Duration, engine *enginesim.Engine) {
		engine.ResetPrefixCache(now, preempt)
	})
	w.WriteHeader(http.StatusOK)
}

func (s *Server) handleSleep(w http.ResponseWriter, _ *http.Request) {
	s.fleet.each(func(now time.Duration, engine *enginesim.Engine) { engine.Sleep(now) })
	w.WriteHeader(http.StatusOK)
}

func (s *Server) handleWake(w http.ResponseWriter, _ *http.Request) {
	s.fleet.each(func(now time.Duration, engine *enginesim.Engine) { engine.Wake(now) })
	w.WriteHeader(http.StatusOK)
}

func (s *Server) handleIsSleeping(w http.ResponseWriter, _ *http.Request) {
	sleeping := false
	s.fleet.each(func(_ time.Duration, engine *enginesim.Engine) { sleeping = sleeping || engine.Stats().Sleeping })
	writeJSON(w, http.StatusOK, map[string]bool{"is_sleeping": sleeping})
}

// state is what GET /sim/state shows: the truth that a router can only guess.
type state struct {
	Speed float64 `json:"speed"`
	// ModelTimeSeconds is the time since the start as the model counts it.
	ModelTimeSeconds float64       `json:"model_time_s"`
	Engines          []engineState `json:"engines"`
	totals
	// Recent are the last sequences that ended, oldest first.
	Recent []requestRecord `json:"recent"`
}

// engineState is the state of one engine.
type engineState struct {
	Arriving       int     `json:"arriving"`
	Waiting        int     `json:"waiting"`
	Running        int     `json:"running"`
	BlockSize      int     `json:"block_size"`
	TotalBlocks    int     `json:"total_blocks"`
	FreeBlocks     int     `json:"free_blocks"`
	CachedBlocks   int     `json:"cached_blocks"`
	EvictedBlocks  int64   `json:"evicted_blocks"`
	KVUsage        float64 `json:"kv_usage"`
	QueriedTokens  int64   `json:"queried_tokens"`
	HitTokens      int64   `json:"hit_tokens"`
	ComputedTokens int64   `json:"computed_tokens"`
	Preemptions    int64   `json:"preemptions"`
	Steps          int64   `json:"steps"`
	BusySeconds    float64 `json:"busy_s"`
	Sleeping       bool    `json:"sleeping"`
}

// handleState serves GET /sim/state.
func (s *Server) handleState(w http.ResponseWriter, _ *http.Request) {
	st := state{Speed: s.cfg.Speed}
	engines, _ := s.fleet.stats()
	for _, e := range engines {
		st.Engines = append(st.Engines, engineState{
			Arriving: e.Arriving, Waiting: e.Waiting, Running: e.Running,
			BlockSize: e.BlockSize, TotalBlocks: e.TotalBlocks, FreeBlocks: e.FreeBlocks,
			CachedBlocks: e.CachedBlocks, EvictedBlocks: e.EvictedBlocks, KVUsage: e.KVUsage,
			QueriedTokens: e.PrefixQueries, HitTokens: e.PrefixHits, ComputedTokens: e.ComputedTokens,
			Preemptions: e.Preemptions, Steps: e.Steps, BusySeconds: e.Busy.Seconds(), Sleeping: e.Sleeping,
		})
	}
	s.fleet.mu.Lock()
	st.ModelTimeSeconds = s.fleet.now().Seconds()
	st.totals = s.fleet.totals
	st.Recent = append([]requestRecord{}, s.fleet.recent...)
	s.fleet.mu.Unlock()
	writeJSON(w, http.StatusOK, st)
}
