package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// Places a request can hang at.
const (
	hangHeaders = "headers"
	hangStream  = "stream"
)

// faultRequest is the body of POST /sim/fault. Faults add up until cleared.
type faultRequest struct {
	// LoseCache empties every engine's prefix cache at once.
	LoseCache bool `json:"lose_cache"`
	// DieAfterEvents resets the connection of every later stream after that
	// many events.
	DieAfterEvents *int `json:"die_after_events"`
	// ErrorAfterEvents ends every later stream with an error event after that
	// many events, the HTTP status being long out.
	ErrorAfterEvents *int `json:"error_after_events"`
	// Hang makes later generation requests hang before their headers
	// ("headers"), or later streams after their first event ("stream"), until
	// cleared.
	Hang string `json:"hang"`
	// Status is the answer to the next Count generation requests; without a
	// count it is to one, with a negative one to all until cleared.
	Status int  `json:"status"`
	Count  *int `json:"count"`
	// RetryAfter is sent along with Status, in seconds.
	RetryAfter *int `json:"retry_after"`
	// Slow makes every step take that many times as long.
	Slow *float64 `json:"slow"`
	// Sleep puts the engines to sleep or wakes them.
	Sleep *bool `json:"sleep"`
	// Restart puts engines in the place of these that know nothing and count from
	// 0, and breaks the connections of the requests under way. The engines' own
	// faults, slow and sleep, end with it.
	Restart bool `json:"restart"`
	// Unhealthy makes /health and /ping answer 503.
	Unhealthy *bool `json:"unhealthy"`
	// Clear ends all faults, before the others of this body take effect.
	Clear bool `json:"clear"`
}

func (f *faultRequest) validate() error {
	switch {
	case f.Hang != "" && f.Hang != hangHeaders && f.Hang != hangStream:
		return fmt.Errorf("hang: must be %q or %q, is %q", hangHeaders, hangStream, f.Hang)
	case f.DieAfterEvents != nil && *f.DieAfterEvents < 0:
		return fmt.Errorf("die_after_events: must be >= 0, is %d", *f.DieAfterEvents)
	case f.ErrorAfterEvents != nil && *f.ErrorAfterEvents < 0:
		return fmt.Errorf("error_after_events: must be >= 0, is %d", *f.ErrorAfterEvents)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("status: must be between 400 and 599, is %d", f.Status)
	case f.Status == 0 && (f.Count != nil || f.RetryAfter != nil):
		return errors.New("count and retry_after: need a status")
	case f.Count != nil && *f.Count == 0:
		return errors.New("count: must not be 0")
	case f.Slow != nil && !(*f.Slow > 0):
		return fmt.Errorf("slow: must be > 0, is %g", *f.Slow)
	}
	return nil
}

// faults is what is broken at the moment.
type faults struct {
	mu         sync.Mutex
	dieAfter   int // -1: not at all
	errorAfter int // -1: not at all
	hang       string
	release    chan struct{} // closed when hanging ends
	status     int
	count      int // negative: no end
	retryAfter *int
	unhealthy  bool
}

func newFaults() *faults { return &faults{dieAfter: -1, errorAfter: -1} }

// streamFault is what strikes one stream.
type streamFault struct {
	dieAfter   int
	errorAfter int
	hang       <-chan struct{} // nil: does not hang
}

// stream returns the faults of a stream that begins now.
func (f *faults) stream() streamFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := streamFault{dieAfter: f.dieAfter, errorAfter: f.errorAfter}
	if f.hang == hangStream {
		fault.hang = f.release
	}
	return fault
}

// next returns what the next generation request meets: a status to refuse it
// with, or a channel to wait for before answering, or neither.
func (f *faults) next() (status int, retryAfter *int, release <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status != 0 {
		status, retryAfter = f.status, f.retryAfter
		if f.count--; f.count == 0 {
			f.status = 0
		}
		return status, retryAfter, nil
	}
	if f.hang == hangHeaders {
		release = f.release
	}
	return 0, nil, release
}

func (f *faults) isUnhealthy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unhealthy
}

// apply puts the faults of a request into force, as far as they are not the
// engines'.
func (f *faults) apply(req *faultRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if req.Clear || req.Hang != "" {
		if f.release != nil {
			close(f.release)
		}
		f.release, f.hang = nil, ""
	}
	if req.Clear {
		f.dieAfter, f.errorAfter, f.status, f.count, f.retryAfter, f.unhealthy = -1, -1, 0, 0, nil, false
	}
	if req.Hang != "" {
		f.hang, f.release = req.Hang, make(chan struct{})
	}
	if req.DieAfterEvents != nil {
		f.dieAfter = *req.DieAfterEvents
	}
	if req.ErrorAfterEvents != nil {
		f.errorAfter = *req.ErrorAfterEvents
	}
	if req.Status != 0 {
		f.status, f.count, f.retryAfter = req.Status, 1, req.RetryAfter
		if req.Count != nil {
			f.count = *req.Count
		}
	}
	if req.Unhealthy != nil {
		f.unhealthy = *req.Unhealthy
	}
}

// handleFault serves POST /sim/fault.
func (s *Server) handleFault(w http.ResponseWriter, r *http.Request) {
	data, apiErr := readBody(w, r)
	if apiErr != nil {
		writeError(w, apiErr)
		return
	}
	var req faultRequest
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(&req)
	if err == nil {
		err = req.validate()
	}
	if err != nil {
		writeError(w, badRequest("fault: "+err.Error(), ""))
		return
	}
	if req.Restart {
		if err := s.fleet.restart(); err != nil {
			writeError(w, badRequest("fault: "+err.Error(), ""))
			return
		}
	}
	s.faults.apply(&req)
	s.fleet.each(func(now time.Duration, engine *enginesim.Engine) {
		applyToEngine(now, engine, &req)
	})
	s.cfg.Logger.Info("fault", slog.String("body", string(bytes.TrimSpace(data))))
	writeJSON(w, http.StatusOK, map[string]bool{"ok": true})
}

// applyToEngine puts the faults that are the engine model's into force.
func applyToEngine(now time.Duration, engine *enginesim.Engine, req *faultRequest) {
	if req.Clear {
		_ = engine.SetSlow(1) // 1 is always valid
		engine.Wake(now)
	}
	if req.LoseCache {
		engine.LoseCache()
	}
	if req.Slow != nil {
		_ = engine.SetSlow(*req.Slow) // validated
	}
	if req.Sleep != nil && *req.Sleep {
		engine.Sleep(now)
	} else if req.Sleep != nil {
		engine.Wake(now)
	}
}

// refuse answers with the status of a fault in the shape of the dialect.
func refuse(w http.ResponseWriter, status int, retryAfter *int, writeErr func(http.ResponseWriter, *apiError)) {
	if retryAfter != nil {
		w.Header().Set("Retry-After", strconv.Itoa(*retryAfter))
	}
	writeErr(w, &apiError{status: status, kind: http.StatusText(status), message: "fault injected by /sim/fault"})
}
