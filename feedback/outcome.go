package feedback

import "time"

// Result is how a request ended, as metrics and access records name it. Every
// request has exactly one.
type Result uint8

// The results.
const (
	// Success: the engine answered 2xx or 3xx and the answer reached its end.
	Success Result = iota
	// NotFound: 404, by the router for an unknown model or path, or by the engine.
	NotFound
	// Rejected: any other 4xx but 429, by the router or the engine.
	Rejected
	// Saturated: 429, 503 or 529 because no backend had room.
	Saturated
	// NoBackend: 503 because no backend could serve.
	NoBackend
	// ClientClosed: the client left before the answer's end (499).
	ClientClosed
	// Unavailable: no backend could be reached or gave an answer (502).
	Unavailable
	// Timeout: a backend did not answer in time (504).
	Timeout
	// EngineError: the engine answered 5xx, or an error object under a 200.
	EngineError
	// UpstreamAborted: the engine's answer broke off after its first byte.
	UpstreamAborted
	// RouterError: the router itself failed.
	RouterError
	// Expired: the request was sent by its caller, who did not say what came of it before
	// the decision's lease ended.
	Expired
)

var resultNames = [...]string{
	Success:         "success",
	NotFound:        "not_found",
	Rejected:        "rejected",
	Saturated:       "saturated",
	NoBackend:       "no_backend",
	ClientClosed:    "client_closed",
	Unavailable:     "upstream_unavailable",
	Timeout:         "upstream_timeout",
	EngineError:     "engine_error",
	UpstreamAborted: "upstream_aborted",
	RouterError:     "router_error",
	Expired:         "lease_expired",
}

// String returns the result's name as a metric label.
func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return "unknown"
}

// Results returns all results, for metrics that exist from the start.
func Results() []Result {
	all := make([]Result, len(resultNames))
	for i := range all {
		all[i] = Result(i)
	}
	return all
}

// Blame says what an attempt tells about the health of its backend.
type Blame uint8

// The blames.
const (
	// Neutral: nothing can be said, as when the client left.
	Neutral Blame = iota
	// Healthy: the backend answered; a 4xx is an answer.
	Healthy
	// Strike: the backend could not be reached, broke off, or says it is broken.
	Strike
	// Overloaded: the backend asked for a pause (429, 503, 529).
	Overloaded
)

// Outcome is what came of one attempt on one backend.
type Outcome struct {
	// Now is the moment of the end.
	Now time.Time
	// Result is how it ended.
	Result Result
	// Blame is what it says about the backend.
	Blame Blame
	// RetryAfter is the pause an overloaded backend asked for, 0 when it did not.
	RetryAfter time.Duration
	// Status is the engine's HTTP status, 0 when it gave none.
	Status int
	// FirstByte says whether anything of the body had come back, which means that
	// the prefill was done.
	FirstByte bool
	// Usage is what the engine reported; its Has fields are false when nothing.
	Usage Usage
}

// Answered reports whether the engine answered the prompt, so that its blocks are
// known to be cached.
func (o Outcome) Answered() bool { return o.Result == Success }

// Prefilled reports whether the prompt was prefilled although the answer did not
// reach its end.
func (o Outcome) Prefilled() bool {
	return o.FirstByte && (o.Result == ClientClosed || o.Result == UpstreamAborted || o.Result == Expired)
}
