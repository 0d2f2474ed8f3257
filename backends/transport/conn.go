package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// lastWords is how long a connection whose write failed waits for what the server
// said before it hung up. The answer is in the receive buffer already, or it never
// comes; the bound is for a reader that takes its time.
const lastWords = 30 * time.Second

// conn is a connection to a backend. It makes up for two ways in which net/http
// loses the answer of a server that refuses a request early and hangs up:
//
// If the server answers, say with 413, and closes while the body is still being
// written, net/http fails the request as soon as that write fails. So a failed write
// returns only when the reading side has come to its end as well.
//
// If the server answers as soon as it has accepted, say with 503, net/http takes the
// answer for noise on an idle connection. So nothing is read from a new connection
// before something is written to it.
type conn struct {
	net.Conn

	used chan struct{} // closed when writing began
	end  chan struct{} // closed when reading failed or the connection was closed

	use, finish sync.Once
}

func newConn(c net.Conn) *conn {
	return &conn{Conn: c, used: make(chan struct{}), end: make(chan struct{})}
}

// Read reads, once something was written, and notes the end.
func (c *conn) Read(p []byte) (int, error) {
	select {
	case <-c.used:
	case <-c.end:
	}
	n, err := c.Conn.Read(p)
	if err != nil && len(p) > 0 {
		c.finish.Do(func() { close(c.end) })
	}
	return n, err
}

// Write writes all of p, or fails when there is nothing more to read.
func (c *conn) Write(p []byte) (int, error) {
	c.use.Do(func() { close(c.used) })
	n, err := c.Conn.Write(p)
	if err != nil {
		c.awaitEnd()
	}
	return n, err
}

func (c *conn) awaitEnd() {
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-c.end:
	case <-timer.C:
	}
}

// Close closes the connection.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.finish.Do(func() { close(c.end) })
	return err
}

// ReadFrom sends what r has through a buffer that is used again. net/http calls it
// for bodies; without it every body costs a new buffer of 32 KiB.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	buf, _ := buffers.Get().(*[copySize]byte)
	if buf == nil {
		buf = new([copySize]byte)
	}
	defer buffers.Put(buf)
	// Only the Write method of c, or io.Copy would call ReadFrom again.
	return io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{r}, buf[:])
}

const copySize = 32 << 10

// buffers holds buffers for ReadFrom; it is only a cache.
var buffers sync.Pool

// dialer makes connections within timeouts.connect.
type dialer struct {
	connect time.Duration
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	tls     *tls.Config // nil for none
}

// plain opens a connection without TLS.
func (d dialer) plain(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	return d.open(ctx, network, addr)
}

// secure opens a connection and shakes hands, both within the same limit.
func (d dialer) secure(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	raw, err := d.open(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	cfg := d.tls.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(addr)
	}
	c := tls.Client(raw, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, &phaseError{kind: TLS, err: d.explain(ctx, "TLS handshake", addr, err)}
	}
	return c, nil
}

func (d dialer) open(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, &phaseError{kind: Dial, err: d.explain(ctx, "connection", addr, err)}
	}
	return newConn(c), nil
}

func (d dialer) explain(ctx context.Context, what, addr string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no %s with %s within %v (%s): %w", what, addr, d.connect, settingConnect, err)
	}
	return fmt.Errorf("no %s with %s: %w", what, addr, err)
}
