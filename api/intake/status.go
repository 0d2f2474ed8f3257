package intake

import (
	"net/http"

	"github.com/warmroute/warmroute/feedback"
)

// StatusClientClosed is what a request is recorded with whose client left before the
// end. No client ever sees it.
const StatusClientClosed = 499

// Overloaded reports whether a status says that the engine did not start on the request
// and asks for a pause.
func Overloaded(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == 529
}

// Judge says what the status of an engine's whole answer means.
func Judge(status int) (feedback.Result, feedback.Blame) {
	switch {
	case Overloaded(status):
		return feedback.Saturated, feedback.Overloaded
	case status < http.StatusBadRequest:
		return feedback.Success, feedback.Healthy
	case status == http.StatusNotFound:
		return feedback.NotFound, feedback.Healthy
	case status < http.StatusInternalServerError:
		return feedback.Rejected, feedback.Healthy
	case status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported:
		return feedback.EngineError, feedback.Healthy
	}
	return feedback.EngineError, feedback.Strike
}

// BlameFor says what it says of an engine that its answer, well begun, holds an error that
// stands for a status; 0 is one that does not say which. An error in the middle of an answer
// is no sign of health: an engine that answers every request so would look idle, and draw all
// of them.
func BlameFor(errStatus int) feedback.Blame {
	if errStatus == 0 {
		return feedback.Neutral
	}
	_, blame := Judge(errStatus)
	return blame
}
