package memhttp

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// Addr is an address of a [Network], as host:port.
type Addr string

// Network returns "tcp", which is what the connections stand for.
func (Addr) Network() string { return "tcp" }

// String returns the address as host:port.
func (a Addr) String() string { return string(a) }

// Listener is a net.Listener in memory.
type Listener struct {
	addr   Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	leave  func() // takes the listener off its network
}

func newListener(addr string, leave func()) *Listener {
	return &Listener{addr: Addr(addr), conns: make(chan net.Conn), closed: make(chan struct{}), leave: leave}
}

// Accept returns the next connection. After Close it fails with net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, l.failure("accept", net.ErrClosed)
	}
}

// Close refuses every dial from now on and takes the address off the network.
// Connections already accepted go on.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.leave()
	})
	return nil
}

// Addr returns the address listened on.
func (l *Listener) Addr() net.Addr { return l.addr }

// dial waits until the connection is accepted.
func (l *Listener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- &conn{Conn: server, local: l.addr, remote: clientAddr}:
		return &conn{Conn: client, local: clientAddr, remote: l.addr}, nil
	case <-l.closed:
		return nil, l.failure("dial", syscall.ECONNREFUSED)
	case <-ctx.Done():
		err := ctx.Err()
		if err == context.DeadlineExceeded {
			err = os.ErrDeadlineExceeded
		}
		return nil, l.failure("dial", err)
	}
}

func (l *Listener) failure(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Addr: l.addr, Err: err}
}

// clientAddr is where every client seems to be.
const clientAddr = Addr("client:1")

// conn is one end of a pipe with addresses that say something.
type conn struct {
	net.Conn

	local, remote Addr
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }
