// Package memhttp is a network in memory for tests: listeners, servers and
// clients that never touch a socket, so that programs built on net/http run
// inside a testing/synctest bubble, in virtual time.
//
// A [Network] knows which addresses are listened on. What dials an address that
// nobody listens on is refused; what dials a [Listener] that nobody accepts from
// waits, as at a black hole. Connections are made by net.Pipe and therefore have
// no buffer: a write ends when the other side has read it.
//
//	net := memhttp.NewNetwork()
//	srv, err := net.Serve("b1:8000", handler)
//	t.Cleanup(func() { srv.Close() }) // before the first t.Fatal: see below
//	resp, err := net.Client().Get("http://b1:8000/v1/models")
//
// Inside a bubble everything must be closed before the test function returns,
// a failed assertion included, or synctest reports a deadlock instead of the
// assertion.
package memhttp
