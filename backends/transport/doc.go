// Package transport carries one request to one backend and its answer back: it
// owns the connection pools and the timeouts, and says what kind of failure
// happened. It knows nothing of decisions; whether another backend is tried is
// the caller's business, for which [Kind.Retryable] says what is safe.
//
// Each backend has its own pool, so that the connections of one that left can be
// closed ([Transport.Forget]). A request is never sent twice by this package, with
// one exception that net/http makes on its own: a request without a body, on a
// reused connection that turns out to be closed.
//
// There is no limit on how long an answer may take in all. Three named limits take
// its place: timeouts.connect, timeouts.first_byte and timeouts.idle.
//
//	t := transport.New(transport.DefaultConfig())
//	defer t.Close()
//	resp, failure := t.Do(ctx, backend, transport.Request{
//		Method: http.MethodPost, Path: "/v1/chat/completions", Header: header, Body: body,
//	})
//	if failure != nil {
//		return failure // failure.Kind tells what happened
//	}
//	defer resp.Body.Close() // gives the connection back, or ends the work upstream
package transport
