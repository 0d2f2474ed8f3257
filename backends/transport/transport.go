package transport

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/warmroute/warmroute/backends"
)

// Transport carries requests to backends. Its methods may be called at the same
// time.
type Transport struct {
	config Config
	pools  sync.Map // *backends.Backend → *pool
	closed atomic.Bool
}

// New returns a transport. Settings that are zero, or that [Config.Validate] would
// refuse, are taken as their defaults.
func New(c Config) *Transport {
	return &Transport{config: c.withDefaults()}
}

var errClosed = errors.New("the transport is closed")

// Do sends a request to a backend and returns its answer as soon as the headers are
// there, whatever the status. Informational answers (1xx) are passed over; a switch of
// protocols, which is never asked for, is a failure. If the engine answers before it
// has read the whole body, the answer counts.
//
// The answer's body must be closed. It fails with a [Failure], see [FailureOf], and
// ends the work upstream when it is closed before its end. Trailers are in the
// answer's Trailer once the body was read to its end.
//
// Exactly one of the results is nil. ctx bounds the whole exchange, body included.
func (t *Transport) Do(ctx context.Context, b *backends.Backend, r Request) (*http.Response, *Failure) {
	x := newExchange(ctx, &t.config, b)
	if t.closed.Load() {
		return nil, x.abandon(errClosed)
	}
	req, sent, err := r.build(x.ctx, b)
	if err != nil {
		return nil, x.abandon(err)
	}
	resp, err := t.pool(b).transport().RoundTrip(req)
	x.answer()
	if err != nil {
		sent.Close()
		return nil, x.abandon(err)
	}
	if resp.StatusCode < http.StatusOK { // a switch of protocols, or no status at all
		sent.Close()
		failure := x.refuse(Malformed, "status "+strconv.Itoa(resp.StatusCode)+" is no answer")
		resp.Body.Close() // of a switch, it is the connection itself, and has no end
		return nil, failure
	}
	resp.Body = newBody(x, resp, sent)
	return resp, nil
}

// Get asks a backend for what is at a path below its base URL. It is [Transport.Do]
// for callers that need no more; the error is a [Failure].
func (t *Transport) Get(ctx context.Context, b *backends.Backend, path string, header http.Header) (*http.Response, error) {
	resp, failure := t.Do(ctx, b, Request{Method: http.MethodGet, Path: path, Header: header})
	if failure != nil {
		return nil, failure
	}
	return resp, nil
}

// Forget closes the unused connections of a backend that left. Those in use are
// closed as their answers end.
func (t *Transport) Forget(b *backends.Backend) {
	if p, ok := t.pools.LoadAndDelete(b); ok {
		p.(*pool).close() //nolint:forcetypeassert // only pools are stored
	}
}

// Keep forgets all backends but those in the list.
func (t *Transport) Keep(list []*backends.Backend) {
	present := make(map[*backends.Backend]bool, len(list))
	for _, b := range list {
		present[b] = true
	}
	t.pools.Range(func(b, _ any) bool {
		if b := b.(*backends.Backend); !present[b] { //nolint:forcetypeassert // only backends are keys
			t.Forget(b)
		}
		return true
	})
}

// Close closes all unused connections and refuses requests from now on. Answers
// under way go on to their end.
func (t *Transport) Close() {
	t.closed.Store(true)
	t.pools.Range(func(b, _ any) bool {
		t.Forget(b.(*backends.Backend)) //nolint:forcetypeassert // only backends are keys
		return true
	})
}

func (t *Transport) pool(b *backends.Backend) *pool {
	if p, ok := t.pools.Load(b); ok {
		return p.(*pool) //nolint:forcetypeassert // only pools are stored
	}
	p, _ := t.pools.LoadOrStore(b, newPool(&t.config, b))
	return p.(*pool) //nolint:forcetypeassert // only pools are stored
}
