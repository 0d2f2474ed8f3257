package proxy

import (
	"fmt"
	"net/http"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/feedback"
)

// succeeded reports whether a status is that of a success.
func succeeded(status int) bool {
	return status >= http.StatusOK && status < http.StatusMultipleChoices
}

// refused tells the client in its dialect that the engine's answer is no success.
func (a *attempt) refused(resp *http.Response) {
	x := a.x
	body, err := readUpTo(resp.Body, keepRefusal)
	if gone := x.r.Context().Err(); err != nil && gone != nil {
		e := x.gone()
		a.outcome.Result = e.result()
		x.refuse(e)
		return
	}
	a.outcome.Status = resp.StatusCode
	a.outcome.Result, a.outcome.Blame = intake.Judge(resp.StatusCode)
	if a.outcome.Blame == feedback.Overloaded {
		a.outcome.RetryAfter = retryAfter(resp.Header, x.p.options.Now())
	}
	a.keepSession(resp.Header)
	x.decisionHeaders(x.w.Header(), a)
	x.refuse(refusedBy(a.d.Backend.ID, &Refusal{Status: resp.StatusCode, Header: resp.Header, Body: body[:min(len(body), keepRefusal)]}))
}

// refusedBy is the error that an engine's answer makes.
func refusedBy(backend string, r *Refusal) *Error {
	return &Error{
		Status: http.StatusBadGateway, Code: CodeRefused, Refusal: r,
		Message: fmt.Sprintf("backend %s answered %d", backend, r.Status),
	}
}
