package router

import (
	"fmt"
	"strings"
	"time"
)

// UnknownModelError says that no pool serves the model.
type UnknownModelError struct {
	// Model is the name that was asked for.
	Model string
}

// Error implements error.
func (e *UnknownModelError) Error() string {
	return fmt.Sprintf("the model %q does not exist", e.Model)
}

// NotReadyError says that the model may exist: some pool has not learned yet which
// models its backends serve.
type NotReadyError struct {
	// Model is the name that was asked for; Pool has not heard from its backends.
	Model, Pool string
	// RetryAfter is when to ask again.
	RetryAfter time.Duration
}

// Error implements error.
func (e *NotReadyError) Error() string {
	return fmt.Sprintf("no backend of pool %q has said yet which models it serves, so the model %q is not known to exist", e.Pool, e.Model)
}

// NoBackendError says that no backend can take the request: nothing is wrong with
// the request and waiting for a slot would not help.
type NoBackendError struct {
	Pool, Model string
	// Total is the number of backends in the pool; the others say why they take no
	// part: they do not serve the model, failed this request already, are drained,
	// sleep, or are unreachable.
	Total, OtherModel, Tried, Draining, Asleep, Unreachable int
	// Pin is the backend that was asked for by id, empty when none was.
	Pin string
	// RetryAfter is when to ask again.
	RetryAfter time.Duration
}

// Error implements error.
func (e *NoBackendError) Error() string {
	if e.Pin != "" {
		return fmt.Sprintf("backend %q of pool %q cannot take the request", e.Pin, e.Pool)
	}
	var why []string
	for _, part := range []struct {
		count int
		text  string
	}{
		{e.Tried, "failed this request"},
		{e.Draining, "draining"},
		{e.Asleep, "asleep"},
		{e.Unreachable, "unreachable"},
		{e.OtherModel, "without the model"},
	} {
		if part.count > 0 {
			why = append(why, fmt.Sprintf("%d %s", part.count, part.text))
		}
	}
	if len(why) == 0 {
		return fmt.Sprintf("pool %q has no backend for model %q", e.Pool, e.Model)
	}
	return fmt.Sprintf("pool %q has no backend for model %q: of %d, %s", e.Pool, e.Model, e.Total, strings.Join(why, ", "))
}

// SaturatedError says that every backend is at its ConcurrencyThreshold.
type SaturatedError struct {
	Pool string
	// Backends is how many could take the request if they were not full.
	Backends int
	// Wait is true when the pool lets requests wait for a slot
	// ([Pool.Join]); otherwise the request is to be rejected.
	Wait bool
	// RetryAfter is when to ask again.
	RetryAfter time.Duration
}

// Error implements error.
func (e *SaturatedError) Error() string {
	return fmt.Sprintf("all %d backends of pool %q are at their concurrency_threshold", e.Backends, e.Pool)
}
