package proxy

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/router"
)

// newSession is what a client says as the session's id that wants a new one. The engine
// makes its id.
const newSession = "NEW_SESSION"

// maxSession bounds the id of a session, in characters.
const maxSession = 256

// sessionKey and responseKey name a session and a stored answer of whoever the request is from.
func (x *exchange) sessionKey(id string) router.PinKey {
	return intake.SessionKey(id, x.visitor.Owner(), x.p.options.KeySeed)
}

func (x *exchange) responseKey(id string) router.PinKey {
	return intake.ResponseKey(id, x.visitor.Owner(), x.p.options.KeySeed)
}

// readSession reads the session that the request belongs to, if it does.
func (x *exchange) readSession() *Error {
	ids := x.r.Header[headerSession]
	if len(ids) == 0 {
		return nil
	}
	if len(ids) > 1 || !intake.Printable(ids[0], maxSession) {
		return invalid(fmt.Sprintf("X-Amzn-SageMaker-Session-Id must be %s or 1 to %d printable ASCII characters, the first not a space", newSession, maxSession))
	}
	if ids[0] != newSession {
		x.session = x.sessionKey(ids[0])
	}
	return nil
}

// HasSession reports whether the session of a visitor's request, if it names one, belongs to a
// backend of a pool.
func (p *Proxy) HasSession(r *http.Request, visitor *Visitor, pool *router.Pool) bool {
	id := r.Header.Get(headerSession)
	if id == "" || id == newSession {
		return false
	}
	return pool.Pinned(intake.SessionKey(id, visitor.Owner(), p.options.KeySeed), p.options.Now()) != ""
}

// keepSession takes in what an engine says of sessions: that one has begun, or has ended.
func (a *attempt) keepSession(h http.Header) {
	x, now := a.x, a.x.p.options.Now()
	if id, _, _ := strings.Cut(h.Get(headerSessionBegun), ";"); id != "" {
		x.p.options.Router.Pin(x.target.Pool, x.sessionKey(strings.TrimSpace(id)), a.d.Backend.ID, now)
	}
	if id := strings.TrimSpace(h.Get(headerSessionEnded)); id != "" {
		x.p.options.Router.Pin(x.target.Pool, x.sessionKey(id), "", now)
	}
}

// followPrevious leads a conversation back to the backend that stores it.
func (x *exchange) followPrevious() *Error {
	if !x.call.Stores {
		return nil
	}
	key, err := intake.FollowPrevious(&x.request, x.prompt.PreviousResponseID(), x.visitor.Owner(), x.p.options.KeySeed, x.record.Start)
	if err != nil {
		return &Error{Status: http.StatusNotFound, Code: CodeNotFound, Message: err.Error(), Param: "previous_response_id"}
	}
	if key != 0 {
		x.p.options.Router.Pin(x.target.Pool, key, x.request.Pin, x.record.Start) // it is in use
	}
	return nil
}

// remember notes which backend has an answer that engines store.
func (s *stream) remember() {
	id := s.tap.ResponseID()
	if id == "" {
		return
	}
	s.id = true
	x := s.a.x
	x.p.options.Router.Pin(x.target.Pool, x.responseKey(id), s.a.d.Backend.ID, x.p.options.Now())
}

// findStored finds the backend that stores the answer a request is about. An answer
// that is not remembered can only be where there is nobody else to ask; whose it is, where
// there are keys, nobody knows then.
func (x *exchange) findStored() *Error {
	id := x.call.StoredID(x.r)
	if !plainSegment(id) {
		return &Error{Status: http.StatusNotFound, Code: CodeNotFound, Message: "there is no response with such an id"}
	}
	pool, backend := x.storing(id)
	if backend == nil {
		return &Error{
			Status: http.StatusNotFound, Code: CodeNotFound,
			Message: fmt.Sprintf("the response %q is not known to this router", printed(id)),
		}
	}
	model := ""
	if models, _ := backend.Models(); len(models) > 0 {
		model = models[0].ID // any that it serves: the path does not name one
	}
	x.request = router.Request{Pool: pool, Model: model, N: 1, Pin: backend.ID, PinRequired: true}
	x.target = router.Target{Pool: pool, Model: model}
	x.record.Pool, x.record.Model = pool.Name(), model
	return nil
}

// storing returns the backend that stores an answer, nil where that is not known.
func (x *exchange) storing(id string) (*router.Pool, *backends.Backend) {
	key, pools := x.responseKey(id), x.p.options.Router.Pools()
	for _, pool := range pools {
		at := pool.Pinned(key, x.record.Start)
		for _, b := range pool.Backends() {
			if b.ID == at {
				x.p.options.Router.Pin(pool, key, at, x.record.Start) // it is in use
				return pool, b
			}
		}
	}
	if x.visitor.Owner() == "" && len(pools) == 1 && len(pools[0].Backends()) == 1 {
		return pools[0], pools[0].Backends()[0]
	}
	return nil, nil
}
