package main

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// link is a stretch of network towards one address: it passes connections on, and can be
// cut, or hold back all that is on its way.
type link struct {
	addr, target string

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	pairs    map[*pair]struct{}
	closed   bool
	open     chan struct{} // closed while bytes pass
}

// pair is one connection over a link.
type pair struct {
	near  *net.TCPConn
	ended chan struct{} // closed when it was reset

	mu     sync.Mutex
	far    *net.TCPConn // nil before there is one
	broken bool
}

// newLink opens a link from a port of loopback to an address.
func newLink(port int, target string) (*link, error) {
	l := &link{
		addr: fmt.Sprintf("127.0.0.1:%d", port), target: target,
		pairs: make(map[*pair]struct{}), open: make(chan struct{}),
	}
	close(l.open)
	return l, l.accept()
}

// refuse lets no new connection through; those that there are stay.
func (l *link) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		l.listener.Close()
		l.listener = nil
	}
}

// accept lets new connections through again.
func (l *link) accept() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil || l.closed {
		return nil
	}
	listener, err := net.Listen("tcp", l.addr) //nolint:noctx // closed by refuse
	if err != nil {
		return fmt.Errorf("link to %s: %w", l.target, err)
	}
	l.listener = listener
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.carry(conn.(*net.TCPConn)) //nolint:forcetypeassert // of a TCP listener
		}
	}()
	return nil
}

// reset breaks every connection on the link.
func (l *link) reset() {
	l.mu.Lock()
	var all []*pair
	for p := range l.pairs {
		all = append(all, p)
	}
	l.mu.Unlock()
	for _, p := range all {
		p.reset()
	}
}

// hold holds back every byte until release; connections stay, and new ones come about.
func (l *link) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
		l.open = make(chan struct{})
	default:
	}
}

// release lets pass what was held back, and all that follows.
func (l *link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
	default:
		close(l.open)
	}
}

// close ends the link for good.
func (l *link) close() {
	l.refuse()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.release()
	l.reset()
}

// pass waits until bytes pass, and reports false when the connection has ended.
func (l *link) pass(p *pair) bool {
	for {
		l.mu.Lock()
		open := l.open
		l.mu.Unlock()
		select {
		case <-open:
			return true
		case <-p.ended:
			return false
		}
	}
}

// carry passes one connection on, in both directions, until it ends.
func (l *link) carry(near *net.TCPConn) {
	p := &pair{near: near, ended: make(chan struct{})}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		p.reset()
		return
	}
	l.pairs[p] = struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.pairs, p)
		l.mu.Unlock()
	}()
	if !l.pass(p) {
		return
	}
	far, err := net.DialTimeout("tcp", l.target, patience) //nolint:noctx // bounded
	if err != nil {
		p.reset()
		return
	}
	other := far.(*net.TCPConn) //nolint:forcetypeassert // dialled as one
	if !p.join(other) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.copy(p, other, near) })
	both.Go(func() { l.copy(p, near, other) })
	both.Wait()
	near.Close()
	far.Close()
}

// copy passes on one direction: its end as an end, its failure as a reset.
func (l *link) copy(p *pair, to, from *net.TCPConn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if !l.pass(p) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				p.reset()
				return
			}
		}
		switch {
		case err == nil:
		case err == io.EOF: //nolint:errorlint // as net.Conn returns it
			_ = to.CloseWrite()
			return
		default:
			p.reset()
			return
		}
	}
}

// join gives a connection its other side, and reports false when it was reset meanwhile.
func (p *pair) join(far *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		abort(far)
		return false
	}
	p.far = far
	return true
}

// reset breaks a connection on both sides, so that both see it broken rather than ended.
func (p *pair) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return
	}
	p.broken = true
	close(p.ended)
	abort(p.near)
	if p.far != nil {
		abort(p.far)
	}
}

// abort closes a connection so that the other end sees a reset.
func abort(c *net.TCPConn) {
	_ = c.SetLinger(0)
	c.Close()
}
