package memhttp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// Network is a set of addresses in memory. Its methods may be called at the same
// time. Inside a synctest bubble a network belongs to the bubble it was made in.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*Listener
}

// NewNetwork returns a network on which nobody listens.
func NewNetwork() *Network {
	return &Network{listeners: make(map[string]*Listener)}
}

// Listen takes an address, given as host:port. It fails when the address is taken.
func (n *Network) Listen(addr string) (*Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: Addr(addr), Err: syscall.EADDRINUSE}
	}
	var l *Listener
	l = newListener(addr, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.listeners[addr] == l {
			delete(n.listeners, addr)
		}
	})
	n.listeners[addr] = l
	return l, nil
}

// DialContext connects to an address; it has the shape that http.Transport wants.
// An address that nobody listens on is refused at once, as by a host that is up.
func (n *Network) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: Addr(addr), Err: syscall.ECONNREFUSED}
	}
	return l.dial(ctx)
}

// Client returns an HTTP client that dials this network and keeps no idle
// connections, so that nothing is left running after the last body is closed.
func (n *Network) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: n.DialContext, DisableKeepAlives: true}}
}

// Serve starts an HTTP server on an address, given as host:port.
func (n *Network) Serve(addr string, handler http.Handler) (*Server, error) {
	return n.Start(addr, &http.Server{Handler: handler})
}

// Start runs a server that the caller has set up, on an address given as
// host:port. Only [Server.Close] may end it.
func (n *Network) Start(addr string, server *http.Server) (*Server, error) {
	l, err := n.Listen(addr)
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	s := &Server{addr: addr, server: server}
	s.running.Go(func() { s.err = server.Serve(l) })
	return s, nil
}

// Server is an HTTP server on a [Network].
type Server struct {
	addr    string
	server  *http.Server
	running sync.WaitGroup
	err     error // of Serve; read after running
}

// URL returns the server's base URL, http://host:port.
func (s *Server) URL() string { return "http://" + s.addr }

// Close ends the server, its listener and all its connections, and waits until it
// no longer accepts. It may be called again. The error is one that ended the
// server before.
func (s *Server) Close() error {
	closing := s.server.Close()
	s.running.Wait()
	if s.err != nil && s.err != http.ErrServerClosed {
		return fmt.Errorf("server on %s: %w", s.addr, s.err)
	}
	return closing
}
