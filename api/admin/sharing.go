package admin

import "github.com/warmroute/warmroute/kvindex/redisindex"

// sharing is how far the index is shared with other routers.
type sharing struct {
	// State is fresh, cut (the others are not heard now) or alone.
	State string `json:"state"`
	// Pools is the same for each pool; State is that of the pool that is worst off.
	Pools map[string]string `json:"pools"`
	// Peers is how many other routers are heard.
	Peers   int    `json:"peers"`
	Breaker string `json:"breaker"`
	// SyncAge is the time since something that this router wrote last came back, or since
	// its start; Lag is how long that took.
	SyncAge float64 `json:"sync_age_s"`
	Lag     float64 `json:"lag_s"`
	// ClockOffset is what the server's clock is ahead; null before they were compared.
	ClockOffset *float64 `json:"clock_offset_s"`
	Queued      int      `json:"queued"`
	Published   uint64   `json:"published"`
	Dropped     uint64   `json:"dropped"`
	Received    uint64   `json:"received"`
	// Restoring is how many backends are still to be read from Redis, or written again.
	Restoring      int    `json:"restoring"`
	RestoredBlocks uint64 `json:"restored_blocks"`
	// Failures counts failed commands by kind.
	Failures  map[string]uint64 `json:"failures"`
	LastError string            `json:"last_error,omitempty"`
}

// describeSharing returns nil where the index is not meant to be shared.
func (h *handler) describeSharing() *sharing {
	s, ok := h.Sharing()
	if !ok {
		return nil
	}
	shown := &sharing{
		State: s.Sharing.String(), Pools: make(map[string]string), Peers: s.Peers, Breaker: s.Breaker, SyncAge: s.SyncAge.Seconds(), Lag: s.Lag.Seconds(),
		Queued: s.Queued, Published: s.Published, Dropped: s.Dropped, Received: s.Received,
		Restoring: s.Restoring, RestoredBlocks: s.Restored, Failures: make(map[string]uint64), LastError: s.LastError,
	}
	for pool, state := range s.Pools {
		shown.Pools[pool] = state.String()
	}
	if s.ClockKnown {
		shown.ClockOffset = new(s.ClockOffset.Seconds())
	}
	for _, kind := range redisindex.Failures() {
		if n := s.Failures[kind]; n > 0 {
			shown.Failures[kind.String()] = n
		}
	}
	return shown
}
